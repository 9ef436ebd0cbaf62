"""The truncates that a pipeline of Debezium's events has read, for batches that come after.

A truncate deletes the rows of its topic whose records are older. Some of these may not be read yet:
a topic's partitions are read at their own pace, and a later batch may have records of another
partition from before the truncate. They change nothing then.

Rules:

- The file ``truncates.json`` beside the checkpoints has the truncates. It is written after the
  batch's rows, before the batch counts as done. A batch that runs again finds its own truncates,
  which changes nothing: it has them itself.
- Of a topic the two newest by time are kept, of two partitions. Within a truncate's own partition
  later offsets are newer than it; so for a record of any partition one of the two is the newest
  that counts.
- A topic that was created again has forgotten its truncates.
"""

import json
from collections.abc import Iterable

from kwire.spark.batch import Batch
from kwire.spark.changes import Truncate
from kwire.spark.storage import Storage

FILE = "truncates.json"
_KEPT = 2


class Truncates:
    """The newest truncates of each topic; the file in ``storage`` is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._newest: dict[str, tuple[int, list[Truncate]]] = {}
        if content := storage.read(FILE):
            self._newest = {
                topic: (incarnation, [Truncate(topic, *one) for one in newest])
                for topic, (incarnation, newest) in json.loads(content).items()
            }

    def of(self, batch: Batch) -> list[Truncate]:
        """The truncates of the batch's topics that are known, as long as the topics are the same.

        Those that earlier batches have read, or this one when it was written before.
        """
        known = {one.topic: one.incarnation for one in batch.ranges}
        return [
            one
            for topic, (incarnation, newest) in self._newest.items()
            if known.get(topic) == incarnation
            for one in newest
        ]

    def note(self, batch: Batch, found: Iterable[Truncate]) -> None:
        """Note the truncates of a batch."""
        incarnations = {one.topic: one.incarnation for one in batch.ranges}
        before = dict(self._newest)
        for one in found:
            incarnation, known = self._newest.get(one.topic, (0, []))
            if incarnation != incarnations[one.topic]:
                known = []
            by_partition = {each.partition: each for each in known}
            by_partition[one.partition] = max(one, by_partition.get(one.partition, one), key=_time)
            newest = sorted(by_partition.values(), key=_time, reverse=True)[:_KEPT]
            self._newest[one.topic] = incarnations[one.topic], newest
        if self._newest != before:
            rows = {
                topic: (incarnation, [one[1:] for one in newest])
                for topic, (incarnation, newest) in self._newest.items()
            }
            self._storage.write(FILE, json.dumps(rows).encode())


def _time(one: Truncate) -> tuple[int, int]:
    return one.time_us, one.partition
