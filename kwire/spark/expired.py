"""What ``expire`` has taken from a pipeline's table, so that ``verify`` doesn't call it gaps.

The file ``expired.json`` is beside the checkpoints. It is written before rows go: a kill in between
makes ``verify`` look at less, and never report rows that somebody wanted to be gone.
"""

import json

from kwire.spark.storage import Storage
from kwire.spark.upkeep import Cutoff

FILE = "expired.json"

_Key = tuple[str, int, int]
"""Topic, partition, incarnation."""


class Expired:
    """What has expired of a pipeline; the file in ``storage`` is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = storage.read(FILE)
        found = json.loads(content or b'{"by_time": false, "before": []}')
        self.by_time = bool(found["by_time"])
        """Whether rows went by their age: nobody knows which offsets they had."""
        self._before: dict[_Key, int] = {
            (topic, partition, incarnation): offset
            for topic, partition, incarnation, offset in found["before"]
        }

    def before(self, topic: str, partition: int, incarnation: int) -> int:
        """The first offset of a partition that has not expired."""
        return self._before.get((topic, partition, incarnation), 0)

    def note(self, cutoff: Cutoff) -> None:
        """Note what is about to expire."""
        if cutoff.before_ms is not None:
            self.by_time = True
        else:
            key = cutoff.topic, cutoff.partition, cutoff.incarnation
            self._before[key] = max(self._before.get(key, 0), cutoff.before_offset)
        rows = [[*key, offset] for key, offset in sorted(self._before.items())]
        content = {"by_time": self.by_time, "before": rows}
        self._storage.write(FILE, json.dumps(content).encode())
