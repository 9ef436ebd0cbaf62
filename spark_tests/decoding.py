"""Records as the Kafka connector gives them, made without a broker, and what became of them."""

import datetime
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from kwire.spark.decode import decode
from kwire.spark.settings import Decode

CONNECTOR = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def records_of(
    spark: SparkSession, values: Iterable[bytes | None], topic: str = "orders", key: Any = b"k"
) -> DataFrame:
    """One record for each value, with offsets from 0."""
    rows = [
        (
            None if key is None else bytearray(key),
            None if value is None else bytearray(value),
            *(topic, 0, offset, TIME, 0, [("h", bytearray(b"1"))]),
        )
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, CONNECTOR)


def decoded(
    spark: SparkSession, values: Iterable[bytes | None], settings: Decode, topic: str = "orders"
) -> list[Row]:
    """The rows by offset."""
    frame = decode(records_of(spark, values, topic), settings, [topic])
    return sorted(frame.collect(), key=lambda row: row["_offset"])


def outcome(row: Row) -> Any:
    """The row's columns, or its error, or None for a tombstone."""
    if row["_error"] is not None:
        assert row["_row"] is None
        return row["_error"]
    assert (row["_row"] is None) == row["_tombstone"]
    return None if row["_row"] is None else row["_row"].asDict(recursive=True)
