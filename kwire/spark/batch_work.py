"""The work on one batch: decode, split, transform, write, and count its records.

Rules:

- The records are read once. The first pass counts dead letters on the way (``DataFrame.observe``).
  Only a batch with dead letters is read a second time.
- If an error of decoding may go away later, records are split into rows and dead letters only once
  (``split``). A sink in steps first gets a batch as one without dead letters, which fails before
  anything of it is visible if it has one. Then, as for other sinks, the decoded records are cached
  while they are split. That costs more than to decode them, and most batches have no dead letter.
- What else makes records dead letters is decided and kept before the sink writes (``decided``). A
  batch that runs again, and of which the sink has rows, keeps to that.
- Spark reports the counts of the first action on the rows. A transform may run an action of its own
  that reads only some rows (``isEmpty``, ``head``). So with transforms, counts are used only if
  they cover all offsets of the batch. Otherwise, and if the offsets have gaps, the batch is read
  once more to be counted, because dead letters would be lost with wrong counts.
- With transforms, a batch of a table with partitions, and one whose columns have other types than
  the table's, is read once more before: to find the records whose rows the table can't keep.
- Rows are durable in the sink, then dead letters, then the batch counts as written.
- Only Spark's own expressions process the records, unless the format or a user's transform needs
  Python.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kwire.spark import partition_values
from kwire.spark import rows as names
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.batch_counts import (
    Counts,
    bytes_of,
    count_again,
    count_of,
    counts_of,
    reasons_of,
    skipped_of,
)
from kwire.spark.changes import (
    lacks_values,
    truncates_of,
    unchanged_of,
    why_lacking,
    without_overtaken,
)
from kwire.spark.column_values import ColumnValues
from kwire.spark.columns import column, columns
from kwire.spark.decided import Begun, Decided
from kwire.spark.decode import decoder
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import versions_known
from kwire.spark.decode.resolved_decoding import resolve_decoding, resolved_decoder
from kwire.spark.odd_records import exact
from kwire.spark.schema_history import SchemaHistory
from kwire.spark.settings import PipelineSettings, Source, Transform, WrongSetting
from kwire.spark.sink import (
    CommitsOffsets,
    FitsTable,
    HasConstraints,
    InSteps,
    KeepsValues,
    KnowsBatches,
    Sink,
    TakesTruncates,
)
from kwire.spark.sinks.constraints import WHY
from kwire.spark.sinks.misfits import Misfit, reasons, with_types
from kwire.spark.sinks.own_columns import of_values, own_schema
from kwire.spark.sinks.remembered import Remembered
from kwire.spark.split import Expected, Splits, is_by_dead_letter, runs_by_reason
from kwire.spark.tombstone_ways import TombstoneWays
from kwire.spark.tombstones import SKIP, treated, way_of
from kwire.spark.truncates import Truncates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kwire.spark.decode.decoding import Decoding

VIEW = "rows"


class DeadLetterSink(Protocol):
    """The place for records that can't be decoded."""

    def write(self, dead: "DataFrame", batch: Batch) -> None:
        """Write a batch's dead letters; decoded rows with an error, cached. It may run again."""


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
        values: ColumnValues | None = None,
        ways: TombstoneWays | None = None,
        truncates: Truncates | None = None,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._dead_letters = dead_letters
        self._splits = splits
        self._begun = begun
        self._history = history
        self._values = values
        self._ways = ways
        self._truncates = truncates
        self._table = Remembered(sink) if isinstance(sink, FitsTable) else None
        self._has_changes = settings.decode.format == "debezium"
        self._tombstones = way_of(settings.sink)
        self._steps = [_step_of(one) for one in settings.transforms]
        self._in_steps = sink if isinstance(sink, InSteps) and not self._steps else None
        self._unused: frozenset[str] = frozenset()
        if self._in_steps is not None:
            used = {names.TOMBSTONE, *self._in_steps.used}
            self._unused = frozenset((*names.METADATA, names.VALUE)) - used
        self._expected = Expected()

    def check_table(self, spark: "SparkSession") -> None:
        """WrongSetting if a table that is there can't get kwire's own columns.

        With transforms, which may leave them out, the first batch shows it.
        """
        if isinstance(self._sink, FitsTable) and not self._steps:
            of_values(self._sink.fit(spark, own_schema(self._settings)), self._settings.sink)

    def run(self, records: "DataFrame", batch: Batch) -> Counts:
        """Write a batch; when it returns, rows and dead letters are durable."""
        topics = topics_of(self._settings.source, (one.topic for one in batch.ranges))
        before = self._decided_before(records.sparkSession, batch)
        way = None if before is None else before.way
        if way is None and self._splits is not None:
            return self._run_split(self._splits, records, topics, batch, before)
        if way is None and self._begun is not None:
            # As it comes back from the file, so that the same is decided then.
            way = json.loads(json.dumps(resolve_decoding(records, self._settings.decode, topics)))
        if way is None:
            decode = decoder(records, self._settings.decode, topics, None, self._unused)
        else:
            decode = resolved_decoder(way, self._unused)
        decode = _of_exact(decode)
        if not self._has_changes:
            return self._run(records, "value", decode, batch, way, before)
        kept = self._without_overtaken(decode(records, True), batch).persist()
        try:
            return self._run(kept, names.VALUE, lambda rows, _: rows, batch, way, before)
        finally:
            kept.unpersist()

    def _without_overtaken(self, decoded: "DataFrame", batch: Batch) -> "DataFrame":
        """Decoded rows, of which those change nothing that an earlier batch's truncate deletes."""
        known = [] if self._truncates is None else self._truncates.of(batch)
        return without_overtaken(decoded, known) if known else decoded

    def _run_split(
        self,
        splits: Splits,
        records: "DataFrame",
        topics: list[str],
        batch: Batch,
        before: Decided | None,
    ) -> Counts:
        """Write a batch whose dead letters are decided only once; see the module's rules."""
        spark = records.sparkSession
        if splits.has(batch) and self._has_none(spark, batch):
            splits.forget(batch)
        is_new = not splits.has(batch)
        last = splits.versions(batch)
        found = decoder(records, self._settings.decode, topics, last, self._unused)
        decode = _of_exact(found)
        known = versions_known(options_of(self._settings.decode), topics)
        is_once = self._in_steps is not None and not self._has_changes
        if is_once and is_new and self._expected.has_none:
            good = splits.without_dead_letters(decode, batch, known)
            try:
                return self._run(records, "value", good, batch, None, before)
            except Exception as error:
                if not is_by_dead_letter(error) or not self._has_none(spark, batch):
                    raise
            splits.forget(batch)
        kept = self._without_overtaken(decode(records, True), batch).persist()
        try:
            source = splits.decided(kept, batch, known)
            counts = self._run(source, names.VALUE, lambda rows, _: rows, batch, None, before)
        finally:
            kept.unpersist()
        self._expected.note(counts.dead_letters)
        return counts

    def _has_none(self, spark: "SparkSession", batch: Batch) -> bool:
        """Whether nothing of a batch is anywhere."""
        return isinstance(self._sink, KnowsBatches) and not self._sink.has(spark, batch)

    def _decided_before(self, spark: "SparkSession", batch: Batch) -> Decided | None:
        """What was decided of a batch of which the sink has rows; None if it is decided anew."""
        decided = None if self._begun is None else self._begun.of(batch)
        if decided is None or not isinstance(self._sink, KnowsBatches):
            return None
        return decided if self._sink.has(spark, batch) else None

    def _run(
        self,
        source: "DataFrame",
        value: str,
        decode: "Decoding",
        batch: Batch,
        way: dict[str, Any] | None,
        before: Decided | None,
    ) -> Counts:
        """Write a batch, or what may be missing of one whose rows the sink has."""
        if before is not None:
            return self._write_again(source, before.checked(decode), batch, before.tombstones)
        decided = replace(decided_now(self._settings, source, decode), way=way)
        if self._has_changes:
            decided = self._without_values(source, decode, decided, batch)
        return self._write(source, value, decode, batch, decided)

    def _without_values(
        self, source: "DataFrame", decode: "Decoding", decided: Decided, batch: Batch
    ) -> Decided:
        """What is decided, with the records that lack values which nothing surely has.

        Nothing has if the batch has a dead letter: nobody knows which row it would have changed.
        """
        from pyspark.sql import functions as f

        rows = good_rows(treated(decided.checked(decode)(source, True), self._tombstones))
        if not unchanged_of(rows):
            return decided
        lacking = rows.where(lacks_values())
        if isinstance(self._sink, KeepsValues) and not self._steps:
            misfits = self._misfits(rows)
            decided = replace(decided, misfits=tuple(misfits))
            decided = self._without_refused(misfits, source, decode, decided, batch)
            checked = treated(decided.checked(decode)(source, True), self._tombstones)
            if checked.where(f.col(names.ERROR).isNotNull()).isEmpty():
                lacking = self._sink.lacking(rows)
        dead = runs_by_reason(lacking, why_lacking())
        return replace(decided, dead=decided.dead | dead)

    def _write_again(
        self, source: "DataFrame", decode: "Decoding", batch: Batch, tombstones: str
    ) -> Counts:
        """Write what may be missing of a batch that the sink has: its dead letters.

        A topic may have only some of its partitions.
        """
        rows = good_rows(treated(decode(source, False), tombstones))
        if isinstance(self._sink, CommitsOffsets):
            self._sink.write(self._transformed(rows), batch)
        if self._truncates is not None:
            self._truncates.note(batch, truncates_of(self._transformed(rows)))
        counts = count_again(decode(source, bool(self._unused)), tombstones)
        return self._with_dead_letters(counts, source, decode, batch, tombstones)

    def _write(
        self,
        source: "DataFrame",
        value: str,
        decode: "Decoding",
        batch: Batch,
        decided: Decided,
    ) -> Counts:
        """Write the decoded rows of ``source``, then its dead letters, with reasons of errors.

        Records and their values' bytes are counted before they are decoded, good rows after it.
        Spark copies each row that it counts, unless the row is already one of bytes: as it comes
        from the source, or as it is about to be written.
        """
        from pyspark.sql import Observation

        read, good = Observation(), Observation()

        def rows_of(decode: "Decoding") -> "DataFrame":
            skipped = skipped_of(source, self._tombstones == SKIP)
            counted = source.observe(read, count_of("records"), bytes_of(value), skipped)
            rows = good_rows(treated(decode(counted, False), self._tombstones))
            if self._values is not None:
                rows = self._values.observed(rows)
            if self._in_steps is not None:
                return rows
            return self._transformed(rows.observe(good, count_of("rows")))

        rows = rows_of(decided.checked(decode))
        misfits = self._misfits(rows)
        before = decided
        if misfits:
            decided = self._with_misfits(misfits, source, decode, decided)
        decided = self._without_refused(misfits, source, decode, decided, batch)
        if misfits or decided is not before:
            read, good = Observation(), Observation()
            rows = with_types(rows_of(decided.checked(decode)), misfits)
        self._keep(rows, batch, decided)
        decode = decided.checked(decode)
        if self._in_steps is not None:
            ready = self._in_steps.prepared(rows, batch).observe(good, count_of("rows"))
            self._in_steps.write_prepared(ready, batch)
        else:
            self._sink.write(rows, batch)
        if self._truncates is not None and isinstance(self._sink, TakesTruncates):
            self._truncates.note(batch, self._sink.truncates)
        counts = counts_of(source.sparkSession, read, good)
        if self._values is not None:
            self._values.note()
        if counts is None or (self._steps and counts.records != sum(map(_size, batch.ranges))):
            counts = count_again(decode(source, bool(self._unused)), self._tombstones)
        return self._with_dead_letters(counts, source, decode, batch, self._tombstones)

    def _keep(self, rows: "DataFrame", batch: Batch, decided: Decided) -> None:
        """Keep what has to be known of a batch before its rows are written."""
        if self._history is not None:
            self._history.note(rows.schema.jsonValue(), batch)
        if self._ways is not None:
            self._ways.start_batch(batch.ranges)
        if self._begun is not None:
            self._begun.keep(batch, decided)

    def _with_dead_letters(
        self,
        counts: Counts,
        source: "DataFrame",
        decode: "Decoding",
        batch: Batch,
        tombstones: str,
    ) -> Counts:
        """Write the dead letters that were counted; the counts with their reasons."""
        from pyspark.sql import functions as f

        if not counts.dead_letters or self._dead_letters is None:
            return counts
        dead = treated(decode(source, True), tombstones)
        dead = dead.where(f.col(names.ERROR).isNotNull()).persist()
        try:
            self._dead_letters.write(dead, batch)
            return replace(counts, reasons=reasons_of(dead))
        finally:
            dead.unpersist()

    def _misfits(self, rows: "DataFrame") -> list[Misfit]:
        """The columns that have other types than the sink's table keeps."""
        if self._table is None:
            return []
        found = self._table.misfits(rows.sparkSession, rows.schema)
        return of_values(found, self._settings.sink)

    def _with_misfits(
        self, misfits: list[Misfit], source: "DataFrame", decode: "Decoding", decided: Decided
    ) -> Decided:
        """What is decided, with the records whose rows don't fit the table.

        RuntimeError if a transform has dropped which record a row is of.
        """
        if not self._steps:
            return replace(decided, misfits=tuple(misfits))
        reason = reasons(misfits)
        if reason is None:
            return decided
        good = good_rows(treated(decided.checked(decode)(source, False), self._tombstones))
        rows = self._transformed(good)
        if not {names.TOPIC, names.PARTITION, names.OFFSET} <= set(rows.columns):
            told = ", ".join(f"{one.name} is {one.has.simpleString()}" for one in misfits)
            raise RuntimeError(
                f"{told}, and the table has another type, or no such column: the transform has "
                f"dropped the columns {names.TOPIC}, {names.PARTITION}, {names.OFFSET}, so the "
                "records can't become dead letters; keep these columns, or convert the others"
            )
        dead = runs_by_reason(rows.where(reason.isNotNull()), reason)
        return replace(decided, dead=decided.dead | dead)

    def _without_refused(
        self,
        misfits: list[Misfit],
        source: "DataFrame",
        decode: "Decoding",
        decided: Decided,
        batch: Batch,
    ) -> Decided:
        """What is decided, with the records whose rows a constraint of the table refuses.

        If a transform has dropped which record a row is of, nobody knows them: the table refuses.
        """
        from pyspark.sql import functions as f

        if not isinstance(self._sink, HasConstraints):
            return decided

        def rows() -> "DataFrame":
            good = good_rows(treated(decided.checked(decode)(source, False), self._tombstones))
            return with_types(self._transformed(good), misfits)

        refused = self._sink.refused(source.sparkSession, rows, batch)
        if refused is None:
            return decided
        dead = runs_by_reason(refused, f.col(WHY))
        return replace(decided, dead=decided.dead | dead) if dead else decided

    def _transformed(self, rows: "DataFrame") -> "DataFrame":
        for step in self._steps:
            rows = step(rows)
        if self._has_changes and names.CHANGE not in rows.columns:
            told = f"keep the column {names.CHANGE}: without it, truncates would be lost"
            raise WrongSetting("transform", rows.columns, told)
        return rows


