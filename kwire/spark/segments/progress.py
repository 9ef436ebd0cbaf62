"""The position of a stream over segments: its offsets, and the end of the next batch.

Format of an offset in Spark's checkpoint::

    {topic: {"id": topic id, "offsets": {partition: next offset}}}

Rules:

- A partition that isn't in the offset yet starts at its log start offset.
- Offsets never go back, also when a checkpoint of high watermarks does.
- A topic that was created again has another id, which raises OtherTopic. A topic or partition that
  is gone, or whose records were deleted before they were read, raises LostRecords, unless
  ``failOnDataLoss=false``. Then the offset of a partition that is gone is kept, in case the
  partition comes back.
- ``maxRecordsPerTrigger`` counts offsets and ``maxBytesPerTrigger`` bytes of segments. Each
  partition gets a share in proportion to its unread offsets or bytes, and at least one offset or
  batch.
"""

from typing import Any, TypeAlias

from kwire.spark.batch import OffsetRange
from kwire.spark.segments.errors import LostRecords
from kwire.spark.segments.files import list_segments, open_at
from kwire.spark.segments.options import EARLIEST, LATEST, Options
from kwire.spark.segments.partitions import (
    Partition,
    StableOffset,
    find_partitions,
    high_watermarks,
    log_start_offset,
)
from kwire.spark.segments.planning import Task, offset_at, tasks

Progress: TypeAlias = dict[str, Any]

_NOTHING: Progress = {"offsets": {}}


class Follower:
    """Follows the partitions that the options choose."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stable: dict[Partition, StableOffset] = {}

    def initial(self) -> Progress:
        """Where a new stream starts."""
        found = {}
        for part, high in self._ends(find_partitions(self._options)).items():
            low = log_start_offset(part)
            if self._options.starting_timestamp is not None:
                time = self._options.starting_timestamp
                found[part] = offset_at(part, time, low, max(low, high), self._options)
                continue
            asked = self._options.starting.of(part.topic, part.number)
            found[part] = {EARLIEST: low, LATEST: max(low, high)}.get(asked, max(asked, low))
        return _progress(found)

    def latest(
        self,
        start: Progress,
        *,
        max_records: int = 0,
        max_bytes: int = 0,
        target: Progress | None = None,
    ) -> Progress:
        """Where the batch that begins at ``start`` ends; 0 is no limit.

        With ``target`` the batch doesn't go beyond it.
        """
        firsts: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        for part, end in self._ends(self._there(start)).items():
            firsts[part] = self._offset(start, part)
            if target is not None:
                end = min(end, _target(target, part, firsts[part]))
            ends[part] = max(firsts[part], end)
        if max_records:
            sizes = {part: end - firsts[part] for part, end in ends.items()}
            for part, share in _shares(sizes, max_records).items():
                ends[part] = firsts[part] + share
        elif max_bytes:
            sizes = {part: _bytes_between(part, firsts[part], end) for part, end in ends.items()}
            for part, share in _shares(sizes, max_bytes).items():
                ends[part] = _end_by_bytes(part, firsts[part], ends[part], share)
        return _with_gone(_progress(ends), start)

    def tasks(self, start: Progress, end: Progress) -> list[Task]:
        """The tasks of the batch between two places."""
        covered = {}
        for part in self._there(end):
            if str(part.number) not in end.get(part.topic, _NOTHING)["offsets"]:
                continue
            first, stop = self._offset(start, part), self._offset(end, part)
            low = log_start_offset(part)
            if first < min(low, stop) and self._options.fails_on_data_loss:
                raise LostRecords(
                    f"{part.directory} begins at offset {low}, and the stream has read up to"
                    f" {first}; failOnDataLoss=false reads what is there"
                )
            covered[part] = OffsetRange(part.topic, part.number, max(first, low), stop)
        return tasks(covered, self._options)

    def _there(self, progress: Progress) -> list[Partition]:
        """The present partitions; LostRecords if one of ``progress`` is missing."""
        found = find_partitions(self._options, may_lack=True)
        there = {(part.topic, str(part.number)) for part in found}
        for topic, entry in progress.items():
            gone = [number for number in entry["offsets"] if (topic, number) not in there]
            if gone and self._options.fails_on_data_loss:
                raise LostRecords(
                    f"{self._options.path} has no partition {gone[0]} of the topic {topic} any"
                    " more, from which the stream reads; failOnDataLoss=false goes on without it"
                )
        return found

    def _offset(self, progress: Progress, part: Partition) -> int:
        entry = progress.get(part.topic)
        if entry is None:
            return log_start_offset(part)
        part.check_id(entry["id"])
        offset = entry["offsets"].get(str(part.number))
        return log_start_offset(part) if offset is None else int(offset)

    def _ends(self, found: list[Partition]) -> dict[Partition, int]:
        """The offset up to which each partition may be read now."""
        marks = high_watermarks(found, ignored=self._options.ignores_high_watermark)
        if self._options.is_committed:
            for part, mark in marks.items():
                stable = self._stable.setdefault(part, StableOffset())
                marks[part] = stable.at(part, mark)
        return marks


def _target(target: Progress, part: Partition, first: int) -> int:
    """Where a partition's last batch ends; a partition that is new since then has none."""
    entry = target.get(part.topic)
    return int(entry["offsets"].get(str(part.number), first)) if entry else first


def _progress(offsets: dict[Partition, int]) -> Progress:
    """The offsets as a checkpoint has them."""
    found: Progress = {}
    for part, offset in sorted(offsets.items()):
        entry = found.setdefault(part.topic, {"id": part.topic_id, "offsets": {}})
        entry["offsets"][str(part.number)] = offset
    return found


def _with_gone(found: Progress, start: Progress) -> Progress:
    """The offsets with the topics and partitions that only ``start`` has."""
    whole = dict(found)
    for topic, entry in start.items():
        now: Progress = found[topic] if topic in found else entry  # noqa: SIM401
        whole[topic] = now | {"offsets": {**entry["offsets"], **now["offsets"]}}
    return whole


def _shares(sizes: dict[Partition, int], limit: int) -> dict[Partition, int]:
    """How much of each partition's size fits into the limit, in proportion."""
    total = sum(sizes.values())
    if total <= limit:
        return sizes
    return {
        part: min(size, max(1, size * limit // total)) if size else 0
        for part, size in sizes.items()
    }


def _bytes_between(part: Partition, first: int, end: int) -> int:
    """About how many bytes of segments the offsets ``first`` to ``end - 1`` take."""
    total = 0
    segments = list_segments(part.directory)
    bases = segments.bases
    for place, base in enumerate(bases):
        following = bases[place + 1] if place + 1 < len(bases) else end
        if base >= end or following <= first:
            continue
        segment = open_at(part.directory, base)
        if segment is not None:
            with segment:
                stop = segment.position_before(end) if end < following else segment.size_bytes
                total += max(stop - segment.position_before(first), 1)
    return total


def _end_by_bytes(part: Partition, first: int, end: int, share: int) -> int:
    """The end of a batch of offsets that takes about ``share`` bytes, at least one batch."""
    left = share
    offset = first
    while offset < end:
        segment = open_at(part.directory, offset)
        if segment is None:
            return end
        with segment:
            for header in segment.headers(segment.position_before(offset)):
                if header.last_offset < offset:
                    continue
                left -= header.size_bytes
                if left < 0 and offset > first:
                    return offset
                offset = min(header.last_offset + 1, end)
                if left <= 0 or offset >= end:
                    return offset
        following = [base for base in list_segments(part.directory).bases if base > segment.base]
        if not following:
            return end
        offset = max(offset, following[0])
    return end
