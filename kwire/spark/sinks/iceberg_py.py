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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch
from kwire.spark.column_names import ICEBERG, INCARNATION, PARTITION_COLUMN, spelled_rows
from kwire.spark.rows import PARTITION
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held
from kwire.spark.sinks.arrow_rows import MAX_ROWS, collect, held_in_arrow, required_as
from kwire.spark.sinks.constraints import Constraints, Described
from kwire.spark.sinks.iceberg_table import named_for_iceberg
from kwire.spark.sinks.misfits import Misfit, with_types
from kwire.spark.sinks.table_conflicts import ANSWER_CHARS, retried
from kwire.spark.sinks.table_rows import (
    PLACE,
    check_options,
    check_place,
    table_columns,
)
from kwire.spark.sinks.table_types import additions, compared, iceberg_widens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class PyIcebergSink:
    """Appends batches to an Iceberg table, through the driver."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._name: str = settings.options.get("table", "")
        self._constraints = Constraints(self._described)

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
        """As ``FitsTable.fit``: the table's columns are changed before the batch is decided."""
        table = self._table()
        if table is None:
            return []
        columns, named = _columns_of(table), _with_partition(_columns_of(table))
        changes, misfits = compared(named, schema, ICEBERG, iceberg_widens)
        rows = with_types(spark.createDataFrame([], schema), misfits)
        wanted = named_for_iceberg(table_columns(rows, self._settings, (), ICEBERG))
        paths = [one.path for one in changes]
        paths += [path for path, _ in additions(columns, wanted.schema)]
        answer = self._changed(spelled_rows(wanted, columns)) if paths else ""
        if not answer:
            return misfits
        return compared(named, schema, ICEBERG, iceberg_widens, dict.fromkeys(paths, answer))[1]

    def _changed(self, empty: "DataFrame") -> str:
        """Give the table the columns of rows; "" if that was done, or why it is refused."""
        from pyiceberg import exceptions

        refusals = (
            exceptions.BadRequestError,
            exceptions.ForbiddenError,
            exceptions.ValidationError,
            exceptions.ValidationException,
            ValueError,
        )

        def change() -> None:
            table = self._table()
            found = required_as(collect(empty, 1), _columns_of(table))
            with table.update_schema() as update:
                update.union_by_name(found.schema)

        try:
            retried(change)
        except refusals as error:
            return " ".join(str(error).split())[:ANSWER_CHARS] or type(error).__name__
        return ""

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """As ``HasConstraints.refused``."""
        return self._constraints.refused(
            spark, lambda: table_columns(rows(), self._settings, batch.ranges, ICEBERG)
        )

    def _described(self, _spark: "SparkSession") -> Described | None:
        table = self._table()
        return None if table is None else (_columns_of(table).jsonValue(), {})

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``."""
        table = self._table()
        return table is not None and _has(table, batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        table = self._table()
        wanted = table_columns(rows, self._settings, batch.ranges, ICEBERG)
        wanted = named_for_iceberg(wanted)
        if table is not None:
            if _has(table, batch):
                return
            wanted = spelled_rows(wanted, _columns_of(table))
        limit = self._settings.options.get("max_rows", MAX_ROWS)
        found = collect(wanted, limit)
        if table is not None:
            found = required_as(found, _columns_of(table))
        if table is None:
            table = self._catalog().create_table_if_not_exists(self._name, found.schema)
        with table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(found.schema)
            transaction.append(found)
            transaction.set_properties({_property_of(batch): str(batch.batch_id)})

    def _table(self) -> Any:
        """The table as it is now; None before the first batch."""
        catalog = self._catalog()
        return catalog.load_table(self._name) if catalog.table_exists(self._name) else None

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        properties = {"name": "kwire", **self._settings.options["catalog"]}
        return load_catalog(str(properties.pop("name")), **properties)

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        table = self._table()
        if table is None:
            return
        columns = {PARTITION: PARTITION_COLUMN}
        names = {columns.get(one, one): one for one in PLACE}
        there = table.schema().column_names
        check_place([names.get(one, one) for one in there])
        if INCARNATION in there:
            names[INCARNATION] = INCARNATION
        found = table.scan(selected_fields=tuple(names)).to_arrow()
        yield from held_in_arrow(found.rename_columns([names[one] for one in found.column_names]))


def _columns_of(table: Any) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema().as_arrow(), prefer_timestamp_ntz=True)


def _with_partition(columns: "StructType") -> "StructType":
    """A table's columns with the partition's named as elsewhere."""
    from pyspark.sql.types import StructField, StructType

    names = {PARTITION_COLUMN: PARTITION}
    return StructType(
        [StructField(names.get(one.name, one.name), one.dataType) for one in columns.fields]
    )


def _property_of(batch: Batch) -> str:
    return f"kwire.batch.{batch.query_id}"


def _has(table: Any, batch: Batch) -> bool:
    return int(table.properties.get(_property_of(batch), -1)) >= batch.batch_id
