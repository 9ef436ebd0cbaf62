"""The upkeep of Delta tables, by Delta's own commands: each is one commit of the table's log.

The upkeep may run while a stream writes to the table. It never makes the stream fail, because an
append reads nothing from the table. But a command of the upkeep that has read the table fails if
the stream commits meanwhile (Delta without Databricks is always Serializable). The command is then
tried again. It needs a pause between two commits of the stream: after ``ATTEMPTS`` attempts it ends
with Delta's error, and has changed nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.spark.batch import OffsetRange
from kwire.spark.parquet_times import set_times, writer_of
from kwire.spark.reporting import Report, silent
from kwire.spark.rows import OFFSET
from kwire.spark.settings import SinkSettings
from kwire.spark.sinks.delta import DeltaNames
from kwire.spark.sinks.table_conflicts import retried
from kwire.spark.sinks.table_rows import held_in, session_settings, table_columns
from kwire.spark.sql import quoted
from kwire.spark.upkeep import Cutoff, Done
from kwire.spark.upkeep.conditions import (
    Columns,
    of_cutoff,
    of_range,
    of_ranges,
    of_records,
    within,
)
from kwire.spark.upkeep.old_times import any_has_old_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"
_MIN_FILE_BYTES = "spark.databricks.delta.optimize.minFileSize"
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
"""This check of Delta refuses to keep files for less than 7 days. A user may ask for that."""
_ORDER_CHECK = "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled"
"""This check refuses to order by a column without statistics, which only costs time."""
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""VACUUM lists the table's directories in as many tasks: 10,000, most of them without any work."""


class Upkeep:
    """The upkeep of the table at ``path``."""

    needs_spark = True

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._name = f"delta.{quoted(settings.path)}"

    def compact(
        self, spark: "SparkSession | None", target_bytes: int, report: Report = silent
    ) -> Done:
        """OPTIMIZE; readers of older versions keep their files until ``expire`` removes them."""
        assert spark is not None
        before = self._count(spark)
        size = str(target_bytes)
        command = f"OPTIMIZE {self._name}{self._renewal(spark)}"
        set_times(spark)
        limits = {_MAX_FILE_BYTES: size, _MIN_FILE_BYTES: size, _ORDER_CHECK: "false"}
        with session_settings(spark, limits):
            retried(lambda: spark.sql(command))
        return Done(files_before=before, files_after=self._count(spark))

    def _renewal(self, spark: "SparkSession") -> str:
        """What has OPTIMIZE write all files again, if some of them have old times; else nothing.

        OPTIMIZE alone leaves out files that are large, or that are alone.
        """
        from pyspark.sql.types import ArrayType, MapType, StructType

        table = self._table(spark)
        if not any_has_old_times(spark, table.inputFiles()):
            return ""
        by = spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0]["partitionColumns"]
        nested = (ArrayType, MapType, StructType)
        atomic = [
            one.name
            for one in table.schema
            if one.name not in by and not isinstance(one.dataType, nested)
        ]
        return f" ZORDER BY ({quoted(OFFSET if OFFSET in atomic else atomic[0])})"

    def _count(self, spark: "SparkSession") -> int:
        return int(spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0]["numFiles"])

    def expire(self, spark: "SparkSession | None", cutoff: Cutoff, keep_s: int) -> Done:
        """DELETE, and VACUUM of files that no version of the last ``keep_s`` seconds has."""
        assert spark is not None
        before = self._count(spark)
        columns = Columns.of(self._table(spark).columns)
        condition = of_cutoff(cutoff, self._settings, columns)
        set_times(spark)
        deleted = retried(lambda: spark.sql(f"DELETE FROM {self._name} WHERE {condition}"))
        rows = deleted.collect()[0][0]
        tasks = str(4 * spark.sparkContext.defaultParallelism)
        with session_settings(spark, {_LISTING_TASKS: tasks, _RETENTION_CHECK: "false"}):
            spark.sql(f"VACUUM {self._name} RETAIN {keep_s // 3600} HOURS")
        return Done(before, self._count(spark), int(rows))

    def ranges(self, spark: "SparkSession", wanted: OffsetRange) -> list[OffsetRange]:
        """The range, as far as the table goes."""
        table = self._table(spark)
        everything = replace(wanted, first=0, end=2**63 - 1)
        mine = table.where(of_range(everything, Columns.of(table.columns)))
        return within(wanted, [one.range for one in held_in(mine)])

    def _table(self, spark: "SparkSession") -> "DataFrame":
        return spark.read.format("delta").load(self._settings.path)

    def replay(
        self, spark: "SparkSession", rows: "DataFrame", ranges: Sequence[OffsetRange]
    ) -> Done:
        """Overwrite the rows of the ranges, in one commit."""
        # Delta refuses rows outside the condition, which rows of another range would be.
        condition = of_ranges(ranges, Columns.of(self._table(spark).columns))
        rule = DeltaNames(self._settings).rule(spark, rows.schema)
        wanted = table_columns(of_records(rows, ranges), self._settings, ranges, rule)
        writer = writer_of(wanted).format("delta").mode("overwrite")
        writer = writer.option("replaceWhere", condition).option("mergeSchema", "true")
        retried(lambda: writer.save(self._settings.path))
        return Done(rows=self._table(spark).where(condition).count())
