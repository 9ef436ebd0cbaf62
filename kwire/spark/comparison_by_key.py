"""A table with the newest row of each key against the broker's newest record of each key.

Rules:

- The records of the range become rows by the pipeline's own steps: they are decoded and
  transformed, and records without a key are left out. Dead letters don't count, even if they can be
  decoded now.
- If a key has records that the pipeline hasn't finished, the table may already have their row. Then
  the key is ``unfinished``.
- A key whose row is missing, or older than its newest record, is a gap. So is a record that can't
  be decoded and is no dead letter.
- A row is a stranger if the newest record of its key is a tombstone, or if its offset has none of
  the key's records: an aborted record, a dead letter, or no record at all.
- If a key has records in several partitions, only timestamps show which record is newer, and so the
  table depends on the batches of these records. Such a key is ``spread`` unless it is exact.
- A row whose records are no longer on the broker can't be compared: before the range it is
  ``deleted``, of a compacted topic ``compacted``, of an earlier topic of the name ``earlier``.
- Transforms run over the range as over one batch. So a transform that combines several records of a
  batch may give other rows.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import REGISTRY
from kwire.spark import rows as names
from kwire.spark.batch import OffsetRange
from kwire.spark.batch_work import decoder_of, good_rows, topics_of, transformed
from kwire.spark.changes import is_of_a_row, is_truncated, truncates_of
from kwire.spark.column_names import INCARNATION
from kwire.spark.comparison import MOST_EXAMPLES, Compared, Partition, claims_of
from kwire.spark.key_outcomes import FAILING, TWICE, Bounds, Keys, Runs, compared
from kwire.spark.odd_records import either_way
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.rows import CHANGE, OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, TOPIC
from kwire.spark.settings import PipelineSettings
from kwire.spark.sink import KeepsNewest
from kwire.spark.sinks.table_rows import PLACE, held_in
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kwire.spark.decode.decoding import Decoding

_OUTCOME = """CASE
  WHEN row IS NULL THEN CASE
    WHEN newest IS NULL THEN 'exact'
    WHEN newest.{tombstone} AND NOT {marks} THEN 'exact'
    WHEN is_deleted_later AND NOT {marks} THEN 'unfinished'
    WHEN partitions > 1 AND is_deleted AND NOT {marks} THEN 'spread'
    ELSE 'gap' END
  WHEN row.{incarnation} < row_bounds.incarnation THEN CASE
    WHEN newest IS NULL THEN 'earlier'
    WHEN NOT ({same}) THEN 'spread'
    WHEN newest.{tombstone} AND NOT {marks} THEN 'stranger'
    ELSE 'gap' END
  WHEN row.{offset} >= row_bounds.ends THEN 'stranger'
  WHEN row.{offset} >= row_bounds.finished THEN 'unfinished'
  WHEN newest IS NULL THEN CASE
    WHEN row.{offset} < row_bounds.begins THEN 'deleted'
    WHEN row_bounds.is_compacted THEN 'compacted'
    ELSE 'stranger' END
  WHEN partitions > 1 OR NOT ({same}) THEN CASE
    WHEN {same} AND row.{offset} = newest.{offset} AND ({marks} OR NOT newest.{tombstone})
      THEN 'exact'
    ELSE 'spread' END
  WHEN newest.{tombstone} AND NOT {marks} THEN 'stranger'
  WHEN row.{offset} = newest.{offset} THEN 'exact'
  WHEN row.{offset} < newest.{offset} THEN 'gap'
  WHEN row_bounds.is_compacted THEN 'compacted'
  ELSE 'stranger' END"""
"""The outcome of a key; ``row`` is the table's, ``newest`` the broker's newest finished one."""

_SAME = f"row.{TOPIC} = newest.{TOPIC} AND row.{PARTITION} = newest.{PARTITION}"


def places_of(held: "DataFrame") -> list[Partition]:
    """The partitions whose records a table has."""
    return [
        (row[TOPIC], row[PARTITION]) for row in held.select(TOPIC, PARTITION).distinct().collect()
    ]


def held_keys(table: "DataFrame", keys: Sequence[str]) -> "DataFrame":
    """Key and place of each row, as the table is now."""
    from pyspark.sql import functions as f

    number = f.col(INCARNATION) if INCARNATION in table.columns else f.lit(None)
    held = table.select(
        *map(quoted, keys), *PLACE, f.coalesce(number.cast("int"), f.lit(0)).alias(INCARNATION)
    ).persist()
    held.count()
    return held


def compare_keys(
    spark: "SparkSession",
    settings: PipelineSettings,
    sink: KeepsNewest,
    held: "DataFrame | None",
    bounds: Mapping[Partition, Bounds],
    dead: Runs,
) -> list[Compared]:
    """Compare a table with the broker; ``held`` is None if there is no table.

    RuntimeError if a registry doesn't answer, or if rows have no key any more.
    """
    ranges = [
        OffsetRange(*place, one.first, max(one.first, one.end), one.incarnation)
        for place, one in sorted(bounds.items())
    ]

    def compare(records: "DataFrame") -> list[Compared]:
        return _compare(records, settings, sink, held, bounds, dead)

    return either_way(spark, settings.source, ranges, compare)


def _compare(
    read: "DataFrame",
    settings: PipelineSettings,
    sink: KeepsNewest,
    held: "DataFrame | None",
    bounds: Mapping[Partition, Bounds],
    dead: Runs,
) -> list[Compared]:
    """Compare a table with the records that were read."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    spark = read.sparkSession
    decode, records = _records(read, settings, bounds, dead)
    lost = _undecodable(spark, decode(records, True), bounds)
    rows = transformed(good_rows(decode(records, False)), settings.transforms)
    wanted = _newest(spark, sink, rows, bounds)
    if held is None:
        key = wanted.select(*map(quoted, sink.keys)).schema
        placed = (
            StructField(TOPIC, StringType()),
            StructField(PARTITION, IntegerType()),
            StructField(OFFSET, LongType()),
            StructField(INCARNATION, IntegerType()),
        )
        held = spark.createDataFrame([], StructType([*key.fields, *placed]))
    outcomes = outcomes_of(spark, sink, wanted, held, bounds)
    outcomes = outcomes.select("outcome", "newest", "row", "rows").persist()
    try:
        keys = _counted(outcomes)
        failing = any(one.outcome in FAILING or one.doubles for one in keys)
        examples = _examples(outcomes) if failing else {}
    finally:
        outcomes.unpersist()
    return compared(bounds, keys, dead, lost, examples)


