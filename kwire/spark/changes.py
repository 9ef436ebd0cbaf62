"""What events of Debezium do to a table of upserts beside other rows: truncates, lacking values.

A truncate is a tombstone of every key of its topic: it deletes the rows whose records are older. A
record is older by the rule of ``sinks.upsert``: in the same partition by its offset, in another one
by its timestamp. So in a topic of one partition a truncate is exact. In one of several partitions
nobody knows the order of two records within a millisecond, and Debezium itself promises none. The
partitions are read at their own pace: a batch may have records that a truncate of an earlier batch
has deleted (``kwire.spark.truncates``). They are as if they weren't there.

An update may lack the values of columns that it leaves as they were (``unchanged``). They are those
of the key's record before it in the batch, or of its row in the table. The record is a dead letter
if neither has them, and also if it isn't sure that they are the newest:

- The batch has a truncate of the topic, or records of the key in several partitions.
- The batch has a dead letter, whatever its key: it may be of the same row. Dead letters of earlier
  batches aren't looked at.
- An update of the key in the batch is such a dead letter.
- The pipeline has transforms, which would need the values.

Rows whose column ``CHANGE`` names no change of a table, such as a heartbeat's, are left out. Rows
of other formats don't have the column, and stay as they are.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.schemas.undecodable import VALUE
from kwire.spark.decode.debezium import CREATE, DELETE, READ, TRUNCATE, UPDATE
from kwire.spark.rows import CHANGE, OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, TOPIC
from kwire.spark.sql import quoted

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


def without_overtaken(decoded: "DataFrame", truncates: Iterable[Truncate]) -> "DataFrame":
    """Decoded rows, which have CHANGE; those that are older than a truncate change nothing."""
    from pyspark.sql import functions as f

    return decoded.withColumn(CHANGE, f.when(~is_truncated(truncates), f.col(CHANGE)))


def unchanged_of(rows: "DataFrame") -> list[str]:
    """The columns whose values some of the rows, which have CHANGE, lack."""
    from pyspark.sql import functions as f

    found = rows.select(f.explode(f"{CHANGE}.unchanged")).distinct().collect()
    return sorted(name for (name,) in found)


def lacks_values() -> "Column":
    """Whether a row lacks values of columns that are unchanged."""
    from pyspark.sql import functions as f

    return f.size(f"{CHANGE}.unchanged") > 0


def why_lacking() -> "Column":
    """The error of a record whose values nothing surely has."""
    from pyspark.sql import functions as f

    rest = " is unchanged, and nothing surely has its value: the source's table needs "
    rest += "REPLICA IDENTITY FULL"
    return f.concat(f.lit(f"{VALUE}column "), f.col(f"{CHANGE}.unchanged")[0], f.lit(rest))


def completed(rows: "DataFrame", keys: Sequence[str], unchanged: Sequence[str]) -> "DataFrame":
    """The rows with the values that records of their keys before them have.

    ``unchanged`` names the columns to look at; what is still missing stays in the rows' own. Then
    CHANGE says in ``is_gone`` that the table doesn't have the value: a delete was before the row,
    or records of the key are in several partitions.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    before = Window.partitionBy(*map(quoted, keys), TOPIC, PARTITION).orderBy(OFFSET)
    lacking = f.col(f"{CHANGE}.unchanged")
    place, whole = f.struct(TOPIC, PARTITION), Window.partitionBy(*map(quoted, keys))
    lasts = [(f.min(place).over(whole) != f.max(place).over(whole)).alias("is_apart")]
    for at, name in enumerate(unchanged):
        kept = f.struct(f.col(quoted(name)).alias("value"), f.col(TOMBSTONE).alias("is_gone"))
        has_value = ~f.array_contains(lacking, name)
        last = f.last(f.when(has_value, kept), ignorenulls=True).over(before)
        lasts.append(last.alias(f"last{at}"))
    # In the column that no value can have the name of.
    rows = rows.withColumn(CHANGE, f.struct(f"{CHANGE}.op", f"{CHANGE}.unchanged", *lasts))
    still, is_gone = f.array().cast("array<string>"), f.lit(False)
    found = {}
    for at, name in enumerate(unchanged):
        last = f.col(f"{CHANGE}.last{at}")
        lacks = f.array_contains(lacking, name)
        is_lost = f.col(f"{CHANGE}.is_apart") | f.coalesce(last.is_gone, f.lit(False))
        is_missing = lacks & (is_lost | last.isNull())
        still = f.concat(still, f.when(is_missing, f.array(f.lit(name))).otherwise(f.array()))
        is_gone = is_gone | (lacks & is_lost)
        found[name] = f.when(~is_missing, last.value)
    op = f.col(f"{CHANGE}.op").alias("op")
    found[CHANGE] = f.struct(op, still.alias("unchanged"), is_gone.alias("is_gone"))
    return rows.withColumns(found)
