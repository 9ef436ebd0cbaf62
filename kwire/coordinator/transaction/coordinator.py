"""The coordinator of the transactional ids that live in one partition of ``__transaction_state``.

Rules:

- Every operation decides by the present state, and puts the record of the next state into its
  decision. The state changes when that record is replayed. A KafkaError is the answer to the
  request, and then nothing has changed.
- A transaction whose end is decided is ``unfinished`` until its markers are written. The driver of
  the coordinator writes them, calls ``markers_written``, and carries out ``complete``.
- While it is unfinished, all other requests of its producer get CONCURRENT_TRANSACTIONS.
- The caller provides new producer ids: an operation that needs a new id and has none raises
  ``ProducerIdNeeded``, and the caller repeats the operation with an id.

Source: TransactionCoordinator, TransactionStateManager of Kafka.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kwire.coordinator.coordinator import Coordinator
from kwire.coordinator.effects import Effects
from kwire.coordinator.transaction.end import EndOfTransaction, may_end
from kwire.coordinator.transaction.records import (
    FLEXIBLE_SINCE,
    parse_key,
    parse_transaction,
    tombstone,
    transaction_record,
)
from kwire.coordinator.transaction.state import (
    AT_REST,
    EPOCH_BUMP_SINCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    fence,
    increment_epoch,
    is_epoch_exhausted,
    new_transaction,
    prepare_end,
    rotate_producer_id,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record

MAX_TOMBSTONES = 1000
"""How many transactional ids expire at a time."""


class ProducerIdNeeded(Exception):
    """The operation needs an unused producer id: the caller has to repeat it with one."""


class TransactionSettings(NamedTuple):
    """Kafka's defaults; times in ms. The names are those of the broker's settings.

    ``transaction_version`` is the level of that feature. Below 2, aborts by the broker don't bump
    the epoch.
    """

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    transaction_version: int = 2


class Decision(NamedTuple):
    """The result of an operation; ``error`` is the answer after the effects are carried out."""

    effects: Effects
    error: ErrorCode = ErrorCode.NONE


class TransactionCoordinator(Coordinator):
    """The transactional ids of one partition, and their transactions."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self.unfinished: dict[str, None] = {}
        self._decided: dict[str, tuple[bytes, Transaction]] = {}

    # Requests of producers

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_producer_id: int | None,
        now_ms: int,
    ) -> Decision:
        """Give a producer its own epoch; an open transaction is aborted first.

        Raises ProducerIdNeeded and KafkaError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT,
        CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        known = self.transactions.get(transactional_id)
        if known is None:
            if new_producer_id is None:
                raise ProducerIdNeeded
            known = new_transaction(transactional_id, new_producer_id, timeout_ms)
        if known.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _is_known(known, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.state is TransactionState.ONGOING:
            # No producer ever gets the epoch that fences the old producer: the new producer
            # repeats its request, and gets the epoch after it.
            aborted = self._abort(known, new_producer_id, now_ms)
            return Decision(aborted, ErrorCode.CONCURRENT_TRANSACTIONS)
        return Decision(self._write(_begun(known, timeout_ms, expected, new_producer_id, now_ms)))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> Effects | None:
        """Add partitions to a transaction, which the first one opens; None if it has them all.

        Raises KafkaError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS, UNSUPPORTED_VERSION.
        """
        known = self._of(transactional_id, producer)
        added = frozenset(partitions)
        if known.state is TransactionState.ONGOING and added <= known.partitions:
            return None
        self._check_supported(client_version)
        return self._write(add_partitions(known, added, client_version, now_ms))

    def check_added(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        """The transaction in which a producer says that it writes; KafkaError as above.

        The caller finds in its ``partitions`` whether a partition was added.
        """
        return self._of(transactional_id, producer)

    def _of(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        """The state of a producer that may continue; KafkaError otherwise."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(transactional_id)
        if known is not None and known.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known is None or known.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.producer_epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return known

    def _check_supported(self, client_version: int) -> None:
        """KafkaError if the record has no room for the data of the newer protocol."""
        if client_version and self.settings.transaction_version < FLEXIBLE_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        new_producer_id: int | None,
        now_ms: int,
        *,
        committed: bool,
        client_version: int,
    ) -> Effects | None:
        """Commit or abort a transaction; None if the request repeats an end that is done.

        Raises ProducerIdNeeded and KafkaError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING,
        PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, UNSUPPORTED_VERSION.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        end = EndOfTransaction(producer.producer_id, producer.epoch, committed, client_version)
        if not may_end(known, end):
            return None
        self._check_supported(client_version)
        next_producer_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_SINCE:
            next_producer_id = _next_producer_id(known, new_producer_id)
        prepared = prepare_end(
            known,
            now_ms,
            committed=committed,
            client_version=client_version,
            next_producer_id=next_producer_id,
        )
        return self._write(prepared)

    # Requests of operators and of the clock

    def timed_out(self, age_ms: Callable[[int], int]) -> list[str]:
        """The transactional ids whose transaction has been open longer than its timeout.

        ``age_ms`` gives the time that has passed since a date.
        """
        return [
            known.transactional_id
            for known in self.transactions.values()
            if _has_timed_out(known, age_ms)
        ]

    def abort_timed_out(
        self,
        transactional_id: str,
        new_producer_id: int | None,
        now_ms: int,
        age_ms: Callable[[int], int],
    ) -> Effects:
        """Abort an open transaction that has timed out, and fence its producer.

        Does nothing if the transaction has ended meanwhile. Raises ProducerIdNeeded.
        """
        known = self.transactions.get(transactional_id)
        if known is None or not _has_timed_out(known, age_ms):
            return Effects()
        return self._abort(known, new_producer_id, now_ms)

    def _abort(self, transaction: Transaction, new_producer_id: int | None, now_ms: int) -> Effects:
        """Abort in place of the producer; the next epoch, of the end or of a bump, fences it."""
        if self.settings.transaction_version < EPOCH_BUMP_SINCE:
            return self._write(
                prepare_end(fence(transaction), now_ms, committed=False, client_version=0)
            )
        prepared = prepare_end(
            transaction,
            now_ms,
            committed=False,
            client_version=EPOCH_BUMP_SINCE,
            next_producer_id=_next_producer_id(transaction, new_producer_id),
        )
        return self._write(prepared)

    def expire_ids(self, age_ms: Callable[[int], int]) -> Effects:
        """Forget transactional ids that were unused for ``transactional.id.expiration.ms``.

        ``age_ms`` gives the least time that has passed since a date.
        """
        effects = Effects(is_atomic=False)
        limit_ms = self.settings.id_expiration_ms
        for known in self.transactions.values():
            if known.state in AT_REST and age_ms(known.last_update_ms) >= limit_ms:
                effects.records.append(tombstone(known.transactional_id))
                if len(effects.records) == MAX_TOMBSTONES:
                    break
        return effects

    # Markers

    def markers_written(self, transactional_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions need no marker of an unfinished transaction any more."""
        prepared = self.transactions[transactional_id]
        assert prepared.state in PREPARED, prepared
        left = prepared.partitions.difference(partitions)
        self.transactions[transactional_id] = prepared._replace(partitions=left)

    def complete(self, transactional_id: str, now_ms: int) -> Effects:
        """Complete an unfinished transaction, whose markers are all written."""
        prepared = self.transactions[transactional_id]
        # A partition without its marker would hide all its later records from read_committed.
        assert not prepared.partitions, prepared
        return self._write(complete(prepared, now_ms))

    # Records

    def _write(self, transaction: Transaction) -> Effects:
        """The effects that write a state; their replay puts it in force."""
        effects = Effects()
        record = transaction_record(transaction, self.settings.transaction_version)
        assert record.value is not None
        assert transaction.producer_epoch >= 0, transaction  # nobody begins without an epoch
        known = self.transactions.get(transaction.transactional_id)
        is_same = known is not None and known.producer_id == transaction.producer_id
        # An epoch that comes again would let a producer in that was fenced.
        assert known is None or not is_same or transaction.producer_epoch >= known.producer_epoch
        self._decided[transaction.transactional_id] = record.value, transaction
        effects.records.append(record)
        return effects

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Apply a record; MalformedRequest if the record is damaged."""
        if record.key is None:
            return
        transactional_id = parse_key(record.key)
        if transactional_id is None:
            return
        self.unfinished.pop(transactional_id, None)
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            return
        value, transaction = self._decided.pop(transactional_id, (None, None))
        if transaction is None or value is not record.value:
            transaction = parse_transaction(transactional_id, record.value)
        self.transactions[transactional_id] = transaction
        if transaction.state in PREPARED:
            self.unfinished[transactional_id] = None

    def begin(self, now_ms: int) -> Effects:
        """Begin after loading; ``unfinished`` transactions continue.

        If an open transaction began at a date in the future, the clock was set back since: its
        timeout counts from now.
        """
        for transactional_id, known in self.transactions.items():
            if known.state is TransactionState.ONGOING and known.start_ms > now_ms:
                self.transactions[transactional_id] = known._replace(start_ms=now_ms)
        return Effects()

    def undo(self, effects: Effects, now_ms: int) -> Effects:
        """Take a decision back whose records couldn't be written."""
        self._decided.clear()
        return Effects()

    # Questions about the state

    def get(self, transactional_id: str) -> Transaction | None:
        """The state of a transactional id."""
        return self.transactions.get(transactional_id)


