"""Looks for lost data before each batch, and while the pipeline has nothing to do.

The rules of what is lost are in ``lost``; here the cluster is asked. A topic that was created again
ends the query: a checkpoint can't go back to the beginning of one topic. The run then begins a new
epoch (``incarnations``).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.spark import lost
from kwire.spark.batch import OffsetRange
from kwire.spark.broker_view import BrokerView
from kwire.spark.checkpoint import Offsets
from kwire.spark.incarnations import Incarnations
from kwire.spark.lost import DataLost, LostTable
from kwire.spark.progress import Progress

if TYPE_CHECKING:
    from kwire.spark.lost import Lost


class CreatedAgain(Exception):
    """Topics were created again: the query has to end before it writes anything more."""


class Guard:
    """What stands between the plan of a batch and its run."""

    def __init__(
        self, view: BrokerView, topics: Incarnations, table: LostTable, progress: Progress
    ) -> None:
        self._view = view
        self._topics = topics
        self._table = table
        self._progress = progress
        self._starts: Offsets = {}
        self.late: DataLost | None = None
        """Why to stop after the newest batch, which has been written."""

    def recreated(self, names: Iterable[str]) -> dict[str, str]:
        """The new ids of those topics that were created again; new topics are noted."""
        ids = {name: topic_id for name, (topic_id, _) in self._view.topics(names).items()}
        again = self._topics.recreated(ids)
        self._topics.note(ids)
        return {name: ids[name] for name in again}

    def topic_ids(self, ranges: Iterable[OffsetRange]) -> dict[str, str]:
        """The ids of the topics of ranges that ``before`` has seen."""
        ids = self._topics.ids()
        return {one.topic: ids[one.topic] for one in ranges}

    def before(self, ranges: list[OffsetRange], gone: Iterable[str]) -> list[OffsetRange]:
        """What a batch has to read: without topics that are gone; DataLost, CreatedAgain.

        ``gone`` are topics of which is known that they were created again.
        """
        if self.late is not None:
            raise self.late
        left = [one for one in ranges if one.topic not in set(gone)]
        if again := self.recreated(_names(left)):
            raise CreatedAgain(", ".join(again))
        self._take(lost.gone_back(left))
        left = [
            OffsetRange(one.topic, one.partition, one.first, one.end, self._topics.of(one.topic))
            for one in left
            if one.first < one.end
        ]
        self._starts = self._starts_of(left)
        self._take(lost.deleted(left, self._starts))
        return left

    def incomplete(self, ranges: Iterable[OffsetRange]) -> frozenset[OffsetRange]:
        """Ranges whose beginning retention had deleted at the time of ``before``."""
        starts = self._starts
        return frozenset(one for one in ranges if starts[one.topic, one.partition] > one.first)

    def after(self, ranges: list[OffsetRange]) -> None:
        """Note what may be lost since ``before``, while the batch was read.

        The sink has the batch, so it must count as written: read again, it would have less. To stop
        is for later (``late``).
        """
        ids = {name: found[0] for name, found in self._view.topics(_names(ranges)).items()}
        known = self._topics.ids()
        same = [one for one in ranges if ids.get(one.topic) == known[one.topic]]
        whole = [one for one in same if self._starts[one.topic, one.partition] <= one.first]
        rows = lost.deleted(whole, self._starts_of(whole), lost.PERHAPS_DELETED)
        rows += lost.replaced(one for one in ranges if one not in same)
        if rows:
            self._progress.lost(self._table.note(rows))
            self.late = self.late or self._table.late(rows)

    def take_recreated(self, names: Iterable[str], read: Offsets) -> None:
        """Tell what was left to read of topics that are gone; DataLost."""
        self._take(lost.recreated(names, read, self._progress.last_ends(read)))

    def _starts_of(self, ranges: list[OffsetRange]) -> Offsets:
        return self._view.starts([(one.topic, one.partition) for one in ranges])

    def _take(self, rows: "list[Lost]") -> None:
        if rows:
            self._progress.lost(self._table.take(rows))


def _names(ranges: Iterable[OffsetRange]) -> set[str]:
    return {one.topic for one in ranges}
