"""One streaming query over one checkpoint: its batches, one after the other, and its end.

Rules:

- A batch's offsets come from the checkpoint, where Spark has written them before it runs the batch.
- ``close`` ends the query between two batches: no new one begins, the running one is finished, and
  Spark notes that in the checkpoint. A batch that was planned and not begun has changed nothing.
- The exception that stops a batch is kept, because Spark's JVM would return it as a text only.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.batch_counts import Counts
from kwire.spark.batch_work import BatchWork
from kwire.spark.checkpoint import Checkpoint
from kwire.spark.loss_detection import LossDetection
from kwire.spark.masking import masked
from kwire.spark.odd_records import is_by_odd_records, read_by_client
from kwire.spark.progress import Progress
from kwire.spark.settings import PipelineSettings
from kwire.spark.source import read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

POLL_S = 0.25
AFTER_ODD_RECORDS = 20
"""How many batches kwire's own client reads after the connector has failed because of a record."""

COMMIT_TIMEOUT_S = 30.0
"""How long Spark may take to note a batch that was written."""

_MOST_RANGES = 5
"""How many ranges an error names."""


class _Closing(Exception):
    """A batch isn't begun, because the query is about to end."""


class PipelineQuery:
    """A query that runs from ``run`` until it has read everything, or is closed, or fails."""

    def __init__(
        self,
        settings: PipelineSettings,
        checkpoint: Checkpoint,
        work: BatchWork,
        losses: LossDetection,
        progress: Progress,
    ) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._work = work
        self._losses = losses
        self._progress = progress
        self._batch_runs = threading.Lock()
        self._is_closing = False
        self._failure: BaseException | None = None
        self._written = self._by_client_until = -1
        self._gone: list[str] = []
        self._last: int | None = None

    def run(
        self,
        spark: "SparkSession",
        directory: str,
        options: dict[str, str],
        is_over: Callable[[], bool],
    ) -> None:
        """Run until the end, or until ``is_over`` is true, which is called a few times a second."""
        frame = read_stream(spark, self._settings.source, options)
        writer = frame.writeStream.queryName(self._settings.name).foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", directory)
        if self._settings.trigger == "once" or self._last is not None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=self._settings.trigger)
        self._wait(writer.start(), is_over)

    def finish_pending(self, batch_id: int, gone: Iterable[str]) -> None:
        """Let ``run`` only finish a batch that was planned, without topics that are gone."""
        self._last = batch_id
        self._gone = list(gone)

    def _wait(self, query: "StreamingQuery", is_over: Callable[[], bool]) -> None:
        from pyspark.errors import PySparkException

        try:
            while not query.awaitTermination(POLL_S):
                if is_over() or self._losses.late_loss is not None:
                    self._close(query)
        except PySparkException:
            if self._failure is None and not self._is_closing:
                raise
        finally:
            if query.isActive:
                query.stop()
        if self._failure is not None:
            raise self._failure
        if self._losses.late_loss is not None:
            raise self._losses.late_loss

    def _close(self, query: "StreamingQuery") -> None:
        self._is_closing = True
        with self._batch_runs:
            pass
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        while self._checkpoint.finished() < self._written and query.isActive:
            if time.monotonic() > deadline_s:
                break  # Spark runs the batch again, which changes nothing
            time.sleep(0.02)
        query.stop()

    def _on_batch(self, records: "DataFrame", batch_id: int) -> None:
        with self._batch_runs:
            if self._is_closing or (self._last is not None and batch_id > self._last):
                self._is_closing = True
                raise _Closing
            try:
                self._run_batch(records, batch_id)
            except BaseException as error:
                self._failure = error
                raise

    def _run_batch(self, records: "DataFrame", batch_id: int) -> None:
        from pyspark.sql import functions as f

        started_s = time.monotonic()
        if batch_id == 0:  # only now the checkpoint has the batch's begin
            self._progress.offsets(self._checkpoint.end(batch_id - 1), {})
        ranges = self._losses.check_before(self._checkpoint.ranges(batch_id), self._gone)
        if self._gone:
            records = records.where(~f.col("topic").isin(self._gone))
        if ranges:
            try:
                self._write(records, batch_id, ranges, started_s)
            except Exception as error:
                error.add_note(told_batch(batch_id, ranges))
                raise
        self._written = batch_id

    def _write(
        self, records: "DataFrame", batch_id: int, ranges: list[OffsetRange], started_s: float
    ) -> None:
        query_id = self._checkpoint.query_id()
        ids = self._losses.topic_ids(ranges)
        incomplete = self._losses.incomplete(ranges)
        batch = Batch(self._settings.name, query_id, batch_id, tuple(ranges), ids, incomplete)
        counts = self._counts(records, batch)
        self._losses.check_after(ranges)
        self._progress.batch(batch_id, counts, time.monotonic() - started_s)

    def _counts(self, records: "DataFrame", batch: Batch) -> Counts:
        """Do the work on a batch; by kwire's own client if the connector can't read its records.

        Odd records seldom come alone, and each failure of the connector costs a reading.
        """
        if batch.batch_id >= self._by_client_until:
            try:
                return self._work.run(records, batch)
            except Exception as error:
                if not is_by_odd_records(error):
                    raise
            self._by_client_until = batch.batch_id + AFTER_ODD_RECORDS
        found = read_by_client(records.sparkSession, self._settings.source, batch.ranges)
        return self._work.run(found, batch)


def told_batch(batch_id: int, ranges: Sequence[OffsetRange]) -> str:
    """Where a batch that has failed reads, and what becomes of it."""
    shown = [f"{one.topic}-{one.partition} offsets {one.first} to {one.end - 1}" for one in ranges]
    more = len(shown) - _MOST_RANGES
    places = ", ".join(shown[:_MOST_RANGES]) + (f" and {more} more" if more > 0 else "")
    return f"in batch {batch_id} ({places}), with which the next run begins again"


def error_line(error: BaseException) -> str:
    """An error in one line: Spark's without the stack of its JVM, and without passwords."""
    inner: Any = error
    text = str(getattr(inner, "desc", None) or getattr(inner, "_desc", None) or inner).strip()
    line = f"{type(error).__name__}: {masked('', text.splitlines()[0]) if text else ''}"
    return "; ".join([line, *getattr(error, "__notes__", ())])
