"""The segments of a log in the order of their base offsets, and reading across them.

Rules:

- There is always at least one segment. The last one is active: appends go to it.
- A read starts with the batch that holds the offset, returns batches as they are in the file, and
  stays within one segment.

Source: LogSegments and LocalLog of Kafka.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from kwire.log.segment import LogSegment
from kwire.log.transaction_index import AbortedTransaction
from kwire.protocol.file_slice import FileSlice
from kwire.record.batch_scan import BatchHeader

MAX_OFFSET = (1 << 63) - 1


class LogSegments(list[LogSegment]):
    """A list of segments, ascending by base offset."""

    rolled_bytes = 0

    @property
    def written_bytes(self) -> int:
        """A count of appended bytes; only its growth has a meaning."""
        return self.rolled_bytes + self[-1].size_bytes

    def roll(self, new: LogSegment) -> None:
        """Make a new segment the active one."""
        if self:
            # ``index_of`` searches by halves, so base offsets have to ascend.
            assert new.base_offset > self[-1].base_offset, (new.base_offset, len(self))
            self.rolled_bytes += self[-1].size_bytes
        self.append(new)

    @property
    def active(self) -> LogSegment:
        """The segment that appends go to."""
        return self[-1]

    @property
    def size_bytes(self) -> int:
        """Size of all segments, in bytes."""
        return sum(segment.size_bytes for segment in self)

    def index_of(self, offset: int) -> int:
        """The index of the segment that holds ``offset``, 0 if it lies before all segments."""
        low, high = 0, len(self) - 1
        if self[high].base_offset <= offset:  # the usual case: the active segment
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self[middle].base_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def from_offset(self, offset: int) -> Iterator[LogSegment]:
        """The segment that holds ``offset`` and the segments after it."""
        for index in range(self.index_of(offset), len(self)):
            yield self[index]

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        end_offset: int,
        log_end_offset: int,
        min_one_batch: bool,
    ) -> FileSlice | None:
        """Batches from the one that holds ``offset`` on, see ``PartitionLog.read``."""
        for segment in self.from_offset(offset):
            first = segment.find(offset)
            if first is None:
                continue
            if first.last_offset >= end_offset:
                return None
            end = segment.size_bytes
            if end_offset < log_end_offset:
                end = self._end_position(segment, end_offset)
            size_bytes = min(max_bytes, end - first.position)
            if size_bytes < first.size_bytes:
                if not min_one_batch:
                    return None
                size_bytes = first.size_bytes
            return segment.slice(first.position, size_bytes)
        return None

    def _end_position(self, segment: LogSegment, end_offset: int) -> int:
        """The position in a segment after the last batch that ends before ``end_offset``."""
        if segment is not self.active:
            following = self[self.index_of(segment.base_offset) + 1]
            if end_offset >= following.base_offset:
                return segment.size_bytes
        header = segment.find(end_offset)
        return header.position if header else segment.size_bytes

    def aborted_transactions(
        self, start_offset: int, end_offset: int, records: FileSlice | None = None
    ) -> list[AbortedTransaction]:
        """Aborted transactions with records between the offsets, by first offset.

        With ``records``, which were read from ``start_offset`` on, the result contains only
        transactions that start before the end of ``records``.
        """
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(start_offset):
            entries = segment.transaction_index.entries()
            first = bisect_left(entries, start_offset, key=_last_offset) if entries else 0
            if first < len(entries) and records is not None:
                end_offset = min(end_offset, self._offset_after(start_offset, records))
                records = None
            for entry in islice(entries, first, None):
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return sorted(found, key=_first_offset)
        return sorted(found, key=_first_offset)

    def _offset_after(self, offset: int, records: FileSlice) -> int:
        """An offset beyond every record in ``records``, which were read from ``offset`` on.

        The offset index gives it. If the file was closed meanwhile, the answer is MAX_OFFSET.
        """
        for index in range(self.index_of(offset), len(self)):
            segment = self[index]
            if segment.holds(records):
                end = records.position + records.size_bytes
                entry = segment.offset_index.ceiling(end, by_second=True)
                if entry is not None:
                    return segment.base_offset + entry[0]
                return self[index + 1].base_offset if index + 1 < len(self) else MAX_OFFSET
        return MAX_OFFSET

    def headers(self) -> Iterator[BatchHeader]:
        """The headers of all batches, oldest first."""
        for segment in self:
            yield from segment.headers()


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


def _last_offset(aborted: AbortedTransaction) -> int:
    return aborted.last_offset