def _records(
    records: "DataFrame",
    settings: PipelineSettings,
    bounds: Mapping[Partition, Bounds],
    dead: Runs,
) -> "tuple[Decoding, DataFrame]":
    """The records to compare, without dead letters, and how they are decoded."""
    from pyspark.sql import functions as f

    runs = [(*place, *run) for place, offsets in dead.items() for run in offsets]
    if runs:
        columns = "topic string, partition int, _first long, _end long"
        gone = records.sparkSession.createDataFrame(runs, columns)
        on = reduce(and_, (records[one] == gone[one] for one in ("topic", "partition")))
        is_in = (records["offset"] >= gone["_first"]) & (records["offset"] < gone["_end"])
        records = records.join(f.broadcast(gone), on & is_in, "left_anti")
    topics = topics_of(settings.source, (topic for topic, _ in bounds))
    return decoder_of(settings, records, topics), records


def _undecodable(
    spark: "SparkSession", decoded: "DataFrame", bounds: Mapping[Partition, Bounds]
) -> dict[Partition, OffsetRuns]:
    """The finished records that can't be decoded; RuntimeError if only the registry was away."""
    from pyspark.sql import functions as f

    failed = decoded.where(f.col(names.ERROR).isNotNull()).select(*PLACE, names.ERROR)
    failed = failed.join(_frame(spark, bounds), [TOPIC, PARTITION])
    failed = failed.where(f.col(OFFSET) < f.col("finished")).select(*PLACE, names.ERROR).persist()
    try:
        if away := failed.where(f.col(names.ERROR).startswith(REGISTRY)).take(1):
            raise RuntimeError(f"{away[0][names.ERROR]}: run the command again when it answers")
        return {place: one.covered for place, one in claims_of(held_in(failed)).items()}
    finally:
        failed.unpersist()


def _newest(
    spark: "SparkSession",
    sink: KeepsNewest,
    rows: "DataFrame",
    bounds: Mapping[Partition, Bounds],
) -> "DataFrame":
    """For each key its newest finished record, and facts about its other records."""
    from pyspark.sql import functions as f

    needed = (*PLACE, TIMESTAMP, TOMBSTONE, *sink.keys)
    if missing := [one for one in needed if one not in rows.columns]:
        raise RuntimeError(f"the pipeline's rows have no {', '.join(missing)} any more")
    has_change = CHANGE in rows.columns
    if has_change:
        needed = (*needed, CHANGE)
    rows = rows.select(*map(quoted, dict.fromkeys(needed)))  # a value may have any column
    rows = rows.join(_frame(spark, bounds).select(TOPIC, PARTITION, "finished"), [TOPIC, PARTITION])
    is_later = f.col(OFFSET) >= f.col("finished")
    deletes_later = is_later & f.col(TOMBSTONE)
    if has_change:
        done, later = truncates_of(rows.where(~is_later)), truncates_of(rows.where(is_later))
        rows = rows.where(is_of_a_row() & ~is_truncated(done))
        deletes_later = deletes_later | is_truncated(later)
    for one in sink.keys:
        rows = rows.where(f.col(quoted(one)).isNotNull())
    keys = list(map(quoted, sink.keys))
    record = f.struct(OFFSET, TIMESTAMP, TOMBSTONE)
    of_partitions = rows.groupBy(*keys, TOPIC, PARTITION).agg(
        f.max(f.when(~is_later, record)).alias("last"),
        f.max(deletes_later).alias("is_deleted_later"),
        f.max(TOMBSTONE).alias("is_deleted"),
    )
    at, offset, is_gone = (f.col("last")[one].alias(one) for one in (TIMESTAMP, OFFSET, TOMBSTONE))
    place = f.struct(at, PARTITION, TOPIC, offset, is_gone)
    return of_partitions.groupBy(*keys).agg(
        f.max(f.when(f.col("last").isNotNull(), place)).alias("newest"),
        f.max("is_deleted_later").alias("is_deleted_later"),
        f.max("is_deleted").alias("is_deleted"),
        f.count(f.lit(1)).alias("partitions"),
    )


