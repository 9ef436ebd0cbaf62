"""Searching a log by timestamp, a piece at a time.

Rules:

- The answer is the *first* record with at least the timestamp, inside its batch and decompressed if
  need be; timestamps need not ascend. The time index says where a segment can be skipped.
- Whoever searches calls ``step`` until ``is_done``. A step looks at ``HEADERS_PER_STEP`` headers at
  most; it ends earlier at a batch that has to be opened, which the caller does, in a thread where
  that takes long.
- A header may lie about its largest timestamp: then the search goes on. After ``MOST_OPENED``
  batches the next header is believed.
- Between two steps the log may change: a search goes on by offset, in the segments there are then.
- A batch whose records can't be read, or are more than the limits allow, counts as one record at
  its base offset with the timestamp of its header: nobody checked them (docs/decisions/0011), and
  readers can go on from there.
- With ``log.hurry`` entered, ColdPages is raised instead of waiting for the disk; the next step
  goes on where this one has come to.
"""

from typing import NamedTuple, TypeAlias

from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.record.batch import RecordBatch
from kwire.record.batch_scan import BatchHeader
from kwire.record.feed import NO_LIMITS, Between, Limits, nothing_between
from kwire.record.walk import record_times

HEADERS_PER_STEP = 500
MOST_OPENED = 100

_Found: TypeAlias = tuple[int, int]
"""Offset and timestamp of a record."""


class FoundOffset(NamedTuple):
    """An offset, the timestamp of its record in ms, and the leader epoch that wrote it."""

    offset: int
    timestamp: int
    leader_epoch: int


class BatchToOpen(NamedTuple):
    """A batch that may hold what is searched: a record with at least ``timestamp``, at or after
    ``start_offset``."""

    batch: RecordBatch
    timestamp: int
    start_offset: int

    def look(self, limits: Limits = NO_LIMITS, between: Between = nothing_between) -> _Found | None:
        """Offset and timestamp of the first such record, None where the batch has none.

        May be called in a thread. Raises InvalidRecords for a batch that can't be read, and
        TooLarge.
        """
        for offset, timestamp in record_times(self.batch, limits, between):
            if timestamp >= self.timestamp and offset >= self.start_offset:
                return offset, timestamp
        return None

    def largest(
        self, limits: Limits = NO_LIMITS, between: Between = nothing_between
    ) -> _Found | None:
        """As ``look``, of the first record that has the largest timestamp."""
        best: _Found | None = None
        for offset, timestamp in record_times(self.batch, limits, between):
            least = self.timestamp if best is None else best[1] + 1
            if timestamp >= least and offset >= self.start_offset:
                best = offset, timestamp
        return best

    def unread(self) -> _Found | None:
        """What stands for the records of a batch that can't be read."""
        offset, timestamp = self.batch.base_offset, self.batch.max_timestamp
        is_right = offset >= self.start_offset and timestamp >= self.timestamp
        return (offset, timestamp) if is_right else None