def _begun(
    transaction: Transaction,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: int | None,
    now_ms: int,
) -> Transaction:
    """A producer with its next epoch, or with another id if no epoch is left.

    Raises ProducerIdNeeded and KafkaError: PRODUCER_FENCED.
    """
    epoch = None if expected is None else expected.epoch
    if not transaction.is_epoch_exhausted:
        return increment_epoch(transaction, timeout_ms, epoch, now_ms)
    if epoch not in (None, transaction.producer_epoch):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if new_producer_id is None:
        raise ProducerIdNeeded
    return rotate_producer_id(
        transaction, new_producer_id, timeout_ms, now_ms, keeps_last_epoch=expected is not None
    )


def _is_known(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether a producer with these former values can be the one of this transactional id.

    It can if the id has no epoch yet, if the producer ids are equal, or if its producer id was the
    previous one and used up its epochs: then the answer with the new id may have been lost.
    """
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (
            expected.producer_id == transaction.previous_producer_id
            and is_epoch_exhausted(expected.epoch)
        )
    )


def _has_timed_out(transaction: Transaction, age_ms: Callable[[int], int]) -> bool:
    return (
        transaction.state is TransactionState.ONGOING
        and age_ms(transaction.start_ms) > transaction.timeout_ms
    )


def _next_producer_id(transaction: Transaction, new_producer_id: int | None) -> int:
    """The producer id that follows an end which uses up the epochs, otherwise -1.

    Raises ProducerIdNeeded.
    """
    if not transaction.is_epoch_exhausted:
        return NO_PRODUCER_ID
    if new_producer_id is None:
        raise ProducerIdNeeded
    return new_producer_id
