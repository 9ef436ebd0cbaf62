"""What a partition was told and what it promised: the list that its log is compared with.

``batches`` are all that were ever appended and not cut again, those before the log start too. Those
before ``acknowledged`` have to be there after the death of the process, those before ``flushed``
after the death of the machine; what lies behind may be there or not, without holes. The log start
offset is at least ``sure_start`` after any death.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.log.partition_log import PartitionLog
from kwire.record.batch import RecordBatch
from kwire.record.control import ControlType, control_type
from kwire.record.records import records
from kwire.testing.log_scan import log_batches
from kwire.testing.time_lookups import max_timestamp, offset_for_timestamp

Row = tuple[int, bytes | None, bytes | None]
"""Timestamp, key and value of a record."""


class Sequence(NamedTuple):
    """A producer's id and epoch, and the first sequence of a batch."""

    producer_id: int
    epoch: int
    sequence: int


@dataclass
class Batch:
    """A batch as it was appended; of a marker, ``commits`` says how it ends the transaction."""

    first: int
    rows: list[Row]
    leader_epoch: int
    producer: Sequence | None = None
    transactional: bool = False
    commits: bool | None = None

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.first + len(self.rows)


@dataclass
class History:
    """See above; ``start`` is the log start offset, ``start_limit`` what it may have become.

    ``doubtful`` is a batch whose append died or left the log offline.
    """

    topic_id: bytes
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    sure_start: int = 0
    acknowledged: int = 0
    flushed: int = 0
    start_limit: int = 0
    leader_epoch: int = 0
    doubtful: Batch | None = None
    deleting: bool = False
    has_gaps: bool = False
    begins: int = 0
    is_compacted: bool = False

    @property
    def end(self) -> int:
        """The log end offset."""
        return max(self.batch_end, self.begins)

    @property
    def batch_end(self) -> int:
        """The offset after the last batch."""
        return self.batches[-1].end if self.batches else 0

    def append(self, batch: Batch, *, acknowledged: bool) -> None:
        """A batch was written; without an acknowledgement it may be lost again."""
        assert batch.first == self.end
        self.batches.append(batch)
        if acknowledged:
            self.acknowledged = batch.end

    def cut(self, end: int) -> None:
        """What lies behind is gone."""
        while self.batches and self.batches[-1].end > end:
            self.batches.pop()
        assert self.end == end, f"cut at {end}, inside of a batch"
        self.acknowledged, self.flushed = min(self.acknowledged, end), min(self.flushed, end)
        self.start, self.sure_start = min(self.start, end), min(self.sure_start, end)

    def last_of(self, producer_id: int) -> Batch | None:
        """The last batch with records of a producer."""
        mine = (b for b in reversed(self.batches) if b.producer and b.commits is None)
        return next((b for b in mine if b.producer.producer_id == producer_id), None)

    def transactions(self) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
        """The first offset of each open one by producer, and the aborted ones: (producer, first
        offset, marker)."""
        opened: dict[int, int] = {}
        aborted: list[tuple[int, int, int]] = []
        for batch in self.batches:
            if batch.producer is None:
                continue
            producer_id = batch.producer.producer_id
            if batch.commits is None:
                if batch.transactional:
                    opened.setdefault(producer_id, batch.first)
                continue
            first = opened.pop(producer_id, None)
            if first is not None and not batch.commits:
                aborted.append((producer_id, first, batch.first))
        return opened, aborted

    def restarted(self, log: PartitionLog, *, power_lost: bool) -> None:
        """Go on from what a log has after a death: all that was promised, and nothing made up."""
        promised = self.flushed if power_lost else self.acknowledged
        found = log.log_end_offset
        if self.doubtful is not None and found > self.end:
            self.append(self.doubtful, acknowledged=False)
        self.doubtful = None
        assert promised <= found <= self.end, f"{promised} <= {found} <= {self.end}"
        if power_lost:
            self.lose(log)
            # All of it may be gone, up to the log start offset or up to where a segment begins.
            while found == log.log_start_offset and self.batches and self.batches[-1].end > found:
                self.batches.pop()
            self.begins = found if found > self.batch_end else self.begins
        assert self.sure_start <= log.log_start_offset <= max(self.start, self.start_limit)
        self.cut(found)
        self.start = self.start_limit = log.log_start_offset
        self.acknowledged = found
        self.flushed = min(self.flushed, found)

    def lose(self, log: PartitionLog) -> None:
        """Of what wasn't flushed a segment's end may be gone, and those after it there."""
        there = {offset for b in log_batches(log) for offset in (b.base_offset, b.last_offset)}
        sure = max(self.flushed, self.start)  # or deleted, and no loss
        kept = [b for b in self.batches if {b.first, b.end - 1} & there or b.end <= sure]
        self.has_gaps = self.has_gaps or len(kept) < len(
            [b for b in self.batches if b.end <= log.log_end_offset]
        )
        self.batches = kept

    def check_compacted(self, log: PartitionLog) -> None:
        """What is there is what was written there, and every key has its last value."""
        written = {b.first + n: row for b in self.batches for n, row in enumerate(b.rows)}
        found = {
            record.offset: (record.timestamp, record.key, record.value)
            for batch in log_batches(log)
            for record in records(batch)
        }
        assert found.items() <= written.items()
        last = {row[1]: offset for offset, row in sorted(written.items())}
        assert set(last.values()) <= found.keys()

    def check_records(self, log: PartitionLog, first_offset: int) -> None:
        """The files hold the batches that were appended, from an offset on all of them."""
        if self.is_compacted:
            self.check_compacted(log)
            return
        by_offset = {batch.first: batch for batch in self.batches}
        seen = []
        for found in log_batches(log):
            wanted = by_offset[found.base_offset]
            seen.append(wanted.first)
            _check_batch(found, wanted)
        there = [b.first for b in self.batches if b.end > first_offset]
        assert [first for first in seen if by_offset[first].end > first_offset] == there

    def check_transactions(self, log: PartitionLog) -> None:
        """The oldest open one bounds what is stable; the aborted ones are found."""
        opened, aborted = self.transactions()
        kept = log.segments[0].base_offset
        if any(first < kept for first in opened.values()):
            return  # it began in a segment that is gone: the log may know of it or not
        first = min(opened.values(), default=None)
        assert log.first_unstable_offset == (None if first is None else max(first, self.start))
        stable = self.end if first is None else first
        wanted = [a for a in aborted if a[2] >= self.start and kept <= a[1] < stable]
        found = [a[:3] for a in log.aborted_transactions(self.start, stable) if a[1] >= kept]
        assert found == sorted(wanted, key=lambda a: a[1])

    def rows(self) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of every record from the log start on."""
        for batch in self.batches:
            for place, row in enumerate(batch.rows):
                if batch.first + place >= self.start:
                    yield batch.first + place, row[0]

    def check_times(self, log: PartitionLog, timestamp: int) -> None:
        """The first record with at least a timestamp, and the first of those with the largest."""
        found = offset_for_timestamp(log, timestamp, end_offset=log.log_end_offset)
        wanted = next((row for row in self.rows() if row[1] >= timestamp), None)
        assert (found and found[:2]) == wanted
        newest = max_timestamp(log)
        assert (newest and newest[:2]) == max(self.rows(), key=lambda row: row[1], default=None)


def _check_batch(found: RecordBatch, wanted: Batch) -> None:
    """A batch in a file is what was appended."""
    assert (found.base_offset, found.next_offset) == (wanted.first, wanted.end)
    assert found.partition_leader_epoch == wanted.leader_epoch
    if wanted.producer is not None:
        producer = (found.producer_id, found.producer_epoch, found.base_sequence)
        assert producer == wanted.producer
        assert found.is_transactional == wanted.transactional
    if wanted.commits is not None:
        assert control_type(found) == (ControlType.COMMIT if wanted.commits else ControlType.ABORT)
        return
    rows = [(record.timestamp, record.key, record.value) for record in records(found)]
    assert rows == wanted.rows, f"{found!r} has other records"