class TimeSearch:
    """One search, for the first record with at least ``timestamp``; ``found`` is the result.

    ``seen_headers`` is how many headers the last step has looked at.
    """

    def __init__(self, log: PartitionLog, timestamp: int) -> None:
        self.seen_headers = 0
        self.found: FoundOffset | None = None
        self.is_done = False
        self._log = log
        self._timestamp = timestamp
        self._next_offset = log.log_start_offset
        self._opened = 0
        self._leader_epoch = -1  # of the batch that was opened last
        self._last_seen: tuple[LogSegment, int, int] | None = None  # position, base offset

    def step(self) -> BatchToOpen | None:
        """Search on; a batch that has to be opened, after which ``take`` is to be called."""
        self.seen_headers = 0
        while self.seen_headers < HEADERS_PER_STEP:
            segment = self._next_segment()
            if segment is None:
                self._end()
                return None
            for header in segment.headers(self._start(segment)):
                self.seen_headers += 1
                self._last_seen = segment, header.position, header.base_offset
                if header.last_offset >= self._next_offset:
                    if header.max_timestamp >= self._timestamp and self._is_wanted(header):
                        return self._open(segment, header)
                    self._next_offset = header.last_offset + 1
                if self.is_done or self.seen_headers >= HEADERS_PER_STEP:
                    return None
            self._next_offset = max(self._next_offset, self._end_of(segment))
            self.seen_headers += 1
        return None

    def look(self, opening: BatchToOpen, limits: Limits, between: Between) -> _Found | None:
        """Look into a batch; may be called in a thread."""
        return opening.look(limits, between)

    def take(self, found: _Found | None) -> None:
        """Take what looking into the batch has come to."""
        if found is not None:
            self.found = FoundOffset(*found, self._leader_epoch)
            self.is_done = True

    def _is_wanted(self, header: BatchHeader) -> bool:
        """Whether to open a batch whose header says that it may have the record."""
        self._opened += 1
        if self._opened <= MOST_OPENED:
            return True
        self._leader_epoch = header.leader_epoch
        self.take((max(header.base_offset, self._log.log_start_offset), header.max_timestamp))
        return False

    def _end(self) -> None:
        """There are no more segments."""
        self.is_done = True

    def _next_segment(self) -> LogSegment | None:
        """The next segment that may hold such a timestamp."""
        log = self._log
        if self.is_done:
            return None
        self._next_offset = max(self._next_offset, log.log_start_offset)
        if self._next_offset >= log.log_end_offset:
            return None
        for segment in log.segments.from_offset(self._next_offset):
            wanted = self._timestamp
            if segment.max_timestamp >= wanted or segment.newest_timestamp() >= wanted:
                self._next_offset = max(self._next_offset, segment.base_offset)
                return segment
        return None

    def _start(self, segment: LogSegment) -> int:
        """Where in a segment to go on: at the batch that was seen last, or by the indexes."""
        if self._last_seen is not None and self._last_seen[0] is segment:
            _, position, base_offset = self._last_seen
            header = next(segment.headers(position), None)
            if header is not None and header.base_offset == base_offset:
                return position
        entry = segment.time_index.floor(self._timestamp - 1)
        offset = self._next_offset
        if entry:
            offset = max(offset, segment.base_offset + entry[1])
        return segment.position_before(offset)

    def _end_of(self, segment: LogSegment) -> int:
        """The offset where the next segment begins."""
        segments = self._log.segments
        place = segments.index_of(segment.base_offset) + 1
        return segments[place].base_offset if place < len(segments) else self._log.log_end_offset

    def _open(self, segment: LogSegment, header: BatchHeader) -> BatchToOpen:
        opening = BatchToOpen(segment.batch_at(header), self._timestamp, self._log.log_start_offset)
        if not opening.batch.records_count:
            self._opened -= 1  # compaction has emptied it: its header tells no lie
        self._leader_epoch = header.leader_epoch
        self._next_offset = header.last_offset + 1
        return opening


class LargestSearch(TimeSearch):
    """The search for the first record with the largest timestamp of all.

    The segments say which that is. Where it lies before the log start offset, the headers from
    there on do, but for the batch that holds the log start offset: that one is opened.
    """

    def __init__(self, log: PartitionLog) -> None:
        super().__init__(log, max(segment.newest_timestamp() for segment in log.segments))
        self.is_done = self._timestamp < 0
        self._goes_by_headers = False
        self._may_go_by_headers = True
        self._best: FoundOffset | None = None  # by a header, whose batch isn't opened yet

    def look(self, opening: BatchToOpen, limits: Limits, between: Between) -> _Found | None:
        """Look into a batch; may be called in a thread."""
        look = opening.largest if self._goes_by_headers else opening.look
        return look(limits, between)

    def take(self, found: _Found | None) -> None:
        """Take what looking into the batch has come to."""
        if not self._goes_by_headers:
            super().take(found)
        elif found is not None:
            self.found = FoundOffset(*found, self._leader_epoch)
            self._timestamp = found[1] + 1

    def _is_wanted(self, header: BatchHeader) -> bool:
        if not self._goes_by_headers:
            return super()._is_wanted(header)
        if header.base_offset < self._log.log_start_offset:
            return True
        self._best = FoundOffset(header.base_offset, header.max_timestamp, header.leader_epoch)
        self._timestamp = header.max_timestamp + 1
        return False

    def _end(self) -> None:
        self._last_seen = None
        best, self._best = self._best, None
        if best is not None:
            # Now for the record itself; should the header lie, it is believed.
            self.found = best
            self._goes_by_headers = False
            self._timestamp, self._next_offset = best.timestamp, best.offset
        elif self._may_go_by_headers:
            self._may_go_by_headers, self._goes_by_headers = False, True
            self._timestamp = self._next_offset = 0
        else:
            self.is_done = True
