"""A pipeline as an object: it reads, decodes and writes topics until it ends or is stopped.

``kwire pipeline run`` runs this object and shows a progress bar. A program of your own runs it so::

    Pipeline.from_file("orders.toml").run()
    Pipeline({"name": "orders", "source": {…}, "sink": {…}, "checkpoint": "…"}, spark=spark).run()

The checkpoint's directory has these files; the modules in parentheses write them:

- ``spark-0``, Spark's own checkpoint; ``spark-1`` and so on after a topic was created again;
- ``topics.json`` (``incarnations``);
- ``status.json`` (``progress``);
- ``schemas.jsonl`` (``schema_history``), ``tombstones.json`` (``tombstone_ways``);
- with columns that the settings name ``columns.json`` (``column_values``);
- ``driver``, which is locked while a driver runs (``driver_lock``);
- with dead letters ``decode.json`` (``decided``), with a registry ``split.json`` (``split``);
- with events of Debezium ``truncates.json`` (``truncates``).
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.spark.batch_work import BatchWork, DeadLetterSink
from kwire.spark.broker_view import UNREACHABLE, BrokerView
from kwire.spark.checkpoint import Checkpoint, Offsets, as_json, offsets_of
from kwire.spark.column_values import ColumnValues, named_columns
from kwire.spark.dead_letters import open_dead_letters
from kwire.spark.decided import Begun, needs_begun
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import schema_ids
from kwire.spark.driver_lock import driver_locks
from kwire.spark.incarnations import Incarnations
from kwire.spark.loss_detection import CreatedAgain, LossDetection
from kwire.spark.lost_records import LostTable
from kwire.spark.pipeline_file import pipeline_of, read_pipeline
from kwire.spark.progress import ENDED, STOPPED, Progress, Status, fingerprint
from kwire.spark.query import PipelineQuery, error_line
from kwire.spark.retries import Retries
from kwire.spark.schema_history import SchemaHistory
from kwire.spark.session import open_session
from kwire.spark.settings import PipelineSettings
from kwire.spark.sink import Sink
from kwire.spark.sinks import make_sink
from kwire.spark.source import bound_consumers, current_max_offsets
from kwire.spark.split import Splits, may_change
from kwire.spark.storage import Storage, storage_at
from kwire.spark.table_files import table_files
from kwire.spark.tombstone_ways import TombstoneWays
from kwire.spark.tombstones import way_of
from kwire.spark.truncates import Truncates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 3.0
"""How often the pipeline asks the cluster for end offsets, for the lag, and for topic ids."""

RENEW_S = 60.0
"""How often the average number of bytes for an offset is computed anew."""

COUNT_S = 60.0
"""How often the files of the table are counted; less often if that takes long."""

_EARLIEST = -2
"""Spark's number for the beginning of a partition."""


class Pipeline:
    """A pipeline; ``stop``, called from any thread, ends ``run`` after the current batch."""

    def __init__(
        self,
        settings: PipelineSettings | Mapping[str, Any],
        *,
        spark: "SparkSession | None" = None,
        sink: Sink | None = None,
    ) -> None:
        found = settings if isinstance(settings, PipelineSettings) else pipeline_of(settings)
        self.settings = found
        self._spark = spark
        self._sink = sink or make_sink(found.sink, found.source, found.name)
        self._is_stopped = threading.Event()

    @classmethod
    def from_file(cls, path: Path | str, *, spark: "SparkSession | None" = None) -> "Pipeline":
        """The pipeline of a file; WrongPipeline names every mistake in it."""
        return cls(read_pipeline(path), spark=spark)

    def stop(self) -> None:
        """End the run after the current batch."""
        self._is_stopped.set()

    def run(self, on_status: Callable[[Status], object] | None = None) -> Status:
        """Run to the end; ``on_status`` gets the status a few times a second.

        With the trigger ``once`` the run ends when the records that were there at the start are
        written. Otherwise it ends by ``stop`` or by an error: DataLost, or the error of a decoder,
        transform, sink or Spark. Raises SecondDriver if another driver runs with the same
        checkpoint, or writes files into the same directory.
        """
        spark = self._spark or open_session(self.settings)
        storage = storage_at(self.settings.checkpoint, spark)
        with driver_locks(self.settings, storage, spark):
            return self._run(spark, storage, on_status)

    def _run(
        self,
        spark: "SparkSession",
        storage: Storage,
        on_status: Callable[[Status], object] | None,
    ) -> Status:
        progress = Progress(storage, self.settings.name, self.settings.metrics)
        try:
            with BrokerView(self.settings.source) as view, _retries(self.settings):
                run = _Run(self.settings, spark, view, storage, progress, self._sink)
                try:
                    run.to_the_end(self._is_stopped, on_status or (lambda status: None))
                except BaseException as error:
                    progress.set(state="failed", error=error_line(error))
                    raise
                else:
                    state = STOPPED if self._is_stopped.is_set() else ENDED
                    progress.set(state=state, settings=fingerprint(self.settings))
                finally:
                    run.finish()
        except BaseException as error:
            if not progress.status.error:
                progress.set(state="failed", error=error_line(error))
            raise
        finally:
            progress.close()
        return progress.status


