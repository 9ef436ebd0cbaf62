"""Searching a log by timestamp, a piece at a time.

Rules:

- The result is the *first* record with at least the timestamp. Finding it means opening its batch,
  and decompressing it if need be. Timestamps need not ascend. A segment is skipped if its largest
  timestamp is too small.
- The caller calls ``step`` until ``is_done``. A step reads at most ``HEADERS_PER_STEP`` headers. It
  returns early with a batch that has to be opened; the caller opens it, in a thread if that takes
  long.
- A header may give a largest timestamp that no record of the batch has; then the search goes on.
  After ``MOST_OPENED`` opened batches the next matching header is trusted.
- The log may change between two steps. The search therefore continues by offset, in the segments
  that exist then.
- A batch whose records can't be read, or exceed the limits, counts as one record with the batch's
  base offset and the header's timestamp, because no check has read its records
  (docs/decisions/0011). Readers can continue from that offset.
- Inside ``log.hurry``, a step raises ColdPages instead of waiting for the disk. The next step
  continues where that step stopped.
"""

from typing import NamedTuple, TypeAlias

from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.record.batch import RecordBatch
from kwire.record.batch_scan import BatchHeader
from kwire.record.record_validator import record_times
from kwire.record.streaming_decompressor import NO_LIMITS, BetweenPieces, Limits, do_nothing

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
    """A batch that may hold the record that the search wants.

    That is the first record with at least ``timestamp``, at or after ``start_offset``.
    """

    batch: RecordBatch
    timestamp: int
    start_offset: int

    def search_in_batch(
        self, limits: Limits = NO_LIMITS, between: BetweenPieces = do_nothing
    ) -> _Found | None:
        """Offset and timestamp of the wanted record, None if the batch has none.

        May be called in a thread. Raises InvalidRecords if the batch can't be read, and TooLarge.
        """
        for offset, timestamp in record_times(self.batch, limits, between):
            if timestamp >= self.timestamp and offset >= self.start_offset:
                return offset, timestamp
        return None

    def largest(
        self, limits: Limits = NO_LIMITS, between: BetweenPieces = do_nothing
    ) -> _Found | None:
        """As ``search_in_batch``, but for the first record with the largest timestamp."""
        best: _Found | None = None
        for offset, timestamp in record_times(self.batch, limits, between):
            least = self.timestamp if best is None else best[1] + 1
            if timestamp >= least and offset >= self.start_offset:
                best = offset, timestamp
        return best

    def unread(self) -> _Found | None:
        """Offset and timestamp that stand for the records of a batch that can't be read."""
        offset, timestamp = self.batch.base_offset, self.batch.max_timestamp
        is_right = offset >= self.start_offset and timestamp >= self.timestamp
        return (offset, timestamp) if is_right else None


class TimeSearch:
    """One search for the first record with at least ``timestamp``; ``found`` is the result.

    ``seen_headers`` is the number of headers that the last step has read.
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
        self._last_seen: tuple[LogSegment, int, int] | None = None  # segment, position, base offset

    def step(self) -> BatchToOpen | None:
        """Continue the search. The caller opens the returned batch and calls ``take``."""
        self.seen_headers = 0
        while self.seen_headers < HEADERS_PER_STEP:
            segment = self._next_segment()
            if segment is None:
                self._end_search()
                return None
            for header in segment.headers(self._start(segment)):
                self.seen_headers += 1
                self._last_seen = segment, header.position, header.base_offset
                if header.last_offset >= self._next_offset:
                    if header.max_timestamp >= self._timestamp and self._is_wanted(header):
                        return self._batch_to_open(segment, header)
                    self._next_offset = header.last_offset + 1
                if self.is_done or self.seen_headers >= HEADERS_PER_STEP:
                    return None
            self._next_offset = max(self._next_offset, self._end_of(segment))
            self.seen_headers += 1
        return None

    def search_in_batch(
        self, opening: BatchToOpen, limits: Limits, between: BetweenPieces
    ) -> _Found | None:
        """Look for the record in an opened batch; may be called in a thread."""
        return opening.search_in_batch(limits, between)

    def add_result(self, found: _Found | None) -> None:
        """Take the result of ``search_in_batch``."""
        if found is not None:
            self.found = FoundOffset(*found, self._leader_epoch)
            self.is_done = True

    def _is_wanted(self, header: BatchHeader) -> bool:
        """Whether to open a batch whose header says that it may hold the record."""
        self._opened += 1
        if self._opened <= MOST_OPENED:
            return True
        self._leader_epoch = header.leader_epoch
        self.add_result((max(header.base_offset, self._log.log_start_offset), header.max_timestamp))
        return False

    def _end_search(self) -> None:
        """End the search, because no segment is left."""
        self.is_done = True

    def _next_segment(self) -> LogSegment | None:
        """The next segment that may hold the timestamp, None if there is none."""
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
        """The position to continue at: that of the last batch seen, or one from the indexes."""
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
        """The base offset of the next segment, or the log end offset."""
        segments = self._log.segments
        place = segments.index_of(segment.base_offset) + 1
        return segments[place].base_offset if place < len(segments) else self._log.log_end_offset

    def _batch_to_open(self, segment: LogSegment, header: BatchHeader) -> BatchToOpen:
        opening = BatchToOpen(segment.batch_at(header), self._timestamp, self._log.log_start_offset)
        if not opening.batch.records_count:
            self._opened -= 1  # compaction has emptied the batch: its header isn't wrong
        self._leader_epoch = header.leader_epoch
        self._next_offset = header.last_offset + 1
        return opening


class LargestSearch(TimeSearch):
    """The search for the first record with the largest timestamp in the log.

    The segments give the largest timestamp. If the record lies before the log start offset, the
    headers from that offset on give it instead. Only the batch that contains the log start offset
    has to be opened then, because part of its records don't count.
    """

    def __init__(self, log: PartitionLog) -> None:
        super().__init__(log, max(segment.newest_timestamp() for segment in log.segments))
        self.is_done = self._timestamp < 0
        self._goes_by_headers = False
        self._may_go_by_headers = True
        self._best: FoundOffset | None = None  # from a header whose batch isn't opened yet

    def search_in_batch(
        self, opening: BatchToOpen, limits: Limits, between: BetweenPieces
    ) -> _Found | None:
        """Look for the record in an opened batch; may be called in a thread."""
        search_in_batch = opening.largest if self._goes_by_headers else opening.search_in_batch
        return search_in_batch(limits, between)

    def add_result(self, found: _Found | None) -> None:
        """Take the result of ``search_in_batch``."""
        if not self._goes_by_headers:
            super().add_result(found)
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

    def _end_search(self) -> None:
        self._last_seen = None
        best, self._best = self._best, None
        if best is not None:
            # Open the batch for the exact record. If the header is wrong, the header's answer
            # stays.
            self.found = best
            self._goes_by_headers = False
            self._timestamp, self._next_offset = best.timestamp, best.offset
        elif self._may_go_by_headers:
            self._may_go_by_headers, self._goes_by_headers = False, True
            self._timestamp = self._next_offset = 0
        else:
            self.is_done = True