def _of_exact(decode: "Decoding") -> "Decoding":
    """The same decoding, which fails for records whose time the connector has changed."""

    def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
        return decode(given if names.STAMP in given.columns else exact(given), has_reasons)

    return decoded


def topics_of(source: Source, read: Iterable[str]) -> list[str]:
    """All topics that decide about columns: the pipeline's, and those that were read.

    So the columns don't depend on the topics whose records happen to be in a batch.
    """
    return [*source.topics, *sorted(set(read).difference(source.topics))]


def decoder_of(
    settings: PipelineSettings, records: "DataFrame", topics: Sequence[str]
) -> "Decoding":
    """How a pipeline decodes records: those whose rows its table can't keep have an error too."""
    decode = _of_exact(decoder(records, settings.decode, topics))
    return decided_now(settings, records, decode).checked(decode)


def decided_now(settings: PipelineSettings, records: "DataFrame", decode: "Decoding") -> Decided:
    """What the settings make dead letters: values that no partition or key can have."""
    found = Decided(way_of(settings.sink))
    limits = partition_values.part_of(settings)
    if limits is None or not settings.transforms:
        return replace(found, sink=limits)
    good = good_rows(treated(decode(records, False), found.tombstones))
    rows = transformed(good, settings.transforms)
    return replace(found, dead=partition_values.unfit_records(rows, limits))


def good_rows(decoded: "DataFrame") -> "DataFrame":
    """The rows without an error, with the value's columns beside those of the record."""
    good = decoded.where(_is_good())
    given = decoded.columns
    own = (one for one in names.METADATA if one in given)
    return good.select(*columns(*own, f"{names.ROW}.*"))


@lru_cache(maxsize=1)
def _is_good() -> "Column":
    return column(names.ERROR).isNull()


def transformed(rows: "DataFrame", transforms: Iterable[Transform]) -> "DataFrame":
    """The rows after a pipeline's transforms; WrongSetting if a function can't be imported."""
    for one in transforms:
        rows = _step_of(one)(rows)
    return rows


def _size(of: OffsetRange) -> int:
    return of.size


def _step_of(transform: Transform) -> "Callable[[DataFrame], DataFrame]":
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
