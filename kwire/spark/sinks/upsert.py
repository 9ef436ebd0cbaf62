"""The kind ``upsert``: a Delta or Iceberg table with one row for each key, the newest one.

Each batch is one MERGE, which is atomic: rows update or insert their key, tombstones delete it.

Which record of a key is the newest:

- In one partition, the record with the higher offset is newer. If a topic was deleted and created
  again, the records of the new topic are newer.
- The records of a key lie in one partition as long as the producers hash the key and the number of
  partitions stays. If they lie in several partitions, the record with the later timestamp is newer,
  and with equal timestamps the record in the partition with the higher number. Offsets of different
  partitions can't be compared.

A batch that runs again changes nothing. Two checks see to that, because each has a gap that the
other closes:

- The table remembers the newest batch of the query (Delta's transaction id, Iceberg's snapshot
  summary) and ignores older batches. This check can't help a query with a new checkpoint.
- Every row has the topic, partition, offset and timestamp of its record, and only a newer record
  replaces it. This check can't help where a tombstone has removed the row.

Together they leave one case: a new checkpoint reads an old range again, and a key of that range was
deleted later. Then the row of this key is back until its tombstone is read again. With
``deletes = "mark"`` this can't happen: the table keeps deleted rows, with ``_tombstone`` true and
null in the columns of the value. What a truncate deletes keeps the values of columns that are in a
constraint of the table: it would refuse null, and no record could be a dead letter for that.

Rows of Debezium's events have the column CHANGE: ``kwire.spark.changes`` says what a truncate
deletes. It is part of the same MERGE, which then looks at the whole table.

Options: ``format`` (delta, iceberg), ``key`` (columns; by default ``_key``), ``deletes`` (remove,
mark), ``null_keys`` (stop, skip, dead letter: such rows don't come here), and the options of the
format. A tombstone has no value. So if the key is made of columns of the value, tombstones can't
delete rows: a transform has to make the key from ``_key``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch
from kwire.spark.changes import (
    Truncate,
    completed,
    is_of_a_row,
    is_truncated,
    lacks_values,
    truncates_of,
    unchanged_of,
)
from kwire.spark.column_names import (
    DELTA,
    DELTA_MAPPED,
    ICEBERG,
    INCARNATION,
    PARTITION_COLUMN,
    stored_rows,
)
from kwire.spark.decode.same_names import ByName
from kwire.spark.parquet_times import set_times, writer_of
from kwire.spark.rows import (
    CHANGE,
    KEY,
    METADATA,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOMBSTONE,
    TOPIC,
)
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held, OffsetsUnknown
from kwire.spark.sinks.constraints import Constraints
from kwire.spark.sinks.delta import (
    SPARK_SETTINGS,
    DeltaNames,
    application_of,
    describe_delta,
    fit_delta,
    has_batch,
    need_delta,
)
from kwire.spark.sinks.iceberg_table import (
    IcebergTable,
    fitted,
    labeled,
    named_for_iceberg,
)
from kwire.spark.sinks.misfits import Misfit
from kwire.spark.sinks.table_rows import (
    check_choice,
    check_options,
    is_missing,
    need_path,
    session_settings,
    table_columns,
    with_incarnation,
)
from kwire.spark.sinks.table_types import additions
from kwire.spark.sql import listed, literal, quoted
from kwire.spark.tombstones import DEAD_LETTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ORDER = (TOPIC, PARTITION, OFFSET, TIMESTAMP, TOMBSTONE)
"""The metadata columns that an upsert needs."""

_Merge = Callable[[str, Sequence[str]], str]
"""Makes the statement for a table and its columns."""

_Held = Callable[[Sequence[str]], list[str]]
"""Those of a table's columns that are in its constraints."""

_VIEW = "kwire_upsert"
_EXACT = {"spark.sql.datetime.java8API.enabled": "true"}
"""Rows of objects have Java's new times then: the old ones have no 5 to 14 October 1582."""


