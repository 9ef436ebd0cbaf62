"""Rows and batches for tests of sinks, as a pipeline gives them after decoding."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.settings import SinkSettings, Source

SOURCE = Source("127.0.0.1:1", ("orders",))
METADATA = (
    "_topic string, _partition int, _offset long, _timestamp timestamp, _key binary, "
    "_headers array<struct<key: string, value: binary>>, _tombstone boolean"
)
START_S = 1_700_000_000


def settings(kind: str, path: object = "", metadata: tuple[str, ...] = (), **options: Any) -> Any:
    """A sink's settings."""
    return SinkSettings(kind, str(path or ""), metadata, options)


def batch(number: int, first: int, end: int, query: str = "q", partitions: int = 2) -> Batch:
    """A batch of the same offsets in each partition."""
    ranges = (OffsetRange("orders", one, first, end) for one in range(partitions))
    return Batch("pipeline", query, number, tuple(ranges))


def rows_of(spark: SparkSession, batch: Batch, **columns: str) -> DataFrame:
    """A row for each offset of a batch; ``n`` is the offset, more columns are given as SQL."""
    more = "".join(f", {sql} AS {name}" for name, sql in columns.items())
    parts = [
        f"""SELECT '{one.topic}' AS _topic, {one.partition} AS _partition, id AS _offset,
        timestamp_seconds({START_S} + id) AS _timestamp, encode(string(id), 'utf-8') AS _key,
        cast(null AS array<struct<key: string, value: binary>>) AS _headers,
        false AS _tombstone, int(id) AS n{more} FROM range({one.first}, {one.end}, 1, 1)"""
        for one in batch.ranges
    ]
    return spark.sql(" UNION ALL ".join(parts)).coalesce(1)


def records(
    spark: SparkSession,
    found: Iterable[tuple[int, int, str | None, dict[str, Any] | None]],
    columns: str = "n int",
    seconds: int = 0,
) -> DataFrame:
    """Rows from partition, offset, key and value; a value of None is a tombstone."""
    from datetime import UTC, datetime

    names = [one.split()[0] for one in columns.split(", ")]
    data = [
        (
            "orders",
            partition,
            offset,
            datetime.fromtimestamp(START_S + offset + seconds, UTC),
            None if key is None else key.encode(),
            None,
            value is None,
            *((value or {}).get(name) for name in names),
        )
        for partition, offset, key, value in found
    ]
    return spark.createDataFrame(data, f"{METADATA}, {columns}").coalesce(1)


def numbers(table: DataFrame) -> list[tuple[int, int]]:
    """Partition and offset of every row, in order."""
    return sorted((row["_partition"], row["_offset"]) for row in table.collect())


def expected(*batches: Batch) -> list[tuple[int, int]]:
    """Partition and offset of every row of some batches."""
    return sorted(
        (one.partition, offset)
        for each in batches
        for one in each.ranges
        for offset in range(one.first, one.end)
    )
