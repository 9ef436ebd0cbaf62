"""One clean: read the keys of the dirty part, then rewrite every segment up to that part's end.

Rules:

- The segments that a job names are only read; output goes to ``.cleaned`` files.
- Segments are processed in groups, and each group becomes one segment. A group is no larger than
  ``segment.bytes``, its indexes no larger than ``segment.index.bytes``, and its offsets fit into an
  index.
- When the map of keys is full, the clean ends at the offset that it has reached. Later records stay
  as they are.
- A group is returned when it is on the disk. Only then does the next one start.

Source: Cleaner of Kafka.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kwire.log.compaction.batch_filter import BatchFilter, open_record_index
from kwire.log.compaction.cleaned_segment import CleanedSegment
from kwire.log.compaction.job import (
    CleanedGroup,
    CompactionJob,
    CompactionResult,
    CompactionStatistics,
    SourceSegment,
)
from kwire.log.compaction.offset_map import LastOffsets, OffsetMap
from kwire.log.compaction.segment_reader import SegmentReader
from kwire.log.compaction.throttle import Throttle
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.disk import Disk
from kwire.log.rolling import MAX_RELATIVE_OFFSET
from kwire.log.transaction_index import AbortedTransaction, TransactionIndex
from kwire.record.batch import RecordBatch


class Cleaner:
    """Runs one job.

    ``clock`` returns seconds. Every method raises OSError if the disk fails and InvalidRecords if
    the log is damaged.
    """

    def __init__(
        self,
        job: CompactionJob,
        disk: Disk,
        *,
        clock: Callable[[], float],
        throttle: Throttle,
    ) -> None:
        self.statistics = CompactionStatistics()
        self._job = job
        self._disk = disk
        self._directory = Path(job.directory)
        self._clock = clock
        self._throttle = throttle
        self._began_s = clock()
        self._reader = SegmentReader(self._directory, job.buffer_bytes, disk, throttle)
        self._is_ascending = True
        self._keyless = 0
        self._aborted = self._read_aborted()
        self._offsets = OffsetMap(
            job.map_bytes,
            job.map_load_factor,
            job.first_uncleanable_offset - job.first_dirty_offset,
        )

    def run(self) -> Iterator[CleanedGroup]:
        """Clean the log and yield each group when it is written. After that, read ``result``."""
        self._build_map()
        statistics = self.statistics
        statistics.map_utilization = self._offsets.utilization
        statistics.map_s = self._clock() - self._began_s
        last_offsets = self._last_offsets()
        if last_offsets is not None:
            statistics.invalid_messages_read += self._keyless
        batch_filter = BatchFilter(self._job, self._offsets, last_offsets, statistics)
        batch_filter.transactions.add(self._aborted)
        end_offset = self._offsets.latest_offset + 1
        # A record that may still change, or is not yet replicated, must not replace an older one.
        assert end_offset <= self._job.first_uncleanable_offset, (self._job.name, end_offset)
        sources = [s for s in self._job.segments if s.base_offset < end_offset]
        for group in group_segments(sources, self._job, self._index_bytes):
            yield self._clean_group(group, batch_filter)
        statistics.total_s = self._clock() - self._began_s

    @property
    def result(self) -> CompactionResult:
        """The offset that the clean has reached, and its statistics."""
        end_offset = max(self._offsets.latest_offset + 1, self._job.first_dirty_offset)
        return CompactionResult(end_offset, self.statistics)

    def _last_offsets(self) -> LastOffsets | None:
        """The offsets of the last records of all keys.

        None if the offsets don't ascend, or if the map holds hashes instead of keys.
        """
        return self._offsets.last_offsets() if self._is_ascending else None

    def _read_aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions that may have batches in the segments.

        Their markers may lie in later segments, so the indexes of all segments are read.
        """
        names = sorted(n for n in self._disk.names(self._directory) if n.endswith(".txnindex"))
        return [
            entry
            for name in names
            for entry in TransactionIndex(self._directory, name, self._disk).entries()
            if entry.first_offset < self._job.first_uncleanable_offset
        ]

    def _index_bytes(self, base_offset: int) -> tuple[int, int]:
        """The sizes of a segment's two sparse indexes, 0 if the file is missing."""
        return self._size(base_offset, ".index"), self._size(base_offset, ".timeindex")

    def _size(self, base_offset: int, suffix: str) -> int:
        try:
            fd = self._disk.open(self._directory / f"{base_offset:020d}{suffix}")
        except FileNotFoundError:
            return 0
        try:
            return self._disk.size(fd)
        finally:
            self._disk.close(fd)

    def _build_map(self) -> None:
        """Put the keys of the dirty part into the map, until the part ends or the map is full."""
        start_offset = self._job.first_dirty_offset
        dirty = [s for s in self._job.segments if s.end_offset > start_offset]
        transactions = CleanedTransactions()
        if dirty:
            first_offset = dirty[0].base_offset
            transactions.add(e for e in self._aborted if e.last_offset >= first_offset)
        for segment in dirty:
            for batch in self._reader.batches(segment):
                self.statistics.map_bytes_read += batch.size_bytes
                self.statistics.map_messages_read += batch.records_count
                is_unneeded = transactions.pass_batch(batch)
                if batch.last_offset < start_offset:
                    continue
                batch.verify_crc()
                if not (batch.is_control or is_unneeded) and not self._map_batch(batch):
                    return
                self._offsets.latest_offset = batch.last_offset
            self._offsets.latest_offset = segment.end_offset - 1

    def _map_batch(self, batch: RecordBatch) -> bool:
        """Put the keys of a batch into the map; False if the map is full before the batch's end."""
        index = open_record_index(batch, self._job.limits)
        base_offset, start_offset = batch.base_offset, self._job.first_dirty_offset
        if not index.is_ascending or base_offset <= self._offsets.latest_offset:
            self._is_ascending = False
        keys: Sequence[bytes | None] = index.keys
        offsets: Sequence[int] = index.offsets(base_offset)
        if base_offset < start_offset:
            dirty = [place for place, offset in enumerate(offsets) if offset >= start_offset]
            keys, offsets = [keys[place] for place in dirty], [offsets[place] for place in dirty]
        elif None in keys:
            self._keyless += index.keys.count(None)
        return self._offsets.put_all(keys, offsets) == len(keys)

    def _clean_group(self, group: list[SourceSegment], batch_filter: BatchFilter) -> CleanedGroup:
        """Rewrite a group of segments as one segment."""
        cleaned = CleanedSegment(
            self._directory, group[0].base_offset, self._job.index_interval_bytes, self._disk
        )
        try:
            for segment in group:
                for batch in self._reader.batches(segment, batch_filter.needs_records):
                    kept = batch_filter.keep(batch)
                    if kept is not None:
                        cleaned.append(kept)
                        self._throttle.count_bytes(len(kept.data))
            cleaned.note_aborted(batch_filter.transactions.take_kept())
            cleaned.finish(group[-1].modified_ms)
        except BaseException:
            cleaned.close()
            cleaned.remove()
            raise
        replaced = tuple(segment.base_offset for segment in group)
        return CleanedGroup(cleaned.base_offset, cleaned.size_bytes, replaced)


def group_segments(
    segments: Iterable[SourceSegment],
    job: CompactionJob,
    index_bytes: Callable[[int], tuple[int, int]],
) -> list[list[SourceSegment]]:
    """Groups of segments that become one each; for ``index_bytes`` see ``Cleaner._index_bytes``."""
    groups: list[list[SourceSegment]] = []
    total = (0, 0, 0)
    for segment in segments:
        sizes = (segment.size_bytes, *index_bytes(segment.base_offset))
        together = (total[0] + sizes[0], total[1] + sizes[1], total[2] + sizes[2])
        fits = (
            bool(groups)
            and together[0] <= job.segment_bytes
            and max(together[1:]) <= job.index_bytes
            and (
                not segment.size_bytes
                or segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
        )
        if fits:
            groups[-1].append(segment)
            total = together
        else:
            groups.append([segment])
            total = sizes
    return groups
