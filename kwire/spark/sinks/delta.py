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

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from kwire.spark.batch import Batch
from kwire.spark.column_names import DELTA, DELTA_MAPPED, NameRule
from kwire.spark.parquet_times import writer_of
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held
from kwire.spark.sinks.constraints import Constraints, Described
from kwire.spark.sinks.misfits import Misfit
from kwire.spark.sinks.table_conflicts import altered, retried
from kwire.spark.sinks.table_rows import (
    PLACE,
    check_options,
    has_class,
    held_in,
    need_path,
    table_columns,
)
from kwire.spark.sinks.table_types import compared, delta_widens, fit_table, never
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SPARK_SETTINGS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""The settings of a session that Delta needs, beside its jars."""

COLUMN_MAPPING = "delta.columnMapping.mode"
"""The table property with which a Delta table keeps names that its files can't have."""

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


class DeltaNames:
    """The rule of a Delta table's names: that of the table, or of the settings for a new one.

    kwire doesn't turn on column mapping by itself: readers that don't know it, deltalake among
    them, find nothing but null in the columns of such a table.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._found: NameRule | None = None

    def rule(self, spark: "SparkSession", rows: "StructType") -> NameRule:
        """The rule for rows as they come; the table is asked only where that makes a difference."""
        schema = rows.jsonValue()
        if DELTA.stored_type(schema) == DELTA_MAPPED.stored_type(schema):
            return DELTA
        if self._found is None:
            self._found = self._of_table(spark)
        return self._found

    def _of_table(self, spark: "SparkSession") -> NameRule:
        path = self._settings.path
        properties = self._settings.options.get("properties", {})
        if _is_table(spark, path):
            properties = _properties_of(spark, path)
        return DELTA_MAPPED if properties.get(COLUMN_MAPPING, "none") != "none" else DELTA


def fit_delta(
    spark: "SparkSession", settings: SinkSettings, schema: "StructType", rule: NameRule
) -> list[Misfit]:
    """Widen the columns of a Delta table, if its property or the settings say so."""
    path = settings.path
    if not _is_table(spark, path):
        return []
    table = spark.read.format("delta").load(path).schema
    changes = compared(table, schema, rule, delta_widens)[0]
    name = f"delta.{quoted(path)}"
    widens = delta_widens if changes and _may_widen(spark, name, settings) else never
    return fit_table(spark, name, table, schema, rule, widens)


def _may_widen(spark: "SparkSession", name: str, settings: SinkSettings) -> bool:
    """Whether the table's property lets columns get wider; it is set if the settings say so."""
    if _properties_of(spark, settings.path).get(WIDENING) == "true":
        return True
    if settings.options.get("properties", {}).get(WIDENING) != "true":
        return False
    return not altered(spark, f"ALTER TABLE {name} SET TBLPROPERTIES ('{WIDENING}' = 'true')")


def _is_table(spark: "SparkSession", path: str) -> bool:
    tables: Any = spark._jvm.io.delta.tables.DeltaTable
    return bool(tables.isDeltaTable(spark._jsparkSession, path))


def has_batch(spark: "SparkSession", path: str, batch: Batch) -> bool:
    """Whether the Delta table at a path has a batch."""
    if not _is_table(spark, path):
        return False
    jvm: Any = spark._jvm
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    newest = logs.forTableWithSnapshot(spark._jsparkSession, path)._2()
    found = newest.transactions().get(application_of(batch.query_id))
    return found.isDefined() and int(found.get()) >= batch.batch_id


def _properties_of(spark: "SparkSession", path: str) -> dict[str, str]:
    found = spark.sql(f"DESCRIBE DETAIL delta.{quoted(path)}").collect()
    return dict(found[0]["properties"])


def describe_delta(spark: "SparkSession", path: str) -> Described | None:
    """What a Delta table says of its columns; None if there is none."""
    if not _is_table(spark, path):
        return None
    jvm: Any = spark._jvm
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    metadata = logs.forTableWithSnapshot(spark._jsparkSession, path)._2().metadata()
    properties = jvm.scala.jdk.javaapi.CollectionConverters.asJava(metadata.configuration())
    return json.loads(metadata.schemaString()), dict(properties)


class DeltaSink:
    """Appends batches to the Delta table at ``path``."""

    spark_settings: ClassVar[dict[str, str]] = SPARK_SETTINGS

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._names = DeltaNames(settings)
        self._rule = DELTA
        self._constraints = Constraints(lambda spark: describe_delta(spark, settings.path))

    def check(self) -> None:
        """WrongSetting for a missing path or an option that isn't known."""
        need_path(self._settings, "the directory of the table")
        check_options(self._settings, {"partition_by": list, "properties": dict})

    def open(self, spark: "SparkSession") -> None:
        """WrongSetting if Spark has no Delta. The first batch creates the table."""
        need_delta(spark, self._settings.kind)

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``."""
        return fit_delta(spark, self._settings, schema, self._names.rule(spark, schema))

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """As ``HasConstraints.refused``."""
        return self._constraints.refused(spark, lambda: self.prepared(rows(), batch))

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``."""
        return has_batch(spark, self._settings.path, batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        self.write_prepared(self.prepared(rows, batch), batch)

    @property
    def used(self) -> set[str]:
        """As ``InSteps.used``."""
        return {*PLACE, *(f"_{one}" for one in self._settings.metadata)}

    def prepared(self, rows: "DataFrame", batch: Batch) -> "DataFrame":
        """The rows with the table's columns."""
        self._rule = self._names.rule(rows.sparkSession, rows.schema)
        found: DataFrame = table_columns(rows, self._settings, batch.ranges, self._rule)
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
            writer = writer.partitionBy(*map(self._rule.stored, columns))
        retried(lambda: writer.save(self._settings.path))  # compact, expire, replay may interfere

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        need_delta(spark, self._settings.kind)
        yield from held_in(spark.read.format("delta").load(self._settings.path))
