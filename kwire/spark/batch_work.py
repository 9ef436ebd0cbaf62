"""The work on one batch: decode, split, transform, write, and count its records.

Rules:

- The records are read once. The first pass counts dead letters on the way (``DataFrame.observe``).
  Only a batch with dead letters is read a second time.
- If an error of decoding may go away later, records are split into rows and dead letters only once
  (``split``). The decoded records are cached meanwhile.
- Spark reports the counts of the first action on the rows. A transform may run an action of its own
  that reads only some rows (``isEmpty``, ``head``). So with transforms, counts are used only if
  they cover all offsets of the batch. Otherwise, and if the offsets have gaps, the batch is read
  once more to be counted, because dead letters would be lost with wrong counts.
- Rows are durable in the sink, then dead letters, then the batch counts as written.
- Only Spark's own expressions process the records, unless the format or a user's transform needs
  Python.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kwire.spark import partition_values
from kwire.spark import rows as names
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.changes import lacks_values, unchanged_of, why_lacking
from kwire.spark.columns import column, columns
from kwire.spark.decode.known import is_tombstone
from kwire.spark.odd_records import exact
from kwire.spark.schema_history import SchemaHistory
from kwire.spark.settings import PipelineSettings, Transform, WrongSetting
from kwire.spark.sink import FitsTable, InSteps, KeepsValues, Sink
from kwire.spark.sinks.table_types import Misfit, reasons, with_types
from kwire.spark.split import Begun, Splits, runs_by_reason, with_dead
from kwire.spark.tombstones import SKIP, error_by, treated, way_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

    from kwire.spark.decode.decoding import Decoding

VIEW = "rows"
COUNTS_TIMEOUT_S = 10.0
"""How long Spark may take to report the counts after the sink has written."""

MOST_REASONS = 50
OTHER_REASONS = "others"
_REASON_CHARS = 120
_VALUES = "[0-9]+|'[^']*'|\"[^\"]*\""


class DeadLetterSink(Protocol):
    """The place for records that can't be decoded."""

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        """Write a batch's dead letters; decoded rows with an error. It may run again."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a batch: its records, its dead letters, and the bytes of values."""

    records: int
    dead_letters: int
    value_bytes: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many dead letters have each reason, where dead letters are kept (``reasons_of``)."""


class BatchWork:
    """The steps of a pipeline for each of its batches."""

    def __init__(
        self,
        settings: PipelineSettings,
        sink: Sink,
        dead_letters: DeadLetterSink | None,
        splits: Splits | None = None,
        begun: Begun | None = None,
        history: SchemaHistory | None = None,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._dead_letters = dead_letters
        self._splits = splits
        self._begun = begun
        self._history = history
        self._fitting: StructType | None = None
        self._tombstones = way_of(settings.sink)
        self._steps = [_step(one) for one in settings.transforms]

    def run(self, records: "DataFrame", batch: Batch) -> Counts:
        """Write a batch; when it returns, rows and dead letters are durable."""
        if self._begun is not None:
            begun = _of_exact(self._begun.decoder(records, batch))
            decode = checked(self._settings, records, begun)
        else:
            topics = sorted({one.topic for one in batch.ranges})
            decode = decoder_of(self._settings, records, topics)
        has_changes = self._settings.decode.format == "debezium"
        if self._splits is None and not has_changes:
            return self._write(records, "value", decode, batch)
        kept = decode(records, True).persist()
        try:
            decided = self._with_values(kept) if has_changes else kept
            if self._splits is not None:
                decided = self._splits.decided(kept, batch)
            return self._write(decided, names.VALUE, lambda rows, _: rows, batch)
        finally:
            kept.unpersist()

    def _with_values(self, decoded: "DataFrame") -> "DataFrame":
        """Decoded rows; those that lack values which the sink doesn't have either have an error."""
        rows = good_rows(decoded)
        if not unchanged_of(rows):
            return decoded
        lacking = rows.where(lacks_values())
        if isinstance(self._sink, KeepsValues) and not self._steps:
            lacking = self._sink.lacking(rows)
        return with_dead(decoded, runs_by_reason(lacking, why_lacking()))

    def _write(self, source: "DataFrame", value: str, decode: "Decoding", batch: Batch) -> Counts:
        """Write the decoded rows of ``source``, then its dead letters, with reasons of errors.

        Records and their values' bytes are counted before they are decoded, good rows after it.
        Spark copies each row that it counts, unless the row is already one of bytes: as it comes
        from the source, or as it is about to be written.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        read, good = Observation(), Observation()

        def rows_of(decode: "Decoding") -> "DataFrame":
            skipped = _skipped(source, self._tombstones == SKIP)
            counted = source.observe(read, _count("records"), _value_bytes(value), skipped)
            rows = good_rows(treated(decode(counted, False), self._tombstones))
            if is_in_steps:
                return rows
            return self._transformed(rows.observe(good, _count("rows")))

        is_in_steps = isinstance(self._sink, InSteps) and not self._steps
        rows = rows_of(decode)
        if misfits := self._misfits(rows):
            decode = self._without(misfits, source, decode)
            read, good = Observation(), Observation()
            rows = with_types(rows_of(decode), misfits)
        if self._history is not None:
            self._history.note(rows.schema.jsonValue(), batch)
        if isinstance(self._sink, InSteps) and is_in_steps:
            ready = self._sink.prepared(rows, batch).observe(good, _count("rows"))
            self._sink.write_prepared(ready, batch)
        else:
            self._sink.write(rows, batch)
        counts = counts_of(read, good)
        if counts is None or (self._steps and counts.records != sum(map(_size, batch.ranges))):
            counts = count_again(decode(source, False), self._tombstones)
        if counts.dead_letters and self._dead_letters is not None:
            dead = treated(decode(source, True), self._tombstones)
            dead = dead.where(f.col(names.ERROR).isNotNull()).persist()
            try:
                self._dead_letters.write(dead, batch)
                counts = replace(counts, reasons=reasons_of(dead))
            finally:
                dead.unpersist()
        return counts

    def _misfits(self, rows: "DataFrame") -> list[Misfit]:
        """The columns that have other types than the sink's table keeps.

        The table is asked again when the rows have other columns or types than the last ones.
        """
        if not isinstance(self._sink, FitsTable):
            return []
        schema = rows.schema
        if schema == self._fitting:
            return []
        found = self._sink.fit(rows.sparkSession, schema)
        self._fitting = None if found else schema
        return found

    def _without(
        self, misfits: list[Misfit], source: "DataFrame", decode: "Decoding"
    ) -> "Decoding":
        """The same decoding, with an error for each record whose row doesn't fit the table.

        RuntimeError if a transform has dropped which record a row is of.
        """
        reason = reasons(misfits)
        if reason is None:
            return decode
        good = good_rows(treated(decode(source, False), self._tombstones))
        rows = self._transformed(good)
        if not {names.TOPIC, names.PARTITION, names.OFFSET} <= set(rows.columns):
            told = ", ".join(f"{one.name} is {one.has.simpleString()}" for one in misfits)
            raise RuntimeError(
                f"{told}, and the table has another type: the transform has dropped the columns "
                f"{names.TOPIC}, {names.PARTITION}, {names.OFFSET}, so the records can't become "
                "dead letters; keep these columns, or convert the others"
            )
        dead = runs_by_reason(rows.where(reason.isNotNull()), reason)

        def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
            return with_dead(decode(given, has_reasons), dead)

        return decoded

    def _transformed(self, rows: "DataFrame") -> "DataFrame":
        for step in self._steps:
            rows = step(rows)
        return rows


def _of_exact(decode: "Decoding") -> "Decoding":
    """The same decoding, which fails for records whose time the connector has changed."""

    def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
        return decode(given if names.STAMP in given.columns else exact(given), has_reasons)

    return decoded


def decoder_of(
    settings: PipelineSettings, records: "DataFrame", topics: Sequence[str]
) -> "Decoding":
    """How a pipeline decodes records: those whose rows its table can't keep have an error too."""
    from kwire.spark.decode import decoder

    return checked(settings, records, _of_exact(decoder(records, settings.decode, topics)))


