"""What a partition was told and what it promised: the list that its log is compared with.

``batches`` are all that were ever appended and not cut again, those before the log start too. Those
before ``acknowledged`` have to be there after the death of the process, those before ``flushed``
after the death of the machine; what lies behind may be there or not. The log start offset is at
least ``sure_start`` after any death.

Gaps: the death of the machine may take the end of a segment that wasn't flushed and leave the
segments after it, and a segment may be left without any batch. So a batch doesn't always begin
where the one before ends, and the log may end after its last batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.log.partition_log import PartitionLog
from kwire.record.batch import RecordBatch
from kwire.record.control import ControlType, control_type
from kwire.record.records import records
from tests.support.log_scan import log_batches
from tests.support.log_state import base_offsets, known_producers
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

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

    ``end`` is the log end offset. ``unsure`` are the producers of which the log may know another
    last batch than ``batches`` have, because batches were lost; ``holes_in_transactions`` says that
    one of these may have begun or ended a transaction.
    ``doubtful`` are the batches of which one may be there after the next start: their appends died,
    or failed and left bytes that the disk refused to cut.
    """

    topic_id: bytes
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    sure_start: int = 0
    acknowledged: int = 0
    flushed: int = 0
    start_limit: int = 0
    leader_epoch: int = 0
    doubtful: list[Batch] = field(default_factory=list)
    deleting: bool = False
    has_gaps: bool = False
    end: int = 0
    unsure: set[int] = field(default_factory=set)
    holes_in_transactions: bool = False
    is_compacted: bool = False

    def append(self, batch: Batch, *, acknowledged: bool) -> None:
        """A batch was written; without an acknowledgement it may be lost again."""
        assert batch.first == self.end
        self.batches.append(batch)
        self.end = batch.end
        if batch.producer is not None and batch.producer.sequence == 0:
            self.unsure.discard(batch.producer.producer_id)
        if acknowledged:
            self.acknowledged = batch.end

    def cut(self, end: int) -> None:
        """What lies behind is gone."""
        assert end <= self.end
        while self.batches and self.batches[-1].end > end:
            cut = self.batches.pop()
            assert cut.first >= end, f"cut at {end}, inside of a batch"
            self._forget(cut, is_hole=False)
        self.end = end
        self.acknowledged, self.flushed = min(self.acknowledged, end), min(self.flushed, end)
        self.start, self.sure_start = min(self.start, end), min(self.sure_start, end)

    def last_of(self, producer_id: int) -> Batch | None:
        """The last batch with records of a producer."""
        mine = (b for b in reversed(self.batches) if b.producer and b.commits is None)
        return next((b for b in mine if b.producer.producer_id == producer_id), None)

    def following(self, producer_id: int, log: PartitionLog) -> Sequence:
        """The sequence that a producer uses next: in a new epoch if it can't know the last one."""
        last = self.last_of(producer_id)
        if producer_id in self.unsure or (last and last.first < base_offsets(log)[0]):
            return Sequence(producer_id, self.epoch_of(producer_id, log) + 1, 0)
        if last is None:
            return Sequence(producer_id, 0, 0)
        assert last.producer is not None
        return last.producer._replace(sequence=last.producer.sequence + len(last.rows))

    def epoch_of(self, producer_id: int, log: PartitionLog) -> int:
        """The newest epoch of a producer that anybody knows, -1 if there is none."""
        last, known = self.last_of(producer_id), known_producers(log).get(producer_id)
        of_last = last.producer.epoch if last is not None and last.producer is not None else -1
        return max(of_last, known.producer_epoch if known is not None else -1)

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
        promised = self._sure_end() if power_lost else self.acknowledged
        found = log.log_end_offset
        if self.doubtful and found > self.end:
            *_, last = log_batches(log)
            self.append(next(b for b in self.doubtful if _is(last, b)), acknowledged=False)
        self.doubtful = []
        assert promised <= found <= self.end, f"{promised} <= {found} <= {self.end}"
        before = [b for b in self.batches if b.end <= log.log_start_offset]
        if power_lost:
            self.lose(log)
            # All of it may be gone, up to a log start offset inside of a batch.
            while found == log.log_start_offset and self.batches and self.batches[-1].end > found:
                self.batches.pop()
        limit = max(self.start, self.start_limit)
        if power_lost and log.log_start_offset == base_offsets(log)[0]:
            # The first segments' names may be gone, if nothing in them was flushed.
            assert not [b for b in before if limit < b.end <= self.flushed]
            limit = max(limit, log.log_start_offset)
        assert self.sure_start <= log.log_start_offset <= limit
        self.cut(found)
        self.start = self.start_limit = log.log_start_offset
        self.acknowledged = found
        self.flushed = min(self.flushed, found)

    def _sure_end(self) -> int:
        """The least log end offset after a power cut.

        Where all that was flushed has been deleted since, the segment may be gone that is empty.
        """
        is_any_left = any(self.start < batch.end <= self.flushed for batch in self.batches)
        return self.flushed if is_any_left else self.sure_start

    def lose(self, log: PartitionLog) -> None:
        """Of what wasn't flushed a segment's end may be gone, and those after it there.

        So may segments that retention had deleted, while others of them are there again.
        """
        there = {offset for b in log_batches(log) for offset in (b.base_offset, b.last_offset)}
        kept, lost = [], []
        for batch in self.batches:
            is_promised = self.start < batch.end <= self.flushed
            is_deleted = batch.end <= log.log_start_offset
            is_there = {batch.first, batch.end - 1} & there
            (kept if is_promised or is_deleted or is_there else lost).append(batch)
        for batch in lost:
            is_hole = batch.end <= log.log_end_offset
            self.has_gaps = self.has_gaps or is_hole
            self._forget(batch, is_hole=is_hole)
        self.batches = kept

    def _forget(self, batch: Batch, *, is_hole: bool) -> None:
        """Note what the log may know otherwise, now that a batch is gone.

        A snapshot may know a producer's batch that isn't there, and so may a producer that has lost
        the first batch of a new epoch. Compaction may have removed a batch because of a later one.
        """
        if batch.producer is None:
            return
        if is_hole or self.is_compacted or batch.producer.sequence == 0:
            self.unsure.add(batch.producer.producer_id)
        if is_hole and (batch.transactional or batch.commits is not None):
            self.holes_in_transactions = True

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
        if self.holes_in_transactions:
            return
        opened, aborted = self.transactions()
        kept = base_offsets(log)[0]
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


def _is(found: RecordBatch, wanted: Batch) -> bool:
    """Whether a batch in a file is what was appended."""
    try:
        _check_batch(found, wanted)
    except AssertionError:
        return False
    return True


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
