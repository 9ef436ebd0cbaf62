"""Plans a read: the offsets of each partition, and the tasks into which Spark divides them.

Rules:

- A task covers a range of offsets within one segment, of about ``splitBytes``. Ranges of offsets
  stay right when compaction or a copy moves the bytes; the segment and the position are hints.
- Ranges are cut where an entry of ``.index`` names a batch, checked against the batch's header.
- A segment whose largest timestamp, from the last entry of ``.timeindex``, is below a lower bound
  of timestamps is left out. The ``.timeindex`` of the active segment isn't complete, so that
  segment is always read.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import InvalidRecords, RecordBatch
from kwire.record.record_validator import record_times
from kwire.record.streaming_decompressor import Limits
from kwire.spark.batch import OffsetRange
from kwire.spark.segments.errors import CorruptSegment, LostRecords
from kwire.spark.segments.files import (
    OpenSegment,
    Segments,
    aborted_transactions,
    list_segments,
    open_at,
)
from kwire.spark.segments.options import EARLIEST, LATEST, Options
from kwire.spark.segments.partitions import (
    Partition,
    StableOffset,
    headers_from,
    high_watermarks,
    log_start_offset,
)

_NO_TIME = -0x8000_0000_0000_0000
_END_OF_TIME = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that a query's own filters set for rows; ends are exclusive.

    Rows within the bounds may still not match: Spark evaluates its filters again.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _END_OF_TIME
    first_timestamp: int = _NO_TIME
    end_timestamp: int = _END_OF_TIME

    def allow(self, partition: Partition) -> bool:
        """Whether rows of the partition can match."""
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.number in self.partitions
        )

    @property
    def bound_times(self) -> bool:
        """Whether there is a bound of timestamps."""
        return (self.first_timestamp, self.end_timestamp) != (_NO_TIME, _END_OF_TIME)


ALL = Bounds()


@dataclass(frozen=True, slots=True)
class Task:
    """The offsets ``first`` to ``end - 1`` of a partition, for one task of Spark.

    They were at or after ``position`` of the segment ``base`` when the task was made.
    """

    partition: Partition
    first: int
    end: int
    base: int
    position: int
    aborted: tuple[AbortedTransaction, ...] = ()


def ranges(partitions: list[Partition], options: Options) -> dict[Partition, OffsetRange]:
    """The offsets that a batch read covers; LostRecords if offsets that were named are gone."""
    marks = high_watermarks(partitions, ignored=options.ignores_high_watermark)
    found = {}
    for part in partitions:
        low = log_start_offset(part)
        high = max(marks[part], low)
        if options.is_committed:
            high = max(StableOffset().at(part, high), low)
        first = _first(part, options, low, high)
        end = _end_of_part(part, options, low, high)
        found[part] = OffsetRange(part.topic, part.number, first, max(first, end))
    return found


def _first(part: Partition, options: Options, low: int, high: int) -> int:
    wanted = options.starting.of(part.topic, part.number)
    first = _asked_for(wanted, options.starting_timestamp, part, low, high, options)
    if first < low and options.fails_on_data_loss:
        raise LostRecords(
            f"{part.directory} begins at offset {low}, and startingOffsets asks for {first};"
            " failOnDataLoss=false reads what is there"
        )
    return max(first, low)


def _end_of_part(part: Partition, options: Options, low: int, high: int) -> int:
    wanted = options.ending.of(part.topic, part.number)
    end = _asked_for(wanted, options.ending_timestamp, part, low, high, options)
    if end > high and options.fails_on_data_loss:
        raise LostRecords(
            f"{part.directory} may be read up to offset {high}, and endingOffsets asks for {end};"
            " failOnDataLoss=false reads what is there"
        )
    return min(end, high)


def _asked_for(
    wanted: int, timestamp: int | None, part: Partition, low: int, high: int, options: Options
) -> int:
    """The offset that an option means, which may lie outside of the log."""
    if timestamp is not None:
        return offset_at(part, timestamp, low, high, options)
    return {EARLIEST: low, LATEST: high}.get(wanted, wanted)


def offset_at(part: Partition, timestamp: int, low: int, high: int, options: Options) -> int:
    """The offset of the first record with at least this timestamp, ``high`` if there is none."""
    start = low
    segments = list_segments(part.directory)
    for base, following in zip(segments.bases, [*segments.bases[1:], high], strict=True):
        if following <= low:
            continue
        segment = open_at(part.directory, base)
        if segment is None:
            continue
        with segment:
            entries = segment.time_entries()
        if base != segments.bases[-1] and entries and entries[-1].timestamp < timestamp:
            start = max(start, following)
            continue
        place = bisect_left(entries, timestamp, key=lambda entry: entry.timestamp)
        if place:
            start = max(start, entries[place - 1].offset)
        break
    for header in headers_from(part, start):
        if header.base_offset >= high:
            break
        if header.max_timestamp >= timestamp and (batch := _batch(part, header.base_offset)):
            found = _find_by_time(part, batch, timestamp, low, options)
            if found is not None:
                return min(found, high)
    return high


def _batch(part: Partition, base_offset: int) -> RecordBatch | None:
    segment = open_at(part.directory, base_offset)
    if segment is None:
        return None
    with segment:
        for header in segment.headers(segment.position_before(base_offset)):
            if header.base_offset >= base_offset:
                return RecordBatch(segment.read(header.position, header.size_bytes))
    return None


def _find_by_time(
    part: Partition, batch: RecordBatch, timestamp: int, low: int, options: Options
) -> int | None:
    try:
        for offset, time in record_times(batch, Limits(max_bytes=options.max_batch_bytes)):
            if time >= timestamp and offset >= low:
                return offset
    except InvalidRecords as error:
        raise CorruptSegment(
            f"{part.directory}: the batch at offset {batch.base_offset} can't be read: {error}"
        ) from error
    return None


def narrowed(
    covered: Mapping[Partition, OffsetRange], bounds: Bounds
) -> dict[Partition, OffsetRange]:
    """The ranges without the partitions and offsets that no row of the query can have."""
    found = {}
    for part, whole in covered.items():
        first, end = max(whole.first, bounds.first_offset), min(whole.end, bounds.end_offset)
        if bounds.allow(part) and first < end:
            found[part] = replace(whole, first=first, end=end)
    return found


def tasks(
    covered: Mapping[Partition, OffsetRange], options: Options, bounds: Bounds = ALL
) -> list[Task]:
    """Divide ranges of offsets into tasks; partitions take turns, so that all are read at once."""
    each = [list(_tasks_of(part, found, options, bounds)) for part, found in covered.items()]
    most = max(map(len, each), default=0)
    return [queue[turn] for turn in range(most) for queue in each if turn < len(queue)]


def _tasks_of(
    part: Partition, covered: OffsetRange, options: Options, bounds: Bounds
) -> Iterator[Task]:
    if covered.first >= covered.end:
        return
    segments = list_segments(part.directory)
    if not segments.names and options.fails_on_data_loss:
        raise LostRecords(
            f"{part.directory} has no segment, and the offsets {covered.first} to"
            f" {covered.end - 1} were to be read; failOnDataLoss=false reads what is there"
        )
    aborted: list[AbortedTransaction] = []
    if options.is_committed:
        aborted = aborted_transactions(segments, covered.first, covered.end)
    for first, end, base, position in _pieces(segments, covered, options, bounds):
        concerned = tuple(
            entry for entry in aborted if entry.first_offset < end and entry.last_offset >= first
        )
        yield Task(part, first, end, base, position, concerned)


def _pieces(
    segments: Segments, covered: OffsetRange, options: Options, bounds: Bounds
) -> Iterator[tuple[int, int, int, int]]:
    """First offset, end offset, segment and position of each task."""
    bases = segments.bases
    for place, base in enumerate(bases):
        following = bases[place + 1] if place + 1 < len(bases) else covered.end
        first, end = max(base, covered.first), min(following, covered.end)
        if place == 0:
            first = covered.first  # the task finds out whether earlier records still exist
        if first >= end:
            continue
        segment = open_at(segments.directory, base)
        if segment is None:
            yield first, end, base, 0
            continue
        with segment:
            is_rolled = place + 1 < len(bases)
            if is_rolled and _is_older(segment, bounds.first_timestamp):
                continue
            cuts = list(_cuts(segment, first, end, options.split_bytes))
        for (start, position), (stop, _) in zip(cuts, [*cuts[1:], (end, 0)], strict=True):
            yield start, stop, base, position


def _is_older(segment: OpenSegment, timestamp: int) -> bool:
    """Whether a rolled segment's records are all older than a timestamp."""
    if timestamp == _NO_TIME:
        return False
    entries = segment.time_entries()
    return bool(entries) and entries[-1].timestamp < timestamp


def _cuts(
    segment: OpenSegment, first: int, end: int, split_bytes: int
) -> Iterator[tuple[int, int]]:
    """Where tasks begin: their first offset, and the position of a batch at or before it."""
    position = segment.position_before(first)
    yield first, position
    if segment.size_bytes - position <= split_bytes:
        return
    for entry in segment.offset_entries():
        if entry.offset >= end:
            return
        if entry.position - position >= split_bytes and entry.offset > first:
            start = segment.batch_start(entry)
            if start is not None and first < start < end:
                position = entry.position
                yield start, position
