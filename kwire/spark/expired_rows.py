"""The rows that ``expire`` has removed from a table, so that ``verify`` doesn't report gaps.

The file ``expired.json`` is beside the checkpoints. It is written before rows are removed. After a
kill in between, ``verify`` compares fewer rows, but never reports rows that were to be removed.
"""

import json

from kwire.spark.storage import Storage
from kwire.spark.upkeep import Cutoff

FILE = "expired.json"

_Key = tuple[str, int, int]
"""Topic, partition, incarnation."""


class ExpiredRows:
    """The expired rows of a pipeline; the file in ``storage`` is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = storage.read(FILE)
        found = json.loads(content or b'{"by_time": false, "before": []}')
        self.by_time = bool(found["by_time"])
        """Whether rows were removed by their age: then their offsets aren't known."""
        self._before: dict[_Key, int] = {
            (topic, partition, incarnation): offset
            for topic, partition, incarnation, offset in found["before"]
        }

    def before(self, topic: str, partition: int, incarnation: int) -> int:
        """The first offset of a partition that has not expired."""
        return self._before.get((topic, partition, incarnation), 0)

    def record(self, cutoff: Cutoff) -> None:
        """Record what is about to expire."""
        if cutoff.before_ms is not None:
            self.by_time = True
        else:
            key = cutoff.topic, cutoff.partition, cutoff.incarnation
            self._before[key] = max(self._before.get(key, 0), cutoff.before_offset)
        rows = [[*key, offset] for key, offset in sorted(self._before.items())]
        content = {"by_time": self.by_time, "before": rows}
        self._storage.write(FILE, json.dumps(content).encode())
