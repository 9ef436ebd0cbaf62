"""The upkeep of Iceberg tables, by Iceberg's own procedures: each makes one snapshot.

This works beside a running stream: at the commit, Iceberg checks that the data that the command has
read is unchanged, and appends of the stream don't change it. A command that conflicts with another
change is tried again.

``replay`` writes a range by one MERGE that matches no rows: it deletes all rows of the range and
inserts the new rows, in one snapshot. Updates of matching rows would leave doubles.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import ICEBERG, PARTITION_COLUMN
from kwire.spark.reporting import Report, silent
from kwire.spark.rows import OFFSET, TOPIC
from kwire.spark.settings import SinkSettings
from kwire.spark.sinks.iceberg_table import (
    LABELING,
    IcebergTable,
    fitted,
    named_for_iceberg,
)
from kwire.spark.sinks.table_conflicts import retried
from kwire.spark.sinks.table_rows import held_in, table_columns
from kwire.spark.sql import listed
from kwire.spark.upkeep import Cutoff, Done
from kwire.spark.upkeep.conditions import (
    Columns,
    of_cutoff,
    of_range,
    of_ranges,
    of_records,
    within,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VIEW = "kwire_replay"


class Upkeep:
    """The upkeep of the table that the settings name."""

    needs_spark = True

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._table = IcebergTable(settings)
        self._name = self._table.name

    def compact(
        self, spark: "SparkSession | None", target_bytes: int, report: Report = silent
    ) -> Done:
        """rewrite_data_files; older snapshots keep their files until ``expire`` removes them."""
        assert spark is not None
        self._table.open(spark)
        before = self._count(spark)
        action = self._actions(spark).rewriteDataFiles(self._loaded(spark))
        action = action.option("target-file-size-bytes", str(target_bytes))
        with LABELING:
            retried(action.option("min-input-files", "2").binPack().execute)
        return Done(files_before=before, files_after=self._count(spark))

    def expire(self, spark: "SparkSession | None", cutoff: Cutoff, keep_s: int) -> Done:
        """DELETE, and expire_snapshots for snapshots older than ``keep_s`` seconds."""
        assert spark is not None
        self._table.open(spark)
        before = self._count(spark)
        condition = of_cutoff(cutoff, self._settings, self._columns(spark))
        rows = spark.table(self._name).where(condition).count()
        with LABELING:
            retried(lambda: spark.sql(f"DELETE FROM {self._name} WHERE {condition}"))
        until = datetime.now(UTC) - timedelta(seconds=keep_s)
        action = self._actions(spark).expireSnapshots(self._loaded(spark)).retainLast(1)
        action.expireOlderThan(int(until.timestamp() * 1000)).execute()
        return Done(before, self._count(spark), rows)

    def ranges(self, spark: "SparkSession", wanted: OffsetRange) -> list[OffsetRange]:
        """The range, as far as the table goes."""
        rows = self._table.read(spark)
        everything = replace(wanted, first=0, end=2**63 - 1)
        mine = rows.where(of_range(everything, Columns.of(rows.columns)))
        return within(wanted, [one.range for one in held_in(mine)])

    def _columns(self, spark: "SparkSession") -> Columns:
        return Columns.of(spark.table(self._name).columns, PARTITION_COLUMN)

    def replay(
        self, spark: "SparkSession", rows: "DataFrame", ranges: Sequence[OffsetRange]
    ) -> Done:
        """Replace the rows of the ranges, in one commit."""
        self._table.open(spark)
        mine = table_columns(of_records(rows, ranges), self._settings, ranges, ICEBERG)
        wanted = named_for_iceberg(mine)
        self._table.make_fit(spark, wanted.schema)
        columns = self._columns(spark)
        condition = of_ranges(ranges, columns)
        session = rows.sparkSession
        found = fitted(wanted, spark.table(self._name).schema)
        found.createOrReplaceTempView(_VIEW)
        with LABELING:
            gone = of_ranges(ranges, replace(columns, table="t."))
            merge = self._merge(found.columns, gone)
            retried(lambda: session.sql(merge))
        return Done(rows=spark.table(self._name).where(condition).count())

    def _merge(self, columns: Sequence[str], gone: str) -> str:
        same = " AND ".join(f"t.{one} = s.{one}" for one in (TOPIC, PARTITION_COLUMN, OFFSET))
        # The equations spread the rows over the tasks; a plain false would need a nested loop.
        return (
            f"MERGE INTO {self._name} t USING {_VIEW} s ON {same} AND t.{OFFSET} <> s.{OFFSET} "
            f"WHEN NOT MATCHED THEN INSERT ({listed(columns)}) VALUES ({listed(columns, 's.')}) "
            f"WHEN NOT MATCHED BY SOURCE AND ({gone}) THEN DELETE"
        )

    def _loaded(self, spark: "SparkSession") -> Any:
        jvm: Any = spark._jvm
        util = jvm.org.apache.iceberg.spark.Spark3Util
        table = util.loadIcebergTable(spark._jsparkSession, self._name)
        table.refresh()
        return table

    def _actions(self, spark: "SparkSession") -> Any:
        jvm: Any = spark._jvm
        return jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)

    def _count(self, spark: "SparkSession") -> int:
        summary = self._loaded(spark).currentSnapshot().summary()
        return int(summary.get("total-data-files"))
