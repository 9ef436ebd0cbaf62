"""The limit on the producers that all logs of a broker know together: ``kwire.producer.ids.max``.

Rules:

- Above the limit, the logs that know the most producers are all cut to one level. Each log forgets
  the producers that wrote longest ago and have no open transaction.
- A tenth more than necessary is forgotten, so that the limit is not reached again soon.
"""

import threading
from collections.abc import Collection, Iterator

from kwire.log.partition_log import PartitionLog


def keep_within(logs: Collection[PartitionLog], most: int) -> Iterator[None]:
    """Forget producers until at most ``most`` are known; yields after each log that was cut."""
    counts = [len(opened.producers.producers) for opened in logs]
    if sum(counts) <= most:
        return
    level = level_of(counts, most - most // 10)
    for opened in logs:
        if len(opened.producers.producers) > level:
            opened.producers.keep_latest(level)
            yield


def level_of(counts: Collection[int], total: int) -> int:
    """The largest level such that the counts, each cut to it, add up to at most ``total``."""
    left, remaining = total, len(counts)
    for count in sorted(counts):
        level = left // remaining
        if count > level:
            return level
        left -= count
        remaining -= 1
    return max(counts, default=0)


class LoadedProducers:
    """Keeps the producers within the limit while several threads load logs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._logs: list[PartitionLog] = []
        self._count = 0
        self._lock = threading.Lock()

    def add(self, opened: PartitionLog) -> None:
        """Count the producers of a log that was just loaded and isn't written to yet."""
        with self._lock:
            self._logs.append(opened)
            self._count += len(opened.producers.producers)
            if self._count > self._most:
                for _ in keep_within(self._logs, self._most):
                    pass
                self._count = sum(len(one.producers.producers) for one in self._logs)
