"""The kind ``delta``: rows are appended to a Delta table, one commit for each batch.

How each batch is there once: its commit names the query as Delta's ``txnAppId`` and the batch as
``txnVersion``. Delta keeps the newest version of each application in the table itself, also when
old commits and files are gone, and leaves out a commit whose version isn't newer. Of two drivers
that commit the same batch at the same time, one gets an error (ConcurrentTransactionException).

New columns are added to the table (``mergeSchema``). A column that changes its type keeps the
table's (``table_types``), unless the table's property ``delta.enableTypeWidening`` is true. kwire
doesn't set it by itself: readers without the feature, such as deltalake, then refuse the table.

Options: ``partition_by``, a list of columns, and ``properties``, a table with Delta's table
properties; both count when the table is created.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from kwire.spark.batch import Batch
from kwire.spark.columns import quoted
from kwire.spark.parquet_times import writer_of
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held
from kwire.spark.sinks.table_conflicts import retried
from kwire.spark.sinks.table_rows import (
    check_options,
    has_class,
    held_in,
    need_path,
    table_columns,
)
from kwire.spark.sinks.table_types import Misfit, compared, delta_widens, never, widen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SPARK_SETTINGS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""The settings of a session that Delta needs, beside its jars."""


WIDENING = "delta.enableTypeWidening"
"""The property of tables whose columns may get wider types."""


def application_of(query_id: str) -> str:
    """The id under which Delta keeps a query's newest batch."""
    return f"kwire-{query_id}"


def need_delta(spark: "SparkSession", kind: str, key: str = "sink.kind") -> None:
    """WrongSetting if Spark's Java has no Delta, with the way out."""
    if not has_class(spark, "io.delta.tables.DeltaTable"):
        instead = "delta-rs" if key == "sink.kind" else "parquet"
        raise WrongSetting(
            key,
            kind,
            f"this Spark {spark.version} has no Delta: add a jar of Delta for it, as "
            "io.delta:delta-spark_2.13:4.0.0 for Spark 4.0, or write with "
            f'kind = "{instead}", which needs no jar',
        )


def fit_delta(spark: "SparkSession", settings: SinkSettings, schema: "StructType") -> list[Misfit]:
    """Widen the columns of a Delta table, if its property or the settings say so."""
    path = settings.path
    tables: Any = spark._jvm.io.delta.tables.DeltaTable
    if not tables.isDeltaTable(spark._jsparkSession, path):
        return []
    table = spark.read.format("delta").load(path).schema
    misfits = compared(table, schema, never)[1]
    if not misfits:
        return []
    name = f"delta.{quoted(path)}"
    found = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["properties"]
    has_it = found.get(WIDENING) == "true"
    if not has_it and settings.options.get("properties", {}).get(WIDENING) != "true":
        return misfits
    changes, misfits = compared(table, schema, delta_widens)
    if changes and not has_it:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{WIDENING}' = 'true')")
    widen(spark, name, changes)
    return misfits


class DeltaSink:
    """Appends batches to the Delta table at ``path``."""

    spark_settings: ClassVar[dict[str, str]] = SPARK_SETTINGS

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings

    def check(self) -> None:
        """WrongSetting for a missing path or an option that isn't known."""
        need_path(self._settings, "the directory of the table")
        check_options(self._settings, {"partition_by": list, "properties": dict})

    def open(self, spark: "SparkSession") -> None:
        """WrongSetting if Spark has no Delta. The first batch creates the table."""
        need_delta(spark, self._settings.kind)

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``."""
        return fit_delta(spark, self._settings, schema)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        self.write_prepared(self.prepared(rows, batch), batch)

    def prepared(self, rows: "DataFrame", batch: Batch) -> "DataFrame":
        """The rows with the table's columns."""
        found: DataFrame = table_columns(rows, self._settings, batch.ranges)
        return found

    def write_prepared(self, rows: "DataFrame", batch: Batch) -> None:
        """Append rows from ``prepared``."""
        writer = writer_of(rows).format("delta").mode("append")
        writer = writer.option("mergeSchema", "true").options(
            **self._settings.options.get("properties", {}),
            txnAppId=application_of(batch.query_id),
            txnVersion=str(batch.batch_id),
        )
        if columns := self._settings.options.get("partition_by"):
            writer = writer.partitionBy(*columns)
        retried(lambda: writer.save(self._settings.path))  # compact, expire, replay may interfere

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        need_delta(spark, self._settings.kind)
        yield from held_in(spark.read.format("delta").load(self._settings.path))