def _frame(spark: "SparkSession", bounds: Mapping[Partition, Bounds]) -> "DataFrame":
    from pyspark.sql import functions as f

    rows = [
        (*place, one.first, one.finished, one.end, one.is_compacted, one.incarnation)
        for place, one in bounds.items()
    ]
    columns = "begins long, finished long, ends long, is_compacted boolean, incarnation int"
    found = spark.createDataFrame(rows, f"{TOPIC} string, {PARTITION} int, {columns}")
    return f.broadcast(found)


def outcomes_of(
    spark: "SparkSession",
    sink: KeepsNewest,
    wanted: "DataFrame",
    held: "DataFrame",
    bounds: Mapping[Partition, Bounds],
) -> "DataFrame":
    """Each key, its newest record, its row, how many rows it has, and its outcome.

    ``wanted`` has for each key the newest finished record, or null; whether tombstones are among
    its records, and among the unfinished ones; and in how many partitions they are. ``held`` is
    what ``held_keys`` has made.
    """
    from pyspark.sql import functions as f

    keys = list(map(quoted, sink.keys))
    rows = held.groupBy(*keys).agg(
        f.max(f.struct(INCARNATION, OFFSET, TOPIC, PARTITION)).alias("row"),
        f.count(f.lit(1)).alias("rows"),
    )
    on = " AND ".join(f"n.{one} = t.{one}" for one in keys)
    both = wanted.alias("n").join(rows.alias("t"), f.expr(on), "full_outer")
    limits = _frame(spark, bounds)
    limits = limits.select(f.struct(*limits.columns).alias("row_bounds"))
    at_row = " AND ".join(f"row.{one} = row_bounds.{one}" for one in (TOPIC, PARTITION))
    found = both.join(limits, f.expr(at_row), "left")
    outcome = _OUTCOME.format(
        tombstone=TOMBSTONE,
        offset=OFFSET,
        incarnation=INCARNATION,
        same=_SAME,
        marks=str(sink.marks_deleted).lower(),
    )
    is_there = f.lit(sink.marks_deleted) | ~f.col(f"newest.{TOMBSTONE}")
    return found.select(
        *(
            f.coalesce(f.col(f"n.{name}"), f.col(f"t.{name}")).alias(one)
            for one, name in zip(sink.keys, keys, strict=True)
        ),
        f.expr(outcome).alias("outcome"),
        f.when(is_there, f.col("newest")).alias("newest"),
        "row",
        f.coalesce("rows", f.lit(0)).alias("rows"),
    )


def _counted(outcomes: "DataFrame") -> list[Keys]:
    from pyspark.sql import functions as f

    sides = [
        f.col(f"{side}.{name}").alias(f"{side}{name}")
        for side in ("newest", "row")
        for name in (TOPIC, PARTITION)
    ]
    counts = outcomes.groupBy("outcome", *sides).agg(
        f.count(f.lit(1)).alias("keys"),
        f.sum(f.greatest(f.col("rows") - 1, f.lit(0))).alias("doubles"),
    )

    def place(row: Any, side: str) -> Partition | None:
        topic = row[f"{side}{TOPIC}"]
        return None if topic is None else (topic, row[f"{side}{PARTITION}"])

    return [
        Keys(row["outcome"], place(row, "newest"), place(row, "row"), row["keys"], row["doubles"])
        for row in counts.collect()
    ]


def _examples(outcomes: "DataFrame") -> dict[Partition, dict[str, list[int]]]:
    """The first offsets of keys that aren't exact, by partition."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kind = f.create_map(*(f.lit(one) for pair in FAILING.items() for one in pair))
    wrong = outcomes.where(f.col("outcome").isin(*FAILING)).withColumn(
        "kind", kind[f.col("outcome")]
    )
    twice = outcomes.where("rows > 1").withColumn("kind", f.lit(TWICE))
    at = f.when(f.col("kind") == FAILING["gap"], f.col("newest"))
    placed = wrong.unionByName(twice).select(
        "kind",
        *(f.coalesce(at[one], f.col("row")[one]).alias(one) for one in PLACE),
    )
    first = Window.partitionBy("kind", TOPIC, PARTITION).orderBy(OFFSET)
    ranked = placed.withColumn("rank", f.row_number().over(first))
    found: dict[Partition, dict[str, list[int]]] = {}
    for row in ranked.where(f.col("rank") <= MOST_EXAMPLES).collect():
        kinds = found.setdefault((row[TOPIC], row[PARTITION]), {})
        kinds.setdefault(row["kind"], []).append(row[OFFSET])
    return found
