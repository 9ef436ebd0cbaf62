"""The kind ``iceberg``: rows are appended to an Iceberg table, one snapshot for each batch.

How each batch is there once: the summary of its snapshot names the query and the batch. Before a
write the sink goes back through the table's snapshots to the newest one of this query:

- it has this batch or a later one: nothing is written;
- it has an earlier batch: this batch isn't in the table, because snapshots expire from the oldest
  on;
- there is none: the query is new, or all its snapshots have expired while others kept writing. Then
  the sink looks for rows with the batch's offsets and leaves those out. The batches of a new
  checkpoint have other ranges, so a part of a batch may be in the table.

Iceberg has no transaction ids, so two drivers that run the same batch at the same time could both
append it. A lock in the checkpoint prevents that. On object stores, which have no locks, Spark's
checkpoint prevents it.

New columns are added to the table, and columns get wider types where Iceberg has that. Else a
column keeps its type (``table_types``).
"""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

from kwire.spark.batch import Batch
from kwire.spark.column_names import ICEBERG, INCARNATION, PARTITION_COLUMN
from kwire.spark.rows import OFFSET, PARTITION, TOPIC
from kwire.spark.settings import SinkSettings, Source
from kwire.spark.sink import Held
from kwire.spark.sinks.iceberg_table import (
    BATCH_OF,
    IcebergTable,
    fitted,
    named_for_iceberg,
)
from kwire.spark.sinks.misfits import Misfit
from kwire.spark.sinks.table_rows import PLACE, held_in, table_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class IcebergSink:
    """Appends batches to an Iceberg table; its options are those of IcebergTable."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self.table = IcebergTable(settings)
        self.spark_settings = self.table.spark_settings

    def check(self) -> None:
        """WrongSetting for options that name no table."""
        self.table.check()

    def open(self, spark: "SparkSession") -> None:
        """WrongSetting if Spark has no Iceberg. The first batch creates the table."""
        self.table.open(spark)

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``."""
        return self.table.fit(spark, schema)

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """As ``HasConstraints.refused``."""
        return self.table.refused(
            spark, lambda: table_columns(rows(), self._settings, batch.ranges, ICEBERG)
        )

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``."""
        return self.table.has(spark, batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Append a batch; nothing happens if the table has it already."""
        spark = rows.sparkSession
        table = self.table
        wanted = named_for_iceberg(table_columns(rows, self._settings, batch.ranges, ICEBERG))
        table.make_fit(spark, wanted.schema)
        newest = table.newest_batch(spark, batch.query_id)
        if newest is not None and newest >= batch.batch_id:
            return
        if newest is None:
            wanted = self._missing(wanted, batch)
        writer = fitted(wanted, spark.table(table.name).schema).writeTo(table.name)
        label = f"snapshot-property.{BATCH_OF}{batch.query_id}"
        writer.option(label, str(batch.batch_id)).append()

    def _missing(self, wanted: "DataFrame", batch: Batch) -> "DataFrame":
        """The rows whose offsets the table lacks; all rows if rows or table have no offsets."""
        from pyspark.sql import functions as f

        place = [TOPIC, PARTITION_COLUMN, OFFSET]
        rows = self.table.read(wanted.sparkSession)
        has_places = set(PLACE) <= set(rows.columns) and set(place) <= set(wanted.columns)
        if not has_places or not batch.ranges:
            return wanted
        has_column = INCARNATION in rows.columns
        incarnation = f.coalesce(f.col(INCARNATION) if has_column else f.lit(None), f.lit(0))
        conditions = [
            (f.col(TOPIC) == one.topic)
            & (f.col(PARTITION) == one.partition)
            & f.col(OFFSET).between(one.first, one.end - 1)
            & (incarnation == one.incarnation)
            for one in batch.ranges
        ]
        known = rows.where(reduce(lambda one, other: one | other, conditions))
        if not known.take(1):
            return wanted
        renamed = known.select(TOPIC, f.col(PARTITION).alias(PARTITION_COLUMN), OFFSET)
        return wanted.join(renamed, place, "left_anti")

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the table holds; OffsetsUnknown if a transform drops them."""
        yield from held_in(self.table.read(spark))
