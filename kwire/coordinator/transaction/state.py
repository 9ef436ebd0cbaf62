"""One transactional id: its producer, its transaction, and its transitions between states.

Rules:

- A state never changes in place: a transition returns the next state, which holds once its record
  is written.
- Empty → Ongoing → PrepareCommit | PrepareAbort → CompleteCommit | CompleteAbort → Ongoing …
- With the newer protocol (``client_version`` 2, KIP-890) the end of a transaction bumps the epoch:
  the markers and everything after them carry the new epoch. Then a producer may abort from every
  state at rest, even without an open transaction.
- No client ever gets the epoch 32767, so that one epoch is always left to fence the client with.
  Before that, the producer gets another id, at epoch 0.

Source: TransactionMetadata, TransactionState of Kafka.
"""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 0x7FFF

EPOCH_BUMP_SINCE = 2
"""The first ``transaction.version`` in which the end of a transaction bumps the epoch."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and one of its epochs."""

    producer_id: int
    epoch: int


class TransactionState(IntEnum):
    """Kafka's numbers. The last two are never written; they exist as names for filters."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name as clients and tools show it, like ``CompleteCommit``."""
        return self.name.title().replace("_", "")


PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The end is decided, and the markers are being written."""

AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is open; a transactional id may expire."""


class Transaction(NamedTuple):
    """The state of a transactional id; times in ms since the epoch.

    ``last_producer_epoch`` is the epoch before the last bump, which identifies a repeated request;
    it isn't written. ``previous_producer_id`` is that of the state before. ``next_producer_id``
    follows when the epochs of this id are used up.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch would be the one that is kept for fencing."""
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def is_committing(self) -> bool:
        """Whether the end, decided or done, is a commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """Whether no client may get an epoch after this one."""
    return producer_epoch >= MAX_EPOCH - 1


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int) -> Transaction:
    """The state of a new transactional id; it has no epoch yet."""
    return Transaction(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms)


def increment_epoch(
    transaction: Transaction, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> Transaction:
    """The state with the next epoch, for a producer that begins; this fences other producers.

    ``expected_epoch`` is the epoch that the producer had. If it is the one before the last bump,
    the request was answered before, and the epoch stays. Raises KafkaError: PRODUCER_FENCED.
    """
    epoch, last_epoch = transaction.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected_epoch is not None:
        if transaction.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            last_epoch = transaction.producer_epoch
        elif expected_epoch == transaction.last_producer_epoch:
            epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return _begin_anew(transaction, timeout_ms, now_ms)._replace(
        producer_epoch=epoch, last_producer_epoch=last_epoch
    )


def rotate_producer_id(
    transaction: Transaction,
    producer_id: int,
    timeout_ms: int,
    now_ms: int,
    *,
    keeps_last_epoch: bool,
) -> Transaction:
    """The state with another producer id, for a producer whose epochs are used up."""
    last_epoch = transaction.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
    return _begin_anew(transaction, timeout_ms, now_ms)._replace(
        producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch
    )


def _begin_anew(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    assert transaction.state in AT_REST, transaction
    return transaction._replace(
        state=TransactionState.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
        previous_producer_id=transaction.producer_id,
    )


def fence(transaction: Transaction) -> Transaction:
    """The open transaction at the epoch that fences its producer.

    This is a step on the way to PrepareAbort, and is never written by itself.
    """
    assert transaction.state is TransactionState.ONGOING, transaction
    return transaction._replace(
        producer_epoch=min(transaction.producer_epoch + 1, MAX_EPOCH),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )


def add_partitions(
    transaction: Transaction,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Transaction:
    """The transaction with further partitions, opened if it wasn't open."""
    assert transaction.state in AT_REST or transaction.state is TransactionState.ONGOING, (
        transaction
    )
    return transaction._replace(
        state=TransactionState.ONGOING,
        partitions=transaction.partitions | partitions,
        start_ms=now_ms if transaction.state in AT_REST else transaction.start_ms,
        last_update_ms=now_ms,
        previous_producer_id=transaction.producer_id,
        client_version=client_version,
    )


def prepare_end(
    transaction: Transaction,
    now_ms: int,
    *,
    committed: bool,
    client_version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The state in which the end is decided; in the newer protocol, with the epoch bumped."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if client_version >= EPOCH_BUMP_SINCE:
        epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
    is_open = transaction.state is TransactionState.ONGOING
    assert is_open or (transaction.state in AT_REST and not committed), transaction
    return transaction._replace(
        state=TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        start_ms=transaction.start_ms if is_open else now_ms,
        last_update_ms=now_ms,
        previous_producer_id=transaction.producer_id,
        next_producer_id=next_producer_id,
        client_version=client_version,
    )


def complete(prepared: Transaction, now_ms: int) -> Transaction:
    """The state after the last marker, with the following producer id if there is one."""
    assert prepared.state in PREPARED, prepared
    committed = prepared.is_committing
    producer_id, epoch = prepared.producer_id, prepared.producer_epoch
    bumps = prepared.client_version >= EPOCH_BUMP_SINCE
    if bumps and prepared.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = prepared.next_producer_id, 0
    return prepared._replace(
        state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        partitions=frozenset(),
        last_update_ms=now_ms,
        previous_producer_id=prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