def _newer(partition: str, *, by_incarnation: bool) -> str:
    """The SQL condition that the row of the batch is newer than the row of the table."""

    def place(row: str) -> str:
        number = f"coalesce({row}.{INCARNATION}, 0)" if by_incarnation else "0"
        return f"struct({number}, {row}.{OFFSET})"

    return (
        f"CASE WHEN s.{TOPIC} = t.{TOPIC} AND s.{partition} = t.{partition} "
        f"THEN {place('s')} > {place('t')} "
        f"ELSE struct(s.{TIMESTAMP}, s.{partition}, s.{TOPIC}) > "
        f"struct(t.{TIMESTAMP}, t.{partition}, t.{TOPIC}) END"
    )


class UpsertSink:
    """Keeps the newest row of each key."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline_name: str) -> None:
        self._settings = settings
        self._is_delta = settings.options.get("format", "delta") == "delta"
        self._iceberg = IcebergTable(settings)
        self._names = DeltaNames(settings)
        self._rule = DELTA
        self.spark_settings = SPARK_SETTINGS if self._is_delta else self._iceberg.spark_settings
        self.keys: Sequence[str] = settings.options.get("key", [KEY])
        self.marks_deleted = settings.options.get("deletes") == "mark"
        self.truncates: Sequence[Truncate] = ()
        self._shown: DataFrame | None = None
        self._constraints = Constraints(lambda spark: describe_delta(spark, settings.path))

    def check(self) -> None:
        """Raise WrongSetting for options that can't work."""
        check_choice(self._settings, "format", ("delta", "iceberg"))
        check_choice(self._settings, "deletes", ("remove", "mark"))
        check_choice(self._settings, "null_keys", ("stop", "skip", DEAD_LETTER))
        own: dict[str, type] = {"format": str, "key": list, "deletes": str, "null_keys": str}
        if self._is_delta:
            need_path(self._settings, "the directory of the table")
            check_options(self._settings, {**own, "partition_by": list, "properties": dict})
        else:
            self._iceberg.check(own)
        if not self.keys:
            raise WrongSetting("sink.key", [], "name the columns whose values are the key")

    def open(self, spark: "SparkSession") -> None:
        """Raise WrongSetting if Spark lacks the format. The first batch creates the table."""
        if self._is_delta:
            need_delta(spark, self._settings.kind)
        else:
            self._iceberg.open(spark)

    def fit(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``."""
        if self._is_delta:
            return fit_delta(spark, self._settings, schema, self._names.rule(spark, schema))
        return self._iceberg.fit(spark, schema)

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """As ``HasConstraints.refused``; rows that aren't written, or keep values, aren't asked."""
        if self._is_delta:
            return self._constraints.refused(spark, lambda: self._written(rows()))
        return self._iceberg.refused(spark, lambda: self._written(rows()))

    def _written(self, rows: "DataFrame") -> "DataFrame":
        """The rows that are written with their own values, with the table's names."""
        from pyspark.sql import functions as f

        if CHANGE in rows.columns:
            rows = rows.where(is_of_a_row() & ~f.coalesce(lacks_values(), f.lit(False)))
        if self.marks_deleted and CHANGE in rows.columns:
            rows = self._without_content(rows)
        elif not self.marks_deleted:
            rows = rows.where(~f.col(TOMBSTONE))
        is_delta = self._is_delta
        rule = self._names.rule(rows.sparkSession, rows.schema) if is_delta else ICEBERG
        return stored_rows(rows, rule)

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``."""
        if self._is_delta:
            return has_batch(spark, self._settings.path, batch)
        return self._iceberg.has(spark, batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Merge a batch; nothing happens if the table has it already."""
        if CHANGE not in rows.columns:
            return self._write(rows, batch, ())
        kept = rows.persist()
        try:
            truncates = self.truncates = truncates_of(kept)
            changed = kept.where(is_of_a_row() & ~is_truncated(truncates))
            unchanged = unchanged_of(changed)
            if unchanged:
                changed = completed(changed, self.keys, unchanged)
            if self.marks_deleted:
                changed = self._without_content(changed)
            self._write(changed, batch, truncates, unchanged)
        finally:
            kept.unpersist()

    def lacking(self, rows: "DataFrame") -> "DataFrame":
        """As ``KeepsValues.lacking``."""
        from pyspark.sql import functions as f

        topics = [one.topic for one in truncates_of(rows)]
        rows = rows.where(is_of_a_row())
        found = completed(rows, self.keys, unchanged_of(rows)).where(lacks_values())
        names = list(map(quoted, self.keys))
        is_gone = f.col(f"{CHANGE}.is_gone")
        gone, rest = found.where(is_gone).select(*names), found.where(~is_gone).select(*names)
        there = self._keys_there(rows.sparkSession)
        if there is not None:
            rest = rest.join(there, list(self.keys), "left_anti")
        lacking = rows.where(lacks_values())
        is_truncated = f.col(TOPIC).isin(topics)
        dead = gone.union(rest).union(lacking.where(is_truncated).select(*names))
        return lacking.join(dead, list(self.keys), "left_semi")

    def _keys_there(self, spark: "SparkSession") -> "DataFrame | None":
        """The keys that have a row in the table; None without a table."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as f

        try:
            table = self.table(spark)
        except AnalysisException as error:
            if not is_missing(error):
                raise
            return None
        if TOMBSTONE in table.columns:
            table = table.where(~f.col(TOMBSTONE))
        return table.select(*map(quoted, self.keys))

    def _without_content(self, rows: "DataFrame") -> "DataFrame":
        """The rows, of which deleted ones have only their key and where they come from."""
        from pyspark.sql import functions as f

        kept = ByName((one, True) for one in (*METADATA, *self.keys))
        others = [one for one in rows.columns if not kept.get(one)]
        is_row = ~f.col(TOMBSTONE)
        return rows.withColumns({one: f.when(is_row, f.col(quoted(one))) for one in others})

    def _write(
        self,
        rows: "DataFrame",
        batch: Batch,
        truncates: Sequence[Truncate],
        unchanged: Sequence[str] = (),
    ) -> None:
        missing = [one for one in (*ORDER, *self.keys) if one not in rows.columns]
        if missing:
            raise WrongSetting("sink.key", list(self.keys), f"rows have no {', '.join(missing)}")
        kept = [one for one in (*ORDER, *self.keys) if self.marks_deleted or one != TOMBSTONE]
        self._rule = ICEBERG
        if self._is_delta:
            self._rule = self._names.rule(rows.sparkSession, rows.schema)
        keys = list(map(self._rule.stored, self.keys))
        kept = [*map(self._rule.stored, kept)]
        rows = with_incarnation(stored_rows(self._with_keys(rows), self._rule), batch.ranges)
        newest = newest_of_keys(rows, keys)
        wanted = table_columns(newest, self._settings, batch.ranges, None, kept)
        # A table of others may have columns of such names and of other types.
        written = (*wanted.columns, TOMBSTONE, CHANGE)
        newest = newest.drop(*(one for one in METADATA if one not in written))
        numbers = {one.topic: one.incarnation for one in batch.ranges}
        held = partial(self._constrained, newest.sparkSession)
        merge = partial(
            self._merge, truncates=truncates, numbers=numbers, unchanged=unchanged, held=held
        )
        if self._is_delta:
            self._merge_delta(newest.sparkSession, wanted, newest, batch, merge)
        else:
            self._merge_iceberg(newest.sparkSession, wanted, newest, batch, merge)

    def _constrained(self, spark: "SparkSession", columns: Sequence[str]) -> list[str]:
        """The columns that are in a constraint of the table."""
        named = self._constraints.named if self._is_delta else self._iceberg.constrained
        return named(spark, columns)

    def _with_keys(self, rows: "DataFrame") -> "DataFrame":
        """The rows that have a key. A row without one makes the batch fail, or is left out."""
        from pyspark.sql import functions as f

        has_key = f.lit(True)
        for one in self.keys:
            has_key = has_key & f.col(quoted(one)).isNotNull()
        if self._settings.options.get("null_keys", "stop") == "skip":
            return rows.where(has_key)
        told = f.concat_ws(
            "",
            f.lit("the record at offset "),
            f.col(OFFSET).cast("string"),
            f.lit(" of "),
            f.concat_ws("-", TOPIC, f.col(PARTITION).cast("string")),
            f.lit(f' has no key ({", ".join(self.keys)}); null_keys = "skip" leaves it out'),
        )
        return rows.where(f.when(has_key, f.lit(True)).otherwise(f.raise_error(told)))

    def _merge_delta(
        self, spark: "SparkSession", wanted: Any, newest: Any, batch: Batch, merge: _Merge
    ) -> None:
        self._make_delta_fit(spark, wanted.schema)
        schema = spark.read.format("delta").load(self._settings.path).schema
        target = f"delta.{quoted(self._settings.path)}"
        self._create_view(newest, schema)
        set_times(spark)
        identity = {
            "spark.databricks.delta.write.txnAppId": application_of(batch.query_id),
            "spark.databricks.delta.write.txnVersion": str(batch.batch_id),
        }
        with session_settings(spark, identity):
            spark.sql(merge(target, schema.names))

    def _make_delta_fit(self, spark: "SparkSession", schema: Any) -> None:
        """Create the table, or add the columns that it lacks."""
        path = self._settings.path
        tables = spark._jvm.io.delta.tables.DeltaTable
        if tables.isDeltaTable(spark._jsparkSession, path) and not additions(
            spark.read.format("delta").load(path).schema, schema
        ):
            return
        empty = writer_of(spark.createDataFrame([], schema)).format("delta").mode("append")
        empty = empty.option("mergeSchema", "true")
        empty = empty.options(**self._settings.options.get("properties", {}))
        if columns := self._settings.options.get("partition_by"):
            empty = empty.partitionBy(*map(self._rule.stored, columns))
        empty.save(path)

    def _create_view(self, newest: "DataFrame", schema: "StructType") -> None:
        """Create a view of the rows with the table's columns and a column for tombstones.

        The rows are computed once, here. MERGE would read its source several times, or through a
        copy of its own. Spark then wouldn't report the counts of the batch, and dead letters would
        be left out. The view refers to the computed rows and not to their plan, because Iceberg
        refuses plans with a step in Python as not deterministic.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.types import BooleanType, StructField, StructType

        columns = schema
        if TOMBSTONE not in schema.names:
            columns = StructType(schema.fields).add(TOMBSTONE, BooleanType())
        if CHANGE in newest.columns:
            columns = StructType(columns.fields).add(newest.schema[CHANGE])
        if self._shown is not None:
            self._shown.unpersist()
        spark = newest.sparkSession
        with session_settings(spark, _EXACT):
            self._shown = fitted(newest, columns).persist()
            self._shown.count()
            computed = self._shown._jdf
            # A field that is required within a struct must be so in the view, or MERGE refuses it.
            types = [StructField(one.name, one.dataType) for one in columns.fields]
            jvm: Any = spark._jvm
            wanted = jvm.org.apache.spark.sql.types.DataType.fromJson(StructType(types).json())
            rows = spark._jsparkSession.createDataFrame(computed.toJavaRDD(), wanted)
            DataFrame(rows, spark).createOrReplaceTempView(_VIEW)

    def _merge_iceberg(
        self, spark: "SparkSession", wanted: Any, newest: Any, batch: Batch, merge: _Merge
    ) -> None:
        table = self._iceberg
        newest, wanted = named_for_iceberg(newest), named_for_iceberg(wanted)
        table.make_fit(spark, wanted.schema)
        done = table.newest_batch(spark, batch.query_id)
        if done is not None and done >= batch.batch_id:
            return
        schema = spark.table(table.name).schema
        self._create_view(newest, schema)
        with labeled(spark, batch):
            spark.sql(merge(table.name, schema.names))

    def _merge(
        self,
        target: str,
        columns: Sequence[str],
        *,
        truncates: Sequence[Truncate],
        numbers: Mapping[str, int],
        unchanged: Sequence[str],
        held: _Held,
    ) -> str:
        """The statement that merges the view into the table."""
        partition = PARTITION if self._is_delta else PARTITION_COLUMN
        newer = _newer(partition, by_incarnation=INCARNATION in columns)
        on = " AND ".join(
            f"t.{one} = s.{one}" for one in map(quoted, map(self._rule.stored, self.keys))
        )
        keeps = ByName((self._rule.stored(one), literal(one)) for one in unchanged)

        def new(name: str) -> str:
            kept = keeps.get(name)
            if kept is None:
                return f"s.{quoted(name)}"
            is_kept = f"array_contains(s.{CHANGE}.unchanged, {kept})"
            return f"IF({is_kept}, t.{quoted(name)}, s.{quoted(name)})"

        def added(name: str) -> str:
            if not unchanged or name != TOPIC:
                return f"s.{quoted(name)}"
            # What had no row before is a dead letter. So it is when the batch runs again.
            told = literal("another program deleted a row while a batch needed its values")
            return f"IF(size(s.{CHANGE}.unchanged) > 0, raise_error({told}), s.{TOPIC})"

        names, values = listed(columns), ", ".join(map(added, columns))
        pairs = ", ".join(f"t.{quoted(one)} = {new(one)}" for one in columns)
        deletes = f"WHEN MATCHED AND s.{TOMBSTONE} AND ({newer}) THEN DELETE"
        inserted = "" if self.marks_deleted else f" AND NOT s.{TOMBSTONE}"
        return "\n".join(
            [
                f"MERGE INTO {target} t USING {_VIEW} s ON {on}",
                "" if self.marks_deleted else deletes,
                f"WHEN MATCHED AND ({newer}) THEN UPDATE SET {pairs}",
                f"WHEN NOT MATCHED{inserted} THEN INSERT ({names}) VALUES ({values})",
                self._truncate(columns, partition, truncates, numbers, held),
            ]
        )

    def _truncate(
        self,
        columns: Sequence[str],
        partition: str,
        truncates: Sequence[Truncate],
        numbers: Mapping[str, int],
        held: _Held,
    ) -> str:
        """The clause for rows that truncates delete; those with a row in the batch are newer."""
        if not truncates:
            return ""
        incarnation = f"coalesce(t.{INCARNATION}, 0)" if INCARNATION in columns else "0"
        older = " OR ".join(
            one.sql("t", partition, incarnation, numbers.get(one.topic, 0)) for one in truncates
        )
        if not self.marks_deleted:
            return f"WHEN NOT MATCHED BY SOURCE AND ({older}) THEN DELETE"
        own = (
            *METADATA,
            partition,
            INCARNATION,
            *map(self._rule.stored, self.keys),
            *held(columns),
        )
        kept = ByName((one, True) for one in own)
        nulls = [f"t.{quoted(one)} = NULL" for one in columns if not kept.get(one)]
        pairs = ", ".join([f"t.{TOMBSTONE} = true", *nulls])
        return f"WHEN NOT MATCHED BY SOURCE AND ({older}) THEN UPDATE SET {pairs}"

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """Raise OffsetsUnknown: the table keeps one record of a key; ``verify`` compares keys."""
        raise OffsetsUnknown("a table of upserts holds only the newest record of each key")

    def table(self, spark: "SparkSession") -> "DataFrame":
        """The table, with the partition's column named as in Delta; AnalysisException."""
        if self._is_delta:
            need_delta(spark, self._settings.kind)
            found = spark.read.format("delta").load(self._settings.path)
        else:
            found = self._iceberg.read(spark)
        # The keys have the names by which the pipeline's rows have them.
        rules = (DELTA, DELTA_MAPPED) if self._is_delta else (ICEBERG,)
        names = {rule.stored(one): one for rule in rules for one in self.keys}
        return found.withColumnsRenamed(names)


def newest_of_keys(rows: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """The newest row of each key; see the module for what is newest."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    names = list(map(quoted, keys))
    by_offset = Window.partitionBy(*names, TOPIC, PARTITION).orderBy(f.desc(OFFSET))
    by_time = Window.partitionBy(*names).orderBy(
        f.desc(TIMESTAMP), f.desc(PARTITION), f.desc(TOPIC)
    )
    rank = "__kwire_rank"
    last = rows.withColumn(rank, f.row_number().over(by_offset)).where(f.col(rank) == 1)
    return last.withColumn(rank, f.row_number().over(by_time)).where(f.col(rank) == 1).drop(rank)
