"""Timestamps and dates at the ends of what tables can hold, and files as earlier versions had."""

import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kwire.spark.sinks.table_rows import session_settings

TIMES = {
    "last": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "first": datetime(1, 1, 1, tzinfo=UTC),
    "julian": datetime(1582, 10, 10, 0, 0, 1, tzinfo=UTC),
    "leap": datetime(1500, 2, 28, 12, tzinfo=UTC),
    "usual": datetime(2026, 1, 31, 12, 0, 0, 1, UTC),
}
DAYS = {"last_day": date(9999, 12, 31), "first_day": date(1, 1, 1), "day": date(1582, 10, 10)}
COLUMNS = {
    **{
        name: f"timestamp'{one:%Y-%m-%d %H:%M:%S.%f}'".replace("'1-", "'0001-")
        for name, one in TIMES.items()
    },
    **{name: f"date'{one.isoformat()}'" for name, one in DAYS.items()},
}
"""The same as columns in SQL."""

EARLIER = {"spark.sql.parquet.outputTimestampType": "INT96"}
"""Spark's default, by which earlier versions of kwire wrote in sessions of others."""


def as_earlier(spark: SparkSession, path: Path) -> None:
    """Replace a Parquet file by one of the same rows with INT96."""
    aside = path.with_name(f"_{path.name}")
    with session_settings(spark, EARLIER):
        spark.read.parquet(str(path)).coalesce(1).write.parquet(str(aside))
    [part] = aside.glob("part-*")
    part.rename(path)
    shutil.rmtree(aside)


def expected() -> dict[str, Any]:
    """What each row has."""
    return {**TIMES, **DAYS}
