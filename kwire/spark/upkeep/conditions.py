"""Conditions on rows of tables, as SQL that Delta, Iceberg and their Python packages all read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import INCARNATION
from kwire.spark.rows import OFFSET, PARTITION, TIMESTAMP, TOPIC
from kwire.spark.settings import SinkSettings, WrongSetting
from kwire.spark.upkeep import Cutoff

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Columns:
    """How a table names what conditions are about; ``table`` is put before, as in ``t.``."""

    has_incarnation: bool
    partition: str = PARTITION
    table: str = ""

    @classmethod
    def of(cls, names: Collection[str], partition: str = PARTITION) -> "Columns":
        """Those of a table with such columns."""
        return cls(INCARNATION in names, partition)


def of_cutoff(cutoff: Cutoff, settings: SinkSettings, columns: Columns) -> str:
    """The rows before a cutoff; WrongSetting for a time if the table has no timestamps."""
    if cutoff.before_ms is None:
        place = OffsetRange(
            cutoff.topic, cutoff.partition, 0, cutoff.before_offset, cutoff.incarnation
        )
        return of_range(place, columns)
    if "timestamp" not in settings.metadata:
        allowed = "it must have timestamp for rows to expire by their age; they can by offsets"
        raise WrongSetting("sink.metadata", list(settings.metadata), allowed)
    at = datetime.fromtimestamp(cutoff.before_ms / 1000, UTC)
    return f"{TIMESTAMP} < '{at:%Y-%m-%dT%H:%M:%S.%f}+00:00'"


def of_range(offsets: OffsetRange, columns: Columns) -> str:
    """The rows of a range."""
    topic = offsets.topic.replace("'", "''")
    table = columns.table
    if columns.has_incarnation:
        is_same = f"= {offsets.incarnation}" if offsets.incarnation else "IS NULL"
        same = f" AND {table}{INCARNATION} {is_same}"
    else:
        same = " AND false" if offsets.incarnation else ""
    return (
        f"({table}{TOPIC} = '{topic}' AND {table}{columns.partition} = {offsets.partition} "
        f"AND {table}{OFFSET} >= {offsets.first} AND {table}{OFFSET} < {offsets.end}{same})"
    )


def of_ranges(ranges: Sequence[OffsetRange], columns: Columns) -> str:
    """The rows of any of some ranges."""
    return " OR ".join(of_range(one, columns) for one in ranges)


def of_records(rows: "DataFrame", ranges: Sequence[OffsetRange]) -> "DataFrame":
    """Those of the rows of a batch that belong to some ranges."""
    places = [OffsetRange(one.topic, one.partition, one.first, one.end) for one in ranges]
    return rows.where(of_ranges(places, Columns(has_incarnation=False)))


def within(wanted: OffsetRange, held: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What of a range lies between the first and the last offset that a table has."""
    return [
        OffsetRange(wanted.topic, wanted.partition, first, end, wanted.incarnation)
        for one in held
        if is_same_log(one, wanted)
        and (first := max(one.first, wanted.first)) < (end := min(one.end, wanted.end))
    ]


def is_same_log(offsets: OffsetRange, other: OffsetRange) -> bool:
    """Whether two ranges are of one partition of one topic, not of one created again."""
    return (offsets.topic, offsets.partition, offsets.incarnation) == (
        other.topic,
        other.partition,
        other.incarnation,
    )
