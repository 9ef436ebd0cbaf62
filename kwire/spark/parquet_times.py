"""How Spark writes timestamps and dates into Parquet: microseconds, by the calendar of today.

Spark's default for timestamps is INT96, which other readers take for nanoseconds: the last day of
9999 becomes one of 1816, and Delta's readers in Rust refuse the table. By an older setting, days
before 1582 are written by the Julian calendar, which no other reader knows.

Whatever writes Parquet through Spark takes its writer from here, or calls ``set_times`` before it
runs a statement of SQL that writes. A session of somebody else keeps these settings afterwards.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

TIMES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
"""The settings of a session that writes."""


def set_times(spark: "SparkSession") -> None:
    """Have a session write exact times."""
    for name, value in TIMES.items():
        spark.conf.set(name, value)


def writer_of(rows: "DataFrame") -> "DataFrameWriter":
    """The writer of rows, for every format; its session writes exact times."""
    set_times(rows.sparkSession)
    return rows.write


def other_times(given: Mapping[str, str]) -> dict[str, str]:
    """Those of a pipeline's settings for Spark that want other times, and what is allowed."""
    return {
        name: f"{value}: with another value, other readers find other times"
        for name, value in TIMES.items()
        if given.get(name, value).upper() != value
    }
