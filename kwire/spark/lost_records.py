"""Records that the pipeline can no longer read: found, reported, and written into a table.

Kinds of loss:

- *deleted*: the log start offset of a partition is higher than the offset that the pipeline would
  read next.
- *created again*: the topic was deleted and created again, so it has another topic id.
- *went back*: a partition with the same topic id ends before the offset that the pipeline has read
  up to. An unclean leader election can be the cause.

Retention may also delete records while a batch reads them. The pipeline therefore reads the log
start offset again after the batch, and reports records that were deleted meanwhile as *perhaps
deleted*. A topic may also be deleted or created again while a batch reads it. Its ranges are then
*perhaps replaced* by records of the new topic. In both cases the batch has already been written. So
the range is written into the table whatever ``on_data_loss`` says, and with ``stop`` the pipeline
stops after the batch.

The table is a directory with a JSON file for each lost range. The file's name contains the range,
so a batch that runs again writes the same files.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from kwire.spark.batch import OffsetRange
from kwire.spark.checkpoint import Offsets
from kwire.spark.storage import Storage

DELETED = "deleted"
PERHAPS_DELETED = "perhaps deleted"
RECREATED = "created again"
PERHAPS_REPLACED = "perhaps replaced"
WENT_BACK = "went back"


class DataLost(Exception):
    """Records are lost, and the pipeline has to stop; the text is one line."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """A lost range; ``end`` equals ``first`` if nobody knows how many offsets are lost."""

    topic: str
    partition: int
    first: int
    end: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        if self.reason == RECREATED:
            return f"{where}: the topic was created again; read up to offset {self.first} before"
        if self.reason == WENT_BACK:
            return f"{where}: it ends at {self.first}, and was read up to {self.end} before"
        why = ""
        if self.reason == PERHAPS_REPLACED:
            why = ": the topic was deleted or created again while they were read"
        return f"{where}: offsets {self.first} to {self.end - 1} are {self.reason}{why}"


def deleted(
    ranges: Iterable[OffsetRange], starts: Mapping[tuple[str, int], int], reason: str = DELETED
) -> list[LostRange]:
    """The parts of these ranges that lie before the log start offsets."""
    return [
        LostRange(one.topic, one.partition, one.first, min(start, one.end), reason)
        for one in ranges
        if (start := starts.get((one.topic, one.partition), 0)) > one.first
        if one.first < one.end
    ]


def replaced(ranges: Iterable[OffsetRange]) -> list[LostRange]:
    """Ranges of topics that were deleted or created again while a batch read them."""
    return [
        LostRange(one.topic, one.partition, one.first, one.end, PERHAPS_REPLACED) for one in ranges
    ]


def gone_back(ranges: Iterable[OffsetRange]) -> list[LostRange]:
    """Ranges of a batch that end before they begin."""
    return [
        LostRange(one.topic, one.partition, one.end, one.first, WENT_BACK)
        for one in ranges
        if one.end < one.first
    ]


def recreated(topics: Iterable[str], read: Offsets, ends: Offsets) -> list[LostRange]:
    """The unread records of topics that are gone; ``ends`` has their last known end offsets."""
    names = set(topics)
    return [
        LostRange(
            topic, partition, first, max(first, ends.get((topic, partition), first)), RECREATED
        )
        for (topic, partition), first in sorted(read.items())
        if topic in names
    ]


class LostTable:
    """The table of lost ranges; ``stops`` says whether the pipeline stops after a loss."""

    def __init__(self, storage: Storage, *, stops: bool) -> None:
        self._storage = storage
        self._stops = stops

    def record(self, ranges: Iterable[LostRange]) -> int:
        """Raise DataLost, or write the ranges; returns the number of lost offsets."""
        rows = list(ranges)
        if rows and self._stops:
            raise DataLost(
                f'data is lost: {_summary(rows)}; set source.on_data_loss = "record" to go on '
                "and have the lost ranges in a table"
            )
        return self.write(rows)

    def late_loss(self, rows: Sequence[LostRange]) -> DataLost | None:
        """The reason to stop after a batch that was written; None if the pipeline goes on."""
        if not self._stops:
            return None
        return DataLost(
            f"data is perhaps lost: {_summary(rows)}; the batch has been written and the range is "
            f"in {self._storage.url()}: run the pipeline again to go on"
        )

    def write(self, rows: Sequence[LostRange]) -> int:
        """Write the ranges; returns the number of lost offsets."""
        for row in rows:
            reason = row.reason.replace(" ", "-")
            name = f"{row.topic}-{row.partition}-{row.first:020}-{row.end:020}-{reason}.json"
            if self._storage.read(name) is None:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                line = json.dumps(asdict(row) | {"seen_at": at})
                self._storage.write(name, f"{line}\n".encode())
        return sum(row.end - row.first for row in rows)


def _summary(rows: Sequence[LostRange]) -> str:
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return f"{rows[0]}{more}"
