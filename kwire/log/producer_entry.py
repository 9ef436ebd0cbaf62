"""A partition's data about one producer, in as little memory as possible.

A broker may know hundreds of thousands of producers, most of which wrote one batch. The numbers of
the last batch are therefore fields of the entry itself. The batches before it are a tuple, and all
entries share the empty tuple. An entry with one batch takes less than 300 bytes, including its
place in a dictionary.
"""

from typing import NamedTuple

from kwire.record.batch import MAX_SEQUENCE, NO_SEQUENCE, RecordBatch

BATCHES_KEPT = 5
NO_TRANSACTION = -1
_NO_OFFSET = -1


class BatchInfo(NamedTuple):
    """The numbers of a producer's batch that are needed to recognize a duplicate of it."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch, its last batches, the first offset of its open transaction (or -1).

    ``last_sequence`` is the sequence of the last record, -1 before the epoch's first record.
    ``last_offset`` is the last offset of the last batch, -1 if there is none. ``offset_delta`` is
    ``last_offset`` minus that batch's first offset. ``written_offset`` is the offset of the last
    write by the producer, or of the last marker by its coordinator; it shows which producer has
    been idle longest.
    """

    __slots__ = (
        "_earlier",
        "batch_timestamp",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_offset",
        "last_sequence",
        "offset_delta",
        "producer_epoch",
        "producer_id",
        "timestamp",
        "written_offset",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_TRANSACTION
        self.timestamp = -1
        self.last_sequence = NO_SEQUENCE
        self.last_offset = _NO_OFFSET
        self.written_offset = _NO_OFFSET
        self.batch_timestamp = -1
        self.offset_delta = 0
        self._earlier: tuple[BatchInfo, ...] = ()

    def add_batch(self, batch: RecordBatch) -> None:
        """Add an appended batch, whose offsets are assigned."""
        if self.last_offset != _NO_OFFSET:
            earlier = self._earlier
            if len(earlier) == BATCHES_KEPT - 1:
                earlier = earlier[1:]
            self._earlier = (*earlier, self._last_batch())
        delta, timestamp = batch.last_offset_delta, batch.max_timestamp
        self.last_sequence = batch.last_sequence
        self.offset_delta = delta
        self.last_offset = self.written_offset = batch.base_offset + delta
        self.batch_timestamp = self.timestamp = timestamp

    def restore(
        self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Set the last batch from a snapshot."""
        self.last_sequence = last_sequence
        self.offset_delta = offset_delta
        self.last_offset = self.written_offset = last_offset
        self.batch_timestamp = timestamp

    def forget_batches(self) -> None:
        """Drop all batches, because a new epoch starts."""
        self.last_sequence = NO_SEQUENCE
        self.last_offset = _NO_OFFSET
        self.offset_delta = 0
        self._earlier = ()

    @property
    def batches(self) -> tuple[BatchInfo, ...]:
        """The last batches of the epoch, at most ``BATCHES_KEPT``, the newest at the end."""
        if self.last_offset == _NO_OFFSET:
            return ()
        return (*self._earlier, self._last_batch())

    def repeated(self, batch: RecordBatch) -> BatchInfo | None:
        """The kept batch that has the same sequences as ``batch``."""
        first = batch.base_sequence
        # The usual batch continues the sequence and equals no kept one, so the test must be cheap.
        for kept in self._earlier:
            if kept.first_sequence == first and kept.last_sequence == batch.last_sequence:
                return kept
        if self.last_offset != _NO_OFFSET and (self.last_sequence - self.offset_delta) in (
            first,
            first - MAX_SEQUENCE - 1,
        ):
            newest = self._last_batch()
            if newest[:2] == (first, batch.last_sequence):
                return newest
        return None

    def _last_batch(self) -> BatchInfo:
        last, delta = self.last_sequence, self.offset_delta
        first = NO_SEQUENCE if last == NO_SEQUENCE else (last - delta) & MAX_SEQUENCE
        return BatchInfo(first, last, self.last_offset, delta, self.batch_timestamp)
