"""The kind ``pyiceberg``: rows are appended to an Iceberg table without Java, for small jobs.

The driver collects a batch as Arrow and writes it with the package ``pyiceberg``; ``max_rows``
limits the rows in its memory.

How each batch is there once: the commit that appends it also sets a property of the table, which
names the query's newest batch. The property stays when snapshots expire. Of two drivers that commit
at the same time, one gets an error (CommitFailedException).

Options: ``table``, a name such as ``sales.orders``; ``catalog``, a table with the properties of
pyiceberg's catalog (``type``, ``uri``, ``warehouse``, …) and its ``name`` (kwire), by which a
catalog in an SQL database tells its tables from those of others; ``max_rows`` (1,000,000).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch
from kwire.spark.column_names import ICEBERG, INCARNATION, PARTITION_COLUMN
from kwire.spark.rows import PARTITION
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held
from kwire.spark.sinks.arrow_rows import MAX_ROWS, collect, held_in_arrow
from kwire.spark.sinks.iceberg_table import named_for_iceberg
from kwire.spark.sinks.table_rows import (
    PLACE,
    check_options,
    check_place,
    table_columns,
)
from kwire.spark.sinks.table_types import Misfit, compared, iceberg_widens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class PyIcebergSink:
    """Appends batches to an Iceberg table, through the driver."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._name: str = settings.options.get("table", "")

    def check(self) -> None:
        """WrongSetting for options that name no table."""
        check_options(self._settings, {"table": str, "catalog": dict, "max_rows": int})
        if self._name.count(".") < 1:
            raise WrongSetting("sink.table", self._name, "a namespace and a name: sales.orders")
        if not self._settings.options.get("catalog"):
            raise WrongSetting("sink.catalog", "", 'give it, as {type = "rest", uri = "http://…"}')

    def open(self, spark: "SparkSession") -> None:
        """Make the table's namespace."""
        self._catalog().create_namespace_if_not_exists(self._name.rpartition(".")[0])

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``; the write itself widens what Iceberg allows."""
        from pyspark.sql.pandas.types import from_arrow_schema

        catalog = self._catalog()
        if not catalog.table_exists(self._name):
            return []
        arrow = catalog.load_table(self._name).schema().as_arrow()
        found = from_arrow_schema(arrow, prefer_timestamp_ntz=True)
        return compared(found, schema, ICEBERG, iceberg_widens)[1]

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        catalog = self._catalog()
        done = f"kwire.batch.{batch.query_id}"
        table = catalog.load_table(self._name) if catalog.table_exists(self._name) else None
        if table is not None and int(table.properties.get(done, -1)) >= batch.batch_id:
            return
        limit = self._settings.options.get("max_rows", MAX_ROWS)
        wanted = table_columns(rows, self._settings, batch.ranges, ICEBERG)
        found = collect(named_for_iceberg(wanted), limit)
        if table is None:
            table = catalog.create_table_if_not_exists(self._name, found.schema)
        with table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(found.schema)
            transaction.append(found)
            transaction.set_properties({done: str(batch.batch_id)})

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        properties = {"name": "kwire", **self._settings.options["catalog"]}
        return load_catalog(str(properties.pop("name")), **properties)

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        catalog = self._catalog()
        if not catalog.table_exists(self._name):
            return
        table = catalog.load_table(self._name)
        columns = {PARTITION: PARTITION_COLUMN}
        names = {columns.get(one, one): one for one in PLACE}
        there = table.schema().column_names
        check_place([names.get(one, one) for one in there])
        if INCARNATION in there:
            names[INCARNATION] = INCARNATION
        found = table.scan(selected_fields=tuple(names)).to_arrow()
        yield from held_in_arrow(found.rename_columns([names[one] for one in found.column_names]))
