"""One clean of one log as data: the job, the result, and the statistics.

All of it can be sent to another process as JSON.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from kwire.record.streaming_decompressor import Limits


class SourceSegment(NamedTuple):
    """A segment that the clean reads; ``end_offset`` is the next segment's base offset."""

    base_offset: int
    end_offset: int
    size_bytes: int
    modified_ms: int


class ActiveProducer(NamedTuple):
    """A producer whose state must stay: the offset of its last batch of data, or -1.

    With -1, its last marker holds the state.
    """

    producer_id: int
    last_data_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """Everything that a clean needs besides the files.

    ``segments`` are all segments before ``first_uncleanable_offset``, which is a base offset. The
    keys from ``first_dirty_offset`` on go into the map. ``max_bytes_per_second`` limits reading and
    writing together, ``limits`` what a batch may hold in memory.
    """

    name: str
    directory: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    producers: tuple[ActiveProducer, ...]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    buffer_bytes: int
    map_bytes: int
    map_load_factor: float
    max_bytes_per_second: float
    limits: Limits

    def to_json(self) -> dict[str, Any]:
        """The job as a value that ``json`` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CompactionJob":
        """The job from the value that ``to_json`` made."""
        segments = tuple(SourceSegment(*row) for row in data["segments"])
        producers = tuple(ActiveProducer(*row) for row in data["producers"])
        limits = Limits(*data["limits"])
        return cls(**{**data, "segments": segments, "producers": producers, "limits": limits})


class CleanedGroup(NamedTuple):
    """A cleaned segment that is complete and synced, and the base offsets that it replaces."""

    base_offset: int
    size_bytes: int
    replaced: tuple[int, ...]


@dataclass(slots=True)
class CompactionStatistics:
    """What a clean has read and written; times are seconds. CleanerStats of Kafka."""

    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    map_utilization: float = 0.0
    map_s: float = 0.0
    total_s: float = 0.0

    def add(self, other: "CompactionStatistics") -> None:
        """Add the figures of another clean."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def text(self) -> str:
        """The statistics as text for the log."""
        megabytes = (self.map_bytes_read + self.bytes_read) / 1e6
        return (
            f"{self.bytes_read / 1e6:,.1f} MB ({self.messages_read:,} records) became "
            f"{self.bytes_written / 1e6:,.1f} MB ({self.messages_written:,} records); "
            f"read {megabytes:,.1f} MB in {self.total_s:,.1f} s, {self.map_s:,.1f} s of them for "
            f"the map of keys, which was {100 * self.map_utilization:.1f}% full"
        )


class CompactionResult(NamedTuple):
    """The end of a clean: the log is clean before ``end_offset``."""

    end_offset: int
    statistics: CompactionStatistics
