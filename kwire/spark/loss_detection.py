"""Looks for lost records before each batch, and while the pipeline has nothing to do.

``lost_records`` has the rules of what is lost. This module asks the cluster and applies these
rules. If a topic was deleted and created again, Spark's query has to end, because its checkpoint
can't go back to the beginning of one topic. The pipeline then begins a new epoch
(``incarnations``).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.spark import lost_records
from kwire.spark.batch import OffsetRange
from kwire.spark.broker_view import BrokerView
from kwire.spark.checkpoint import Offsets
from kwire.spark.incarnations import Incarnations
from kwire.spark.lost_records import DataLost, LostTable
from kwire.spark.progress import Progress

if TYPE_CHECKING:
    from kwire.spark.lost_records import LostRange


class CreatedAgain(Exception):
    """Topics were created again, so the query has to end before it writes another batch."""


class LossDetection:
    """The checks between the planning of a batch and its run."""

    def __init__(
        self, view: BrokerView, topics: Incarnations, table: LostTable, progress: Progress
    ) -> None:
        self._view = view
        self._topics = topics
        self._table = table
        self._progress = progress
        self._starts: Offsets = {}
        self.late_loss: DataLost | None = None
        """The reason to stop after the newest batch, which has been written; None to go on."""

    def recreated(self, names: Iterable[str]) -> dict[str, str]:
        """The new ids of the topics that were created again; also notes the ids of new topics."""
        ids = {name: topic_id for name, (topic_id, _) in self._view.topics(names).items()}
        again = self._topics.recreated(ids)
        self._topics.note(ids)
        return {name: ids[name] for name in again}

    def topic_ids(self, ranges: Iterable[OffsetRange]) -> dict[str, str]:
        """The topic ids of ranges that were given to ``check_before``."""
        ids = self._topics.ids()
        return {one.topic: ids[one.topic] for one in ranges}

    def check_before(self, ranges: list[OffsetRange], gone: Iterable[str]) -> list[OffsetRange]:
        """The ranges that a batch can read, without those of ``gone``; DataLost, CreatedAgain.

        ``gone`` are topics that are already known to have been created again.
        """
        if self.late_loss is not None:
            raise self.late_loss
        left = [one for one in ranges if one.topic not in set(gone)]
        if again := self.recreated(_names(left)):
            raise CreatedAgain(", ".join(again))
        self._record(lost_records.gone_back(left))
        left = [
            OffsetRange(one.topic, one.partition, one.first, one.end, self._topics.of(one.topic))
            for one in left
            if one.first < one.end
        ]
        self._starts = self._starts_of(left)
        self._record(lost_records.deleted(left, self._starts))
        return left

    def incomplete(self, ranges: Iterable[OffsetRange]) -> frozenset[OffsetRange]:
        """The ranges whose first records retention had deleted when ``check_before`` was called."""
        starts = self._starts
        return frozenset(one for one in ranges if starts[one.topic, one.partition] > one.first)

    def check_after(self, ranges: list[OffsetRange]) -> None:
        """Note the records that may have been lost since ``check_before``, during the batch.

        The sink already has the batch, so the batch counts as written: a second run would find
        fewer records. So this raises nothing. ``late_loss`` holds the reason to stop before the
        next batch.
        """
        ids = {name: found[0] for name, found in self._view.topics(_names(ranges)).items()}
        known = self._topics.ids()
        same = [one for one in ranges if ids.get(one.topic) == known[one.topic]]
        whole = [one for one in same if self._starts[one.topic, one.partition] <= one.first]
        rows = lost_records.deleted(whole, self._starts_of(whole), lost_records.PERHAPS_DELETED)
        rows += lost_records.replaced(one for one in ranges if one not in same)
        if rows:
            self._progress.lost(self._table.write(rows))
            self.late_loss = self.late_loss or self._table.late_loss(rows)

    def record_recreated(self, names: Iterable[str], read: Offsets) -> None:
        """Report the unread records of topics that are gone; DataLost."""
        self._record(lost_records.recreated(names, read, self._progress.last_ends(read)))

    def _starts_of(self, ranges: list[OffsetRange]) -> Offsets:
        return self._view.starts([(one.topic, one.partition) for one in ranges])

    def _record(self, rows: "list[LostRange]") -> None:
        if rows:
            self._progress.lost(self._table.record(rows))


def _names(ranges: Iterable[OffsetRange]) -> set[str]:
    return {one.topic for one in ranges}
