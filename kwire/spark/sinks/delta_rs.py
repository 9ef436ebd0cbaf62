"""The kind ``delta-rs``: rows are appended to a Delta table without Java, for small jobs.

The driver collects a batch as Arrow and writes it with the package ``deltalake``. That is quick for
thousands of rows and works with every version of Spark. ``max_rows`` limits the rows in the
driver's memory.

How each batch is there once: as with the kind ``delta``, by Delta's transaction id. Both kinds use
the same ids, so a pipeline may change from one to the other.

Options: ``max_rows`` (1,000,000), ``partition_by``, and ``storage``, a table with the options of
deltalake for object stores.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch
from kwire.spark.column_names import DELTA, INCARNATION, spelled_rows
from kwire.spark.decode.same_names import keys_of
from kwire.spark.settings import SinkSettings, Source
from kwire.spark.sink import Held
from kwire.spark.sinks.arrow_rows import MAX_ROWS, collect, held_in_arrow, required_as
from kwire.spark.sinks.constraints import Constraints, Described
from kwire.spark.sinks.delta import application_of
from kwire.spark.sinks.misfits import Misfit
from kwire.spark.sinks.table_rows import (
    PLACE,
    check_options,
    check_place,
    need_path,
    table_columns,
)
from kwire.spark.sinks.table_types import compared, never

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaRsSink:
    """Appends batches to the Delta table at ``path``, through the driver."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._storage: dict[str, str] | None = settings.options.get("storage")
        self._constraints = Constraints(self._described)

    def check(self) -> None:
        """WrongSetting for a missing path or an option that isn't known."""
        need_path(self._settings, "the directory or URL of the table")
        known = {"max_rows": int, "partition_by": list, "storage": dict}
        check_options(self._settings, known)

    def open(self, spark: "SparkSession") -> None:
        """Nothing to do: the first batch creates the table."""

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``; deltalake widens nothing, and would convert without a word."""
        table = self._table()
        return [] if table is None else compared(_columns_of(table), schema, DELTA, never)[1]

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """As ``HasConstraints.refused``."""
        return self._constraints.refused(
            spark, lambda: table_columns(rows(), self._settings, batch.ranges, DELTA)
        )

    def _described(self, _spark: "SparkSession") -> Described | None:
        table = self._table()
        if table is None:
            return None
        return json.loads(table.schema().to_json()), table.metadata().configuration

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``."""
        table = self._table()
        return table is not None and _has(table, batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        table = self._table()
        wanted = table_columns(rows, self._settings, batch.ranges, DELTA)
        if table is not None:
            if _has(table, batch):
                return
            wanted = spelled_rows(wanted, _columns_of(table))
        limit = self._settings.options.get("max_rows", MAX_ROWS)
        found = collect(wanted, limit)
        if table is not None:
            found = required_as(found, _columns_of(table))
        write_deltalake(
            self._settings.path if table is None else table,
            found,
            mode="append",
            schema_mode="merge",
            partition_by=self._partition_by(found.column_names),
            storage_options=self._storage if table is None else None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(application_of(batch.query_id), batch.batch_id)]
            ),
        )

    def _partition_by(self, names: Sequence[str]) -> list[str] | None:
        """The columns of the setting as the table spells them: Spark, too, ignores their case."""
        given = self._settings.options.get("partition_by")
        if not given:
            return None
        stored = {one: keys_of(DELTA.stored(one)) for one in given}
        return [
            next((name for name in names if keys_of(name) & keys), one)
            for one, keys in stored.items()
        ]

    def _table(self) -> Any:
        """The table as it is now; None before the first batch."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._settings.path, self._storage):
            return None
        return DeltaTable(self._settings.path, storage_options=self._storage)

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        table = self._table()
        if table is None:
            return
        names = [one.name for one in table.schema().fields]
        check_place(names)
        columns = [one for one in names if one in (*PLACE, INCARNATION)]
        yield from held_in_arrow(table.to_pyarrow_table(columns=columns))


def _columns_of(table: Any) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def _has(table: Any, batch: Batch) -> bool:
    done = table.transaction_version(application_of(batch.query_id))
    return done is not None and done >= batch.batch_id
