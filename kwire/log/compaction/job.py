"""One clean of one log, as data: what there is to do, what was done, and what it took.

All of it can be sent to another process as JSON.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from kwire.record.feed import Limits


class SourceSegment(NamedTuple):
    """A segment that may be read; ``end_offset`` is where the next one begins."""

    base_offset: int
    end_offset: int
    size_bytes: int
    modified_ms: int


class ActiveProducer(NamedTuple):
    """What has to stay of a producer: its last batch of data or, without one (-1), its marker."""

    producer_id: int
    last_data_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """Everything a clean has to know beside the files.

    ``segments`` are all that begin before ``first_uncleanable_offset``, where one begins; the keys
    from ``first_dirty_offset`` on count. ``max_bytes_per_second`` is for reading and writing,
    ``limits`` for what a batch may hold.
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
        """As what ``json`` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "CompactionJob":
        """The job that ``to_json`` made this of."""
        segments = tuple(SourceSegment(*row) for row in data["segments"])
        producers = tuple(ActiveProducer(*row) for row in data["producers"])
        limits = Limits(*data["limits"])
        return cls(**{**data, "segments": segments, "producers": producers, "limits": limits})


class CleanedGroup(NamedTuple):
    """A cleaned segment that is whole and on the disk, and the segments whose place it takes."""

    base_offset: int
    size_bytes: int
    replaced: tuple[int, ...]


@dataclass(slots=True)
class CompactionStatistics:
    """What a clean read and wrote; times are seconds. CleanerStats of Kafka."""

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
        """Add up what another clean did."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def text(self) -> str:
        """As it is logged."""
        megabytes = (self.map_bytes_read + self.bytes_read) / 1e6
        return (
            f"{self.bytes_read / 1e6:,.1f} MB ({self.messages_read:,} records) became "
            f"{self.bytes_written / 1e6:,.1f} MB ({self.messages_written:,} records); "
            f"read {megabytes:,.1f} MB in {self.total_s:,.1f} s, {self.map_s:,.1f} s of them for "
            f"the map of keys, which was {100 * self.map_utilization:.1f}% full"
        )


class CompactionResult(NamedTuple):
    """How far a clean came: what lies before ``end_offset`` is clean."""

    end_offset: int
    statistics: CompactionStatistics