def checked(settings: PipelineSettings, records: "DataFrame", decode: "Decoding") -> "Decoding":
    """The same decoding, with an error for values that no partition or key can have."""
    limits = (partition_values.columns_of(settings.sink), partition_values.keys_of_rows(settings))
    if not any(limits):
        return decode
    if not settings.transforms:
        return partition_values.checked(decode, settings)
    good = good_rows(treated(decode(records, False), way_of(settings.sink)))
    rows = transformed(good, settings.transforms)
    return partition_values.checked_after(decode, rows, settings)


def good_rows(decoded: "DataFrame") -> "DataFrame":
    """The rows without an error, with the value's columns beside those of the record."""
    good = decoded.where(_is_good())
    has_change = names.CHANGE in decoded.columns
    own = (one for one in names.METADATA if has_change or one != names.CHANGE)
    return good.select(*columns(*own, f"{names.ROW}.*"))


@lru_cache(maxsize=1)
def _is_good() -> "Column":
    return column(names.ERROR).isNull()


def transformed(rows: "DataFrame", transforms: Iterable[Transform]) -> "DataFrame":
    """The rows after a pipeline's transforms; WrongSetting if a function can't be imported."""
    for one in transforms:
        rows = _step(one)(rows)
    return rows


def _size(of: OffsetRange) -> int:
    return of.size


