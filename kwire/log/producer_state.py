"""What a partition knows of the producers that write to it: epochs, sequences, transactions.

Rules (KIP-98, KIP-360):

- Five batches of each producer are kept. A duplicate of one is not appended; the answer gives the
  offset of the first copy.
- Any other batch must continue the sequence of the last one (sequences wrap at 2**31 - 1), or start
  at 0 in a new epoch. An unknown producer may start anywhere, as in Kafka. A producer of which only
  a marker is known starts at 0.
- An epoch older than the producer's current epoch is fenced.
- A transaction is open from its first batch to its marker. read_committed consumers see nothing
  from the first offset of the oldest open transaction on.
- If the partition has other replicas, the last stable offset stays before an ended transaction
  until its marker is below the high watermark (``ended``), because another leader may not have the
  marker. Transactions that ended before the log was opened don't count: their coordinator has
  decided them for all replicas.
- A partition keeps at most ``kwire.producer.ids.max.per.partition`` producers. Above that it
  forgets the producers that wrote longest ago, by offset, and have no open transaction. A forgotten
  producer counts as unknown, as after ``producer.id.expiration.ms``.

The format on the disk is that of ``kwire.log.producer_snapshot``.

Source: ProducerStateManager, ProducerAppendInfo of Kafka.
"""

from collections import deque
from collections.abc import Callable
from operator import itemgetter

from kwire.errors import ErrorCode, KafkaError
from kwire.log.producer_entry import NO_TRANSACTION, BatchInfo, ProducerEntry
from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import MAX_SEQUENCE, RecordBatch
from kwire.record.control import ControlType, control_type, coordinator_epoch

AWAITED_KEPT = 1000
"""Most producers per partition that ``expect_first`` remembers; the oldest are forgotten."""

NO_LIMIT = (1 << 63) - 1


