"""An Iceberg table of a sink: its place, its columns and the batches that it has.

Options:

- ``table``, a name such as ``lake.sales.orders``, whose first part is a catalog of Spark. Its
  settings are in ``catalog``, a table such as ``{type = "hadoop", warehouse = "/data/lake"}``, or
  among the pipeline's ``[spark]`` settings.
- or ``path`` instead: a table in a directory, without a catalog. A file system must then be able to
  rename atomically, which object stores can't.
- ``partition_by``, a list of columns or transforms (``days(_timestamp)``).
- ``properties``, a table with Iceberg's table properties. Like ``partition_by``, they take effect
  only when the table is created.

Iceberg keeps the name ``_partition`` for itself (MetadataColumns), so a record's partition is in
the column ``_topic_partition`` of Iceberg tables.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch
from kwire.spark.column_names import ICEBERG, PARTITION_COLUMN
from kwire.spark.decode.same_names import ByName
from kwire.spark.rows import PARTITION
from kwire.spark.settings import SinkSettings, WrongSetting
from kwire.spark.sinks.constraints import Constraints, Described
from kwire.spark.sinks.misfits import Misfit
from kwire.spark.sinks.table_rows import check_options, has_class
from kwire.spark.sinks.table_types import additions, fit_table, iceberg_widens
from kwire.spark.sql import columns_text, properties_text, quoted, type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

BATCH_OF = "kwire.batch."
"""A property of a snapshot's summary: this prefix and the query's id. Its value is the batch id."""

NOT_BY_APPENDS = {
    f"write.{one}.isolation-level": "snapshot" for one in ("delete", "update", "merge")
}
"""With these properties, upkeep doesn't fail because rows were appended meanwhile."""

LABELING = threading.Lock()
"""The lock that is held while Iceberg labels every snapshot that this process commits."""

EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


class IcebergTable:
    """The table that a sink's settings name."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        given: dict[str, Any] = settings.options
        properties = given.get("catalog") or {}
        if "table" in given:
            self.name: str = given["table"]
            catalog = self.name.split(".")[0]
        else:
            # Spark reads a catalog's settings at its first use: one catalog for each directory.
            directory, _, table = settings.path.rstrip("/").rpartition("/")
            catalog = f"kwire_{sha256(directory.encode()).hexdigest()[:12]}"
            self.name = f"{catalog}.{quoted(table)}"
            properties = {"type": "hadoop", "warehouse": directory or "."}
        if properties:
            # Other programs change the table too, and a cached table would hide their changes.
            properties = {"cache-enabled": "false", **properties}
        self._catalog_settings = {
            f"spark.sql.catalog.{catalog}.{key}": str(value) for key, value in properties.items()
        }
        if properties:
            self._catalog_settings[f"spark.sql.catalog.{catalog}"] = _CATALOG
        self.spark_settings = {"spark.sql.extensions": EXTENSION, **self._catalog_settings}
        """The settings that the Spark session needs, in addition to Iceberg's jar."""
        self._constraints = Constraints(self._described, needs_parents=False)

    def check(self, also: Mapping[str, type] | None = None) -> None:
        """Raise WrongSetting for options that name no table; ``also`` has options of the sink."""
        own = {"table": str, "catalog": dict, "partition_by": list, "properties": dict}
        check_options(self._settings, {**own, **(also or {})})
        table = self._settings.options.get("table", "")
        if bool(table) == bool(self._settings.path):
            allowed = "give either a path or a table, as in lake.sales.orders"
            raise WrongSetting("sink.table", table, allowed)
        if table and str(table).count(".") < 1:
            raise WrongSetting("sink.table", table, "begin with a catalog, as in lake.sales.orders")

    def open(self, spark: "SparkSession") -> None:
        """Set up the catalog; raise WrongSetting with a remedy if Spark has no Iceberg."""
        if not has_class(spark, _CATALOG):
            raise WrongSetting(
                "sink.kind",
                self._settings.kind,
                f"this Spark {spark.version} has no Iceberg: add a jar of Iceberg for it, as "
                "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0 for Spark 4.0, "
                'or write with kind = "pyiceberg", which needs no jar',
            )
        for key, value in self._catalog_settings.items():
            spark.conf.set(key, value)

    def make_fit(self, spark: "SparkSession", schema: "StructType") -> None:
        """Create the table, or add the columns that it lacks."""
        self.open(spark)
        if not spark.catalog.tableExists(self.name):
            self._create(spark, schema)
        added = additions(spark.table(self.name).schema, schema)
        if added:
            columns = (f"{name} {type_text(kind.jsonValue())}" for name, kind in added)
            spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({', '.join(columns)})")

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``; columns get wider types as Iceberg allows it."""
        self.open(spark)
        if not spark.catalog.tableExists(self.name):
            return []
        table = self.read(spark).schema
        return fit_table(spark, self.name, table, schema, ICEBERG, iceberg_widens)

    def refused(self, spark: "SparkSession", stored: "Callable[[], DataFrame]") -> Any:
        """As ``Constraints.refused``."""
        return self._constraints.refused(spark, stored)

    def constrained(self, spark: "SparkSession", columns: Iterable[str]) -> list[str]:
        """As ``Constraints.named``."""
        return self._constraints.named(spark, columns)

    def _described(self, spark: "SparkSession") -> Described | None:
        self.open(spark)
        if not spark.catalog.tableExists(self.name):
            return None
        return self.read(spark).schema.jsonValue(), {}

    def _create(self, spark: "SparkSession", schema: "StructType") -> None:
        columns = columns_text(schema.jsonValue())
        by = ""
        if parts := self._settings.options.get("partition_by"):
            # A column is given by its name, a transform as SQL.
            names = {one: ICEBERG.stored(one) for one in parts}
            texts = (quoted(names[one]) if names[one] in schema.names else one for one in parts)
            by = f" PARTITIONED BY ({', '.join(texts)})"
        given = self._settings.options.get("properties", {})
        if self._settings.kind == "iceberg":
            given = NOT_BY_APPENDS | given
        properties = f" TBLPROPERTIES ({properties_text(given)})" if given else ""
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg{by}{properties}"
        )

    def read(self, spark: "SparkSession") -> "DataFrame":
        """The table, with the partition's column named as elsewhere."""
        self.open(spark)
        spark.sql(f"REFRESH TABLE {self.name}")
        return spark.table(self.name).withColumnRenamed(PARTITION_COLUMN, PARTITION)

    def newest_batch(self, spark: "SparkSession", query_id: str) -> int | None:
        """The id of a query's newest batch in the table's snapshots; None if there is none."""
        jvm: Any = spark._jvm
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, self.name
        )
        table.refresh()
        snapshot = table.currentSnapshot()
        while snapshot is not None:
            summary = snapshot.summary()
            found = summary.get(f"{BATCH_OF}{query_id}")
            if found is not None:
                return int(found)
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        return None

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """Whether the table has a batch, as far as its snapshots tell."""
        self.open(spark)
        if not spark.catalog.tableExists(self.name):
            return False
        newest = self.newest_batch(spark, batch.query_id)
        return newest is not None and newest >= batch.batch_id


