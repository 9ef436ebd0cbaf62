"""The common part of all sinks that write tables: columns, options, and the offsets they hold.

Rules:

- A table holds topic, partition and offset of each row, whether ``[sink] metadata`` asks for them
  or not. They take little room (one value a file, or numbers that ascend). ``verify``, ``replay``
  and upserts need them, because they show the record of a row.
- A topic that was created again has other records at the same offsets. ``INCARNATION`` says how
  often the topic of a row was created again. The column is added with the first such row. Without
  it, or if it is null, rows belong to the first topic.
- A transform may drop these three columns. Then ``verify`` says that it can't compare.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import INCARNATION, NameRule, stored_rows
from kwire.spark.columns import columns
from kwire.spark.rows import METADATA, OFFSET, PARTITION, TOPIC
from kwire.spark.settings import SinkSettings, WrongSetting
from kwire.spark.sink import Held, OffsetsUnknown
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession

PLACE = (TOPIC, PARTITION, OFFSET)
"""The columns that every table has."""


def check_options(settings: SinkSettings, known: Mapping[str, type]) -> None:
    """WrongSetting for an option that the kind doesn't know, or of another type."""
    for name, value in settings.options.items():
        if name not in known:
            allowed = f"kind {settings.kind!r} has the options {', '.join(sorted(known))}"
            raise WrongSetting(f"sink.{name}", value, allowed)
        if not isinstance(value, known[name]):
            wanted = {list: "a list", dict: "a table", str: "a text", int: "a number", bool: "yes"}
            raise WrongSetting(f"sink.{name}", value, f"{wanted[known[name]]} is needed")


def check_choice(settings: SinkSettings, name: str, allowed: Collection[str]) -> str:
    """The value of an option, the first of ``allowed`` without one; WrongSetting for others."""
    value = settings.options.get(name, next(iter(allowed)))
    if value not in allowed:
        raise WrongSetting(f"sink.{name}", value, " or ".join(allowed))
    return str(value)


def need_path(settings: SinkSettings, what: str) -> None:
    """WrongSetting if the sink has no path."""
    if not settings.path:
        raise WrongSetting("sink.path", settings.path, f"kind {settings.kind!r} needs {what}")


def table_columns(
    rows: "DataFrame",
    settings: SinkSettings,
    ranges: Collection[OffsetRange],
    rule: NameRule | None,
    also: Collection[str] = (),
) -> Any:
    """The rows with the table's columns: the value's columns, PLACE, and the requested metadata.

    ``rule`` is that of the table's names; None if the columns have them already.
    """
    if rule is not None:
        rows = stored_rows(rows, rule)
    kept = {*PLACE, *also, *(f"_{name}" for name in settings.metadata)}
    rows = with_incarnation(rows, ranges)
    found = (quoted(one) for one in rows.columns if one in kept or one not in METADATA)
    return rows.select(*columns(*found))


def with_incarnation(rows: "DataFrame", ranges: Collection[OffsetRange]) -> "DataFrame":
    """The rows with INCARNATION, if any of the ranges is of a topic that was created again."""
    from pyspark.sql import functions as f

    again = {one.topic: one.incarnation for one in ranges if one.incarnation}
    if not again or TOPIC not in rows.columns:
        return rows
    found = f.lit(None).cast("int")
    for topic, incarnation in again.items():
        found = f.when(f.col(TOPIC) == topic, f.lit(incarnation)).otherwise(found)
    return rows.withColumn(INCARNATION, found)


@contextmanager
def session_settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for the time of a block; earlier values are restored."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def has_class(spark: "SparkSession", name: str) -> bool:
    """Whether Spark's Java has a class."""
    loader = spark._jvm.org.apache.spark.util.Utils
    return bool(loader.classIsLoadable(name))


def is_missing(error: "AnalysisException") -> bool:
    """Whether Spark says that a table or path isn't there."""
    condition = error.getCondition() or ""
    return any(one in condition for one in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")) or (
        "is not a Delta table" in str(error)
    )


def held_in(table: "DataFrame") -> Iterator[Held]:
    """The offsets that a table holds: one Held for each partition of each topic with the name.

    Spark finds the runs of offsets, so that only runs come to the driver. OffsetsUnknown if
    the table lacks topic, partition or offset.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    check_place(table.columns)
    incarnation = f.col(INCARNATION) if INCARNATION in table.columns else f.lit(None).cast("int")
    placed = table.where(f.col(OFFSET).isNotNull()).select(
        *PLACE, f.coalesce(incarnation, f.lit(0)).alias(INCARNATION)
    )
    where = (TOPIC, PARTITION, INCARNATION)
    counts = placed.groupBy(*where, OFFSET).count()
    # Offsets of one run, seen equally often, all have the same distance to their row's number.
    alike = Window.partitionBy(*where, "count").orderBy(OFFSET)
    marked = counts.withColumn("run", f.col(OFFSET) - f.row_number().over(alike))
    runs = marked.groupBy(*where, "count", "run").agg(
        f.min(OFFSET).alias("first"), f.max(OFFSET).alias("last")
    )
    found = (
        (tuple(row[one] for one in where), (row["first"], row["last"] + 1, row["count"]))
        for row in runs.orderBy(*where, "first").toLocalIterator()
    )
    for (topic, partition, number), group in groupby(found, key=lambda one: one[0]):
        kept = [run for _, run in group]
        span = OffsetRange(topic, partition, kept[0][0], kept[-1][1], number)
        rows = sum((end - first) * times for first, end, times in kept)
        yield Held(span, _offsets(kept), rows)


def _offsets(runs: list[tuple[int, int, int]]) -> Iterator[int]:
    for first, end, times in runs:
        for offset in range(first, end):
            for _ in range(times):
                yield offset


def check_place(columns: Collection[str]) -> None:
    """OffsetsUnknown if a table lacks topic, partition or offset of its rows."""
    missing = [one for one in PLACE if one not in columns]
    if missing:
        raise OffsetsUnknown(
            f"the table has no column {' and no '.join(missing)}: a transform of the pipeline has "
            "dropped it, so nobody can say which records the table holds"
        )