class ProducerStates:
    """The producers of one partition; ``snapshot_offset`` is the offset of the newest snapshot.

    ``open_transactions`` maps producer ids to first offsets, in ascending order of offsets.
    ``limit`` is the largest number of producers that are kept. ``ended`` are the transactions whose
    markers may not be replicated, as (offset of the marker, first offset), in the order of their
    markers. It is None if the partition has no other replicas.
    """

    def __init__(self, limit: int = NO_LIMIT) -> None:
        self.limit = limit
        self.snapshot_offset = 0
        self.producers: dict[int, ProducerEntry] = {}
        self.open_transactions: dict[int, int] = {}
        self.ended: deque[tuple[int, int]] | None = None
        self._awaited: dict[int, tuple[int, int]] = {}
        self._full_at = 0

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, None if no transaction is open."""
        # The dictionary is in the order of first offsets, so its first entry is the oldest.
        return next(iter(self.open_transactions.values()), None)

    def check(self, batch: RecordBatch) -> BatchInfo | None:
        """Check whether a client's batch may be appended; returns the batch that it duplicates.

        Returns None for a new batch. Raises KafkaError: INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER, and INVALID_TXN_STATE for a batch outside the transaction that
        its producer has open.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            return None
        if batch.producer_epoch < entry.producer_epoch:
            raise _old_epoch(entry, batch.producer_epoch)
        if batch.producer_epoch == entry.producer_epoch:
            repeated = entry.repeated(batch)
            if repeated is not None:
                return repeated
        self._check_sequence(entry, batch)
        if entry.current_txn_first_offset != NO_TRANSACTION and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {batch.producer_id} has an open transaction and writes outside of it.",
            )
        return None

    def goes_on(self, batch: RecordBatch) -> ProducerEntry | None:
        """The producer of a batch that continues its sequence outside transactions, else None.

        A fast path: for such a batch ``check`` would raise nothing, and ``update`` would only call
        ``note`` of the producer.
        """
        entry = self.producers.get(batch.producer_id)
        if (
            entry is None
            or entry.producer_epoch != batch.producer_epoch
            or entry.current_txn_first_offset != NO_TRANSACTION
            or batch.base_sequence != (entry.last_sequence + 1) & MAX_SEQUENCE
            or entry.repeated(batch) is not None
        ):
            return None
        return entry

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Check a producer's epoch before a coordinator writes for it; INVALID_PRODUCER_EPOCH."""
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise _old_epoch(entry, producer_epoch)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, version: int
    ) -> None:
        """Check whether a marker may be written that ends a transaction of this ``version``.

        From version 2 on a marker has a new epoch, unless it has already been written (KIP-890,
        KIP-1228). Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        is_open = entry.current_txn_first_offset != NO_TRANSACTION
        is_current = producer_epoch == entry.producer_epoch
        if producer_epoch < entry.producer_epoch or (version >= 2 and is_current and is_open):
            raise _old_epoch(entry, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"The marker for producer {producer_id} has coordinator epoch {coordinator_epoch}, "
                f"which is older than the current epoch {entry.coordinator_epoch}.",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has an open transaction in this partition and this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset != NO_TRANSACTION
            and entry.producer_epoch == producer_epoch
        )

    def expect_first(self, producer_id: int, producer_epoch: int, first_sequence: int) -> None:
        """Note a batch that may be the first of its producer's transaction here (KIP-890).

        A producer may have several batches in flight. If the first one is refused for now, the
        batches after it must be refused until the first one has been sent again.
        """
        epoch, lowest = self._awaited.get(producer_id, (-1, 0))
        if producer_epoch > epoch or (producer_epoch == epoch and first_sequence < lowest):
            self._awaited[producer_id] = producer_epoch, first_sequence
            if len(self._awaited) > AWAITED_KEPT:
                del self._awaited[next(iter(self._awaited))]

    def check_first(
        self, producer_id: int, producer_epoch: int, first_sequence: int, *, bumps: bool
    ) -> None:
        """Check whether a batch noted by ``expect_first`` may be the first of a transaction here.

        If every transaction has its own epoch (``bumps``), an unknown producer must start at
        sequence 0. Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        self.check_epoch(producer_id, producer_epoch)
        entry = self.producers.get(producer_id)
        epoch, lowest = self._awaited.get(producer_id, (-1, 0))
        is_after = producer_epoch == epoch and first_sequence > lowest
        is_unknown = entry is None or entry.last_offset < 0
        if is_after or (bumps and is_unknown and first_sequence > 0):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: {first_sequence} "
                "(incoming), but its transaction has not begun here.",
            )

    def _check_sequence(self, entry: ProducerEntry, batch: RecordBatch) -> None:
        first = batch.base_sequence
        if batch.producer_epoch != entry.producer_epoch:
            expected = 0 if entry.producer_epoch != -1 else first
        else:
            expected = (entry.last_sequence + 1) & MAX_SEQUENCE
        if first != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id}: "
                f"{first} (incoming), {expected} (expected).",
            )

    def update(self, batch: RecordBatch) -> AbortedTransaction | None:
        """Add an appended batch, whose offsets are assigned; returns the aborted transaction that
        it ends, or None.

        A control batch that compaction has emptied ends no transaction that is still in the log.
        """
        if batch.is_control and not batch.records_count:
            return None
        producer_id = batch.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self._add(producer_id, batch.producer_epoch)
        if batch.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = batch.producer_epoch
            entry.forget_batches()
        entry.timestamp = batch.max_timestamp
        if batch.is_control:
            entry.written_offset = batch.last_offset
            return self._end_transaction(entry, batch)
        entry.add_batch(batch)
        if batch.is_transactional and entry.current_txn_first_offset == NO_TRANSACTION:
            entry.current_txn_first_offset = batch.base_offset
            # The first entry counts as the oldest: one that is there already would keep its place.
            assert batch.producer_id not in self.open_transactions, batch
            newest = next(reversed(self.open_transactions.values()), -1)
            self.open_transactions[batch.producer_id] = batch.base_offset
            if newest > batch.base_offset:  # the offsets of a damaged file
                ordered = sorted(self.open_transactions.items(), key=itemgetter(1))
                self.open_transactions = dict(ordered)
            self._awaited.pop(batch.producer_id, None)
        return None

    def _add(self, producer_id: int, producer_epoch: int) -> ProducerEntry:
        """Add a producer; if there are too many, first forget a tenth of the others."""
        if len(self.producers) >= max(self.limit, self._full_at):
            most = self.limit - self.limit // 10 - 1
            self.keep_latest(most)
            # Open transactions may prevent that, so wait until a tenth more can be forgotten.
            self._full_at = len(self.producers) + self.limit // 10
        entry = ProducerEntry(producer_id, producer_epoch)
        self.producers[producer_id] = entry
        return entry

    def keep_latest(self, most: int) -> None:
        """Forget the producers that wrote longest ago until ``most`` are left.

        A producer with an open transaction is never forgotten.
        """
        excess = len(self.producers) - most
        if excess <= 0:
            return
        idle = [
            (entry.written_offset, producer_id)
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == NO_TRANSACTION
        ]
        idle.sort()
        for _, producer_id in idle[:excess]:
            del self.producers[producer_id]

    def _end_transaction(
        self, entry: ProducerEntry, batch: RecordBatch
    ) -> AbortedTransaction | None:
        kind = control_type(batch)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        entry.coordinator_epoch = coordinator_epoch(batch)
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = NO_TRANSACTION
        self.open_transactions.pop(batch.producer_id, None)
        if self.ended is not None and first_offset != NO_TRANSACTION:
            self.ended.append((batch.base_offset, first_offset))
        if first_offset == NO_TRANSACTION or kind == ControlType.COMMIT:
            return None
        unstable = self.first_unstable_offset
        stable = batch.next_offset if unstable is None else unstable
        return AbortedTransaction(batch.producer_id, first_offset, batch.base_offset, stable)

    def stable_offset(self, high_watermark: int) -> int:
        """The offset below which no transaction is open, or ended without a replicated marker."""
        stable = high_watermark
        for first in self.open_transactions.values():
            stable = min(stable, first)
            break
        for _, first in self.ended or ():
            stable = min(stable, first)
        return stable

    def keep_ended(self) -> None:
        """Note from now on which transactions end: the log has other replicas."""
        if self.ended is None:
            self.ended = deque()

    def forget_ended(self, high_watermark: int) -> None:
        """Forget the ended transactions whose markers are replicated."""
        ended = self.ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    def take_ended(self, before: "ProducerStates", end_offset: int) -> None:
        """Keep the ended transactions of a log that was cut at its end."""
        if before.ended is not None:
            self.ended = deque(one for one in before.ended if one[0] < end_offset)

    def expire(self, age_ms: Callable[[int], int], expiration_ms: int) -> None:
        """Forget producers without open transaction that wrote nothing for ``expiration_ms``."""
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == NO_TRANSACTION
            and age_ms(entry.timestamp) >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]


def _old_epoch(entry: ProducerEntry, producer_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch {producer_epoch} of producer {entry.producer_id} is too old; the current epoch is "
        f"{entry.producer_epoch}.",
    )