class _Run:
    """One run of a pipeline, with an open Spark session."""

    def __init__(
        self,
        settings: PipelineSettings,
        spark: "SparkSession",
        view: BrokerView,
        storage: Storage,
        progress: Progress,
        sink: Sink,
    ) -> None:
        self._settings = settings
        self._spark = spark
        self._view = view
        self._storage = storage
        self._progress = progress
        self._topics = Incarnations(storage)
        table = LostTable(
            storage_at(_lost_path(settings), spark), stops=settings.source.on_data_loss == "stop"
        )
        self._losses = LossDetection(view, self._topics, table, progress)
        sink.open(spark)
        splits = Splits(storage) if may_change(settings) else None
        begun = Begun(storage) if needs_begun(settings) else None
        options = options_of(settings.decode)
        history = SchemaHistory(storage, partial(schema_ids, options))
        named = named_columns(options)
        self._values = None if named is None else ColumnValues(storage, named)
        dead_letters = _dead_letters(settings, spark)
        ways = TombstoneWays(storage, way_of(settings.sink))
        truncates = Truncates(storage) if settings.decode.format == "debezium" else None
        self._work = BatchWork(
            settings, sink, dead_letters, splits, begun, history, self._values, ways, truncates
        )
        self._work.check_table(spark)
        self._max_offsets = 0
        self._next_look_s = self._next_renewal_s = 0.0
        self._next_count_s = time.monotonic() + COUNT_S
        self._begins_again = False

    def to_the_end(
        self, is_stopped: threading.Event, on_status: Callable[[Status], object]
    ) -> None:
        """Run one query after the other, until no other is needed."""
        from kwire.spark.offsets import OffsetListener, commit

        group = self._settings.group or self._settings.name

        def finished(offsets: Offsets) -> None:
            self._progress.offsets(offsets, {})

        def is_over() -> bool:
            self._ask_cluster()
            on_status(self._progress.status)
            return is_stopped.is_set() or self._begins_again

        note = self._progress.note
        listener = OffsetListener(self._view, {self._settings.name: group}, finished, note)
        self._spark.streams.addListener(listener)
        try:
            while not is_stopped.is_set():
                checkpoint = self._begin_checkpoint()
                commit(self._view, group, checkpoint.next_offsets(), note())
                self._begins_again = False
                try:
                    self._query(checkpoint, is_over)
                except CreatedAgain:
                    continue
                finally:
                    commit(self._view, group, checkpoint.next_offsets(), note())
                    finished(checkpoint.next_offsets())
                if not self._begins_again:
                    return
        finally:
            listener.end()
            self._spark.streams.removeListener(listener)

    def finish(self) -> None:
        """Note how the run has ended: the table's files, and the state beside the offsets."""
        from kwire.spark.offsets import commit

        group = self._settings.group or self._settings.name
        with suppress(Exception):  # Spark may be gone, and the run's own error counts
            if self._values is not None:
                self._values.tell()
            self._count_files()
            checkpoint = Checkpoint(storage_at(self._directory(), self._spark))
            commit(self._view, group, checkpoint.next_offsets(), self._progress.note())

    def _count_files(self) -> None:
        begin_s = time.monotonic()
        self._progress.table(table_files(self._settings.sink, self._progress.status.started_at_s))
        end_s = time.monotonic()
        self._next_count_s = end_s + max(COUNT_S, 50 * (end_s - begin_s))

    def _query(self, checkpoint: Checkpoint, is_over: Callable[[], bool]) -> None:
        self._progress.set(state="running", max_offsets_per_trigger=self._max_offsets)
        query = PipelineQuery(self._settings, checkpoint, self._work, self._losses, self._progress)
        query.run(self._spark, self._directory(), self._options(), is_over)

    def _options(self) -> dict[str, str]:
        options = {}
        if self._topics.starting:
            options["startingOffsets"] = self._topics.starting
        if self._max_offsets:
            options["maxOffsetsPerTrigger"] = str(self._max_offsets)
        return options

    def _directory(self) -> str:
        return self._storage.url(self._topics.directory)

    def _begin_checkpoint(self) -> Checkpoint:
        """The checkpoint to continue with: a new one if topics were created again."""
        while True:
            checkpoint = Checkpoint(storage_at(self._directory(), self._spark))
            read = checkpoint.next_offsets()
            current = self._current()
            again = self._losses.recreated({*current, *(topic for topic, _ in read)})
            if not again:
                break
            self._losses.record_recreated(again, read)
            self._begin_epoch(checkpoint, again)
        bound_consumers(self._spark, current.values())
        partitions = {(name, at): 0 for name, count in current.items() for at in range(count)}
        self._max_offsets = current_max_offsets(self._settings.source, self._view, partitions)
        self._next_renewal_s = time.monotonic() + RENEW_S
        self._progress.offsets(read or self._start_of(partitions), self._view.ends(partitions))
        self._progress.set(query_id=checkpoint.query_id())
        return checkpoint

    def _begin_epoch(self, checkpoint: Checkpoint, again: Mapping[str, str]) -> None:
        """Finish what the old checkpoint has begun, then begin a new one.

        The sink may have a part of a planned batch. This batch is finished without the topics that
        are gone, so that the records of its other topics are neither missing nor doubled.
        """
        pending = checkpoint.pending()
        if pending is not None:
            query = PipelineQuery(
                self._settings, checkpoint, self._work, self._losses, self._progress
            )
            query.finish_pending(pending, again)
            query.run(self._spark, self._directory(), self._options(), lambda: False)
        read = checkpoint.next_offsets()
        starting = {
            (name, at): _EARLIEST if name in again else read.get((name, at), _EARLIEST)
            for name, count in self._current().items()
            for at in range(count)
        }
        self._topics.begin_epoch(again, as_json(starting))

    def _start_of(self, partitions: Offsets) -> Offsets:
        """The offsets at which a checkpoint begins, if they are known before the first batch."""
        if self._topics.starting:
            found = offsets_of(self._topics.starting)
        elif self._settings.source.starting == "earliest":
            found = dict.fromkeys(partitions, _EARLIEST)
        else:
            return {}
        return found | self._view.starts(one for one, at in found.items() if at == _EARLIEST)

    def _current(self) -> dict[str, int]:
        """The topics that the pipeline reads, with their numbers of partitions."""
        source = self._settings.source
        names = list(source.topics)
        if source.pattern:
            pattern = re.compile(source.pattern)
            names = self._view.topics_matching(lambda name: pattern.fullmatch(name) is not None)
        return {name: count for name, (_, count) in self._view.topics(names).items()}

    def _ask_cluster(self) -> None:
        """Ask the cluster every ``LOOK_S`` seconds; an unreachable cluster ends nothing."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_S
        if now_s >= self._next_count_s:
            self._count_files()
        had_error = bool(self._progress.status.error)
        try:
            current = self._current()
            partitions = {(name, at): 0 for name, count in current.items() for at in range(count)}
            if self._losses.recreated(current):
                self._begins_again = True
                return
            self._progress.offsets({}, self._view.ends(partitions))
            if had_error:
                self._progress.set(error="")
            if now_s >= self._next_renewal_s:
                self._next_renewal_s = now_s + RENEW_S
                self._renew_limit(partitions)
        except UNREACHABLE as error:
            self._progress.set(error=error_line(error))

    def _renew_limit(self, partitions: Offsets) -> None:
        """Begin a new query with another limit if the average bytes for an offset changed much."""
        found = current_max_offsets(self._settings.source, self._view, partitions)
        if self._settings.source.max_bytes_per_trigger and not (
            0.7 < found / max(self._max_offsets, 1) < 1.4
        ):
            self._begins_again = True


def _lost_path(settings: PipelineSettings) -> str:
    """The table of lost ranges: beside the sink's rows, or else beside the checkpoint."""
    path = settings.sink.path
    return f"{path.rstrip('/')}/_lost" if path else f"{settings.checkpoint.rstrip('/')}/lost"


def _retries(settings: PipelineSettings) -> AbstractContextManager[object]:
    """The task that sends records of retry topics back after their delay, during the run."""
    if settings.dead_letters is None or not settings.dead_letters.retry_delays_s:
        return nullcontext()
    return Retries(settings.name, settings.source, settings.dead_letters.retry_delays_s)


def _dead_letters(settings: PipelineSettings, spark: "SparkSession") -> DeadLetterSink | None:
    if settings.dead_letters is None:
        return None
    return open_dead_letters(settings.dead_letters, settings.source, spark)