def _step(transform: Transform) -> "Callable[[DataFrame], DataFrame]":
    if transform.function:
        return function_of(transform.function)

    def select(rows: "DataFrame") -> "DataFrame":
        rows.createOrReplaceTempView(VIEW)
        return rows.sparkSession.sql(transform.sql)

    return select


def function_of(text: str) -> "Callable[[DataFrame], DataFrame]":
    """The function that ``module:function`` names; WrongSetting if there is none."""
    module, _, name = text.partition(":")
    try:
        found: Callable[[DataFrame], DataFrame] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise WrongSetting("transform.function", text, f"a function to import: {error}") from error
    return found


@lru_cache(maxsize=4)
def _count(name: str) -> "Column":
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias(name)


@lru_cache(maxsize=2)
def _value_bytes(value: str) -> "Column":
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(f.octet_length(value)), f.lit(0)).alias("value_bytes")


def _skipped(source: "DataFrame", skips: bool) -> "Column":
    from pyspark.sql import functions as f

    return f.count_if(is_tombstone(source.columns) & f.lit(skips)).alias("skipped")


def counts_of(read: "Observation", good: "Observation") -> Counts | None:
    """The counts; None if the sink's action hasn't reported them in time, or has read no rows.

    An action that needs no rows skips the counting and reports zeros. With these counts, dead
    letters would be lost.
    """
    deadline_s = time.monotonic() + COUNTS_TIMEOUT_S
    inner: Any = (read._jo, good._jo)
    while not all(one.future().isCompleted() for one in inner):
        if time.monotonic() > deadline_s:
            return None
        time.sleep(0.005)
    # ``Observation.get`` takes twenty calls into the JVM: it asks until there is no next one.
    found, rows = (one.getAsJava() for one in inner)
    records = int(found["records"])
    if not records:
        return None
    dead_letters = records - int(found["skipped"]) - int(rows["rows"])
    return Counts(records, dead_letters, int(found["value_bytes"]))


def count_again(decoded: "DataFrame", tombstones: str) -> Counts:
    """The same counts in a pass of their own."""
    from pyspark.sql import functions as f

    value_bytes = f.coalesce(f.sum(f.length(names.VALUE)), f.lit(0))
    dead_letters = f.count(error_by(tombstones))
    [row] = decoded.agg(f.count(f.lit(1)), dead_letters, value_bytes).collect()
    return Counts(*row)


def reasons_of(dead: "DataFrame") -> dict[str, int]:
    """How many dead letters have each reason: the most frequent ones, and the rest together.

    A reason is the begin of an error, without the numbers and the quoted values in it: it has to be
    the same for many records.
    """
    from pyspark.sql import functions as f

    short = f.substring(names.ERROR, 1, _REASON_CHARS)
    reason = f.regexp_replace(short, _VALUES, "…").alias("reason")
    # One task counts them, without a shuffle: they are cached.
    counted = dead.select(reason).coalesce(1).groupBy("reason").count()
    found = counted.orderBy(f.desc("count"), "reason").collect()
    reasons = {str(row["reason"]): int(row["count"]) for row in found[:MOST_REASONS]}
    if rest := sum(int(row["count"]) for row in found[MOST_REASONS:]):
        reasons[OTHER_REASONS] = rest
    return reasons


def check_transforms(transforms: Iterable[Transform], spark: "SparkSession | None" = None) -> None:
    """WrongSetting for a function that can't be imported, or SQL that Spark can't parse."""
    for one in transforms:
        if one.function:
            function_of(one.function)
        elif spark is not None:
            jvm: Any = spark._jsparkSession
            try:
                jvm.sessionState().sqlParser().parsePlan(one.sql)
            except Exception as error:
                reason = str(getattr(error, "desc", None) or error).strip().splitlines()[0]
                raise WrongSetting("transform.sql", one.sql, f"Spark SQL: {reason}") from error
