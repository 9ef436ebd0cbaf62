"""Offsets for tools: the offsets of finished batches are committed to a consumer group.

Spark keeps its offsets in the checkpoint and commits none. ``OffsetListener`` commits them to a
group without members, so that ``kafka-consumer-groups``, exporters of lag and web pages show the
position of the query. It works for any streaming query of Spark's connector ``kafka``::

    listener = OffsetListener(view, {query_name: "group"})
    spark.streams.addListener(listener)

``committed_to`` does that for a job that isn't a pipeline. It also commits before and after the
job.

Rules:

- Spark reports a batch's progress after its sink has written and its commit is in the checkpoint.
  So the group never has offsets whose rows aren't durable.
- After a kill, the group may be behind. The pipeline's next start commits the offsets of the
  checkpoint.
- A commit that fails stops nothing: the next one covers it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from kwire.spark.broker_view import UNREACHABLE, BrokerView
from kwire.spark.checkpoint import Checkpoint, Offsets, offsets_of
from kwire.spark.settings import Source
from kwire.spark.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger("kwire.spark")


class OffsetListener(StreamingQueryListener):  # type: ignore[misc]
    """Commits the offsets of finished batches, by the name of their query."""

    def __init__(
        self,
        view: BrokerView,
        groups: Mapping[str, str],
        then: Callable[[Offsets], object] | None = None,
        note: Callable[[], str] = str,
    ) -> None:
        self._view = view
        self._groups = groups
        self._then = then
        self._note = note
        self._has_ended = False

    def end(self) -> None:
        """Commit nothing more, because Spark may still report earlier batches."""
        self._has_ended = True

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Do nothing: no batch is finished yet."""

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Commit the end offsets of a finished batch."""
        group = self._groups.get(event.progress.name or "")
        sources = event.progress.sources
        if self._has_ended or group is None or not sources or not sources[0].endOffset:
            return
        offsets = offsets_of(sources[0].endOffset)
        commit(self._view, group, offsets, self._note())
        if self._then is not None:
            self._then(offsets)

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Do nothing: no further batch is finished."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Do nothing: the query has ended."""


@contextmanager
def committed_to(
    group: str, spark: "SparkSession", source: Source, query: str, checkpoint: str
) -> Iterator[None]:
    """Let a group have the offsets of a query's finished batches, for the time of a block.

    ``query`` is its name, ``checkpoint`` its ``checkpointLocation``. Before and after the block,
    the group gets the offsets of the checkpoint, because a kill or the end of a query may come
    before Spark has reported a batch.
    """
    finished = Checkpoint(storage_at(checkpoint, spark))
    with BrokerView(source) as view:
        commit(view, group, finished.next_offsets())
        listener = OffsetListener(view, {query: group})
        spark.streams.addListener(listener)
        try:
            yield
        finally:
            listener.end()
            spark.streams.removeListener(listener)
            commit(view, group, finished.next_offsets())


def commit(view: BrokerView, group: str, offsets: Offsets, note: str = "") -> None:
    """Commit offsets, or log why it can't be done now."""
    try:
        view.commit(group, offsets, note)
    except UNREACHABLE as error:
        log.warning("the offsets of group %s are not committed now: %s", group, error)