def fitted(rows: "DataFrame", wanted: "StructType") -> "DataFrame":
    """The rows with all columns of a table; missing columns are null."""
    from pyspark.sql import functions as f

    has = _types_of(rows.schema)
    return rows.select(
        *(
            _fitted(f.col(quoted(one.name)), one.dataType, has.get(one.name)).alias(one.name)
            for one in wanted.fields
        )
    )


def named_for_iceberg(rows: "DataFrame") -> "DataFrame":
    """Rows with the partition's column named as in Iceberg tables."""
    return rows.withColumnRenamed(PARTITION, PARTITION_COLUMN)


@contextmanager
def labeled(spark: "SparkSession", batch: Batch) -> Iterator[None]:
    """Put the id of a batch into the summary of the snapshot that SQL commits within the block.

    SQL has no option for that in Iceberg 1.10. But Iceberg writes its EnvironmentContext into every
    summary that this process commits. So nothing else in this process may commit to the table
    within the block: upkeep waits for LABELING. A label in another table does no harm.
    """
    jvm: Any = spark._jvm
    context = jvm.org.apache.iceberg.EnvironmentContext
    name = f"{BATCH_OF}{batch.query_id}"
    with LABELING:
        context.put(name, str(batch.batch_id))
        try:
            yield
        finally:
            context.remove(name)


def _types_of(schema: "StructType") -> "ByName[DataType]":
    """The types of columns; ``id`` and ``ID`` are one, as for the table."""
    return ByName((one.name, one.dataType) for one in schema.fields)


def _fitted(column: Any, wanted: "DataType", has: "DataType | None") -> Any:
    """A column with the fields of ``wanted``; ``has`` is None if the rows lack the column."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if has is None:
        return f.lit(None).cast(wanted)
    if wanted == has:
        return column
    if isinstance(wanted, ArrayType) and isinstance(has, ArrayType):
        item, own = wanted.elementType, has.elementType
        return f.transform(column, lambda one: _fitted(one, item, own))
    if isinstance(wanted, MapType) and isinstance(has, MapType):
        value, mine = wanted.valueType, has.valueType
        return f.transform_values(column, lambda _, one: _fitted(one, value, mine))
    if not (isinstance(wanted, StructType) and isinstance(has, StructType)):
        return column
    own = _types_of(has)
    fields = f.struct(
        *(
            _fitted(column[one.name], one.dataType, own.get(one.name)).alias(one.name)
            for one in wanted.fields
        )
    )
    return f.when(column.isNotNull(), fields)
