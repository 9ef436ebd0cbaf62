"""A consumer that reads beside the producers of a scenario: how long it got nothing.

Rules:

- It is the only member of a ``read_committed`` group of the scenario's own, so it needs a leader of
  each partition and a coordinator.
- No offset comes twice, but after its partitions were assigned anew; else ``stop`` raises
  AssertionError.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer

from bench.cluster.kills import TOPIC, WAIT_S
from compat_tests.clients import QUIET
from kwire.testing.waiting import wait_until

SETTINGS = {
    "auto.offset.reset": "latest",
    "auto.commit.interval.ms": 1000,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
}
POLL_S = 0.05
MOST = 1000


class Reading:
    """A consumer in a thread, during the ``with`` block."""

    def __init__(self, bootstrap: str, partitions: int, group: str, **options: object) -> None:
        self.came_s: list[list[float]] = [[] for _ in range(partitions)]
        """When records of each partition came, by time.monotonic."""
        self._twice: list[str] = []
        self._next = [0] * partitions
        config = {"bootstrap.servers": bootstrap, "group.id": group, **SETTINGS, **options}
        self._consumer = Consumer(config, logger=QUIET)
        self._ends = Event()
        self._thread = Thread(target=self._read)

    def __enter__(self) -> "Reading":
        self._consumer.subscribe([TOPIC], on_assign=self._assigned)
        self._thread.start()
        try:
            self.wait(range(len(self.came_s)), time.monotonic())
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        assert not self._twice, f"a consumer has seen records twice: {self._twice[:5]}"

    def stop(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def _assigned(self, consumer: Consumer, places: Sequence[Any]) -> None:
        for place in places:
            self._next[place.partition] = 0

    def _read(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(MOST, POLL_S):
                if message.error() is None:
                    self._take(message.partition(), message.offset())

    def _take(self, partition: int, offset: int) -> None:
        if offset < self._next[partition]:
            self._twice.append(f"{TOPIC}-{partition} at {offset}, not {self._next[partition]}")
        self._next[partition] = offset + 1
        self.came_s[partition].append(time.monotonic())

    def wait(self, partitions: Sequence[int], since_s: float) -> None:
        """Wait until a record of each of these partitions has come since then."""

        def came() -> bool:
            return all(self.came_s[one] and self.came_s[one][-1] > since_s for one in partitions)

        wait_until(came, timeout_s=WAIT_S, what=f"records of {TOPIC} {list(partitions)}")

    def pause(self, partitions: Sequence[int], since_s: float) -> float:
        """The longest time for which nothing came of one of these partitions since then."""
        return max(longest(self.came_s[one], since_s) for one in partitions)


def longest(times_s: Sequence[float], since_s: float) -> float:
    """The longest gap between times after ``since_s``, which begins the first one."""
    later_s = [since_s, *(at_s for at_s in times_s if at_s > since_s)]
    return max((after - before for before, after in pairwise(later_s)), default=0.0)
