"""What events of Debezium do to a table of upserts, beside the rows of their keys: truncates.

A truncate is a tombstone of every key of its topic: it deletes the rows whose records are older. A
record is older by the rule of ``sinks.upsert``: in the same partition by its offset, in another one
by its timestamp. So in a topic of one partition a truncate is exact. In one of several partitions
nobody knows the order of two records within a millisecond, and Debezium itself promises none.

Rows whose column ``CHANGE`` names no change of a table, such as a heartbeat's, are left out. Rows
of other formats don't have the column, and stay as they are.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.spark.decode.debezium import CREATE, DELETE, READ, TRUNCATE, UPDATE
from kwire.spark.rows import CHANGE, OFFSET, PARTITION, TIMESTAMP, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_A_ROW = (CREATE, UPDATE, READ, DELETE)


class Truncate(NamedTuple):
    """The newest truncate in a partition: its topic, and the place and time of its record."""

    topic: str
    partition: int
    offset: int
    time_us: int
    """The latest of the partition's truncates, in microseconds since 1970."""

    def sql(self, row: str, partition: str, incarnation: str, number: int) -> str:
        """The condition that a row of a table is older.

        ``row`` is the table's alias, ``partition`` its column of the partition; ``incarnation`` is
        an expression for how often the row's topic was created again, ``number`` the truncate's.
        """
        at = f"{row}.{partition}"
        return (
            f"({row}.{TOPIC} = '{self.topic}' AND CASE WHEN {at} = {self.partition} "
            f"THEN struct({incarnation}, {row}.{OFFSET}) < struct({number}, {self.offset}L) "
            f"ELSE struct({row}.{TIMESTAMP}, {at}) "
            f"< struct(timestamp_micros({self.time_us}L), {self.partition}) END)"
        )


def is_of_a_row() -> "Column":
    """Whether a row, which has CHANGE, is one of a key: no truncate, message or heartbeat."""
    from pyspark.sql import functions as f

    return f.coalesce(f.col(f"{CHANGE}.op").isin(*_OF_A_ROW), f.lit(False))


def truncates_of(rows: "DataFrame") -> list[Truncate]:
    """The truncates among rows that have CHANGE, one for each partition that has any."""
    from pyspark.sql import functions as f

    found = rows.where(f.col(f"{CHANGE}.op") == TRUNCATE).groupBy(TOPIC, PARTITION)
    newest = found.agg(f.max(OFFSET), f.max(f.unix_micros(TIMESTAMP)))
    return [Truncate(*row) for row in newest.collect()]


def is_truncated(truncates: Iterable[Truncate]) -> "Column":
    """Whether a row's record is older than one of the truncates of its topic."""
    from pyspark.sql import functions as f

    def by(one: Truncate) -> Any:
        limit = f.struct(f.timestamp_micros(f.lit(one.time_us)), f.lit(one.partition))
        is_older = f.when(f.col(PARTITION) == one.partition, f.col(OFFSET) < one.offset)
        is_older = is_older.otherwise(f.struct(TIMESTAMP, PARTITION) < limit)
        return (f.col(TOPIC) == one.topic) & is_older

    return reduce(or_, map(by, truncates), f.lit(False))
