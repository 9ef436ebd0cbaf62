"""How many producers all logs of a broker know together: ``kwire.producer.ids.max``.

Rules:

- Beyond it producers are forgotten in the logs that know the most, as many in each as bring them
  to one level; in each log those that wrote longest ago and have no transaction open.
- A tenth more than necessary goes, so that the next look finds something to do much later.
"""

import threading
from collections.abc import Collection, Iterator

from kwire.log.partition_log import PartitionLog


def keep_within(logs: Collection[PartitionLog], most: int) -> Iterator[None]:
    """Forget producers until at most ``most`` are known; a step for each log that has to."""
    counts = [len(opened.producers.producers) for opened in logs]
    if sum(counts) <= most:
        return
    level = level_of(counts, most - most // 10)
    for opened in logs:
        if len(opened.producers.producers) > level:
            opened.producers.keep_latest(level)
            yield


def level_of(counts: Collection[int], total: int) -> int:
    """The largest level so that the counts, each cut to it, make ``total`` at most."""
    left, remaining = total, len(counts)
    for count in sorted(counts):
        level = left // remaining
        if count > level:
            return level
        left -= count
        remaining -= 1
    return max(counts, default=0)


class LoadedProducers:
    """The producers of the logs that are being loaded, in several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._logs: list[PartitionLog] = []
        self._count = 0
        self._lock = threading.Lock()

    def add(self, opened: PartitionLog) -> None:
        """A log is loaded, and nobody writes to it yet."""
        with self._lock:
            self._logs.append(opened)
            self._count += len(opened.producers.producers)
            if self._count > self._most:
                for _ in keep_within(self._logs, self._most):
                    pass
                self._count = sum(len(one.producers.producers) for one in self._logs)
