"""The lines of the log about replicas that come into sync, or are no longer in sync.

Rules:

- A broker that restarts comes into sync for thousands of partitions within a moment. Changes within
  ``GATHER_S`` of the first one are told together: a line for each broker that came or went, with
  the number of partitions, and the names of the first ``SHOWN``.
- A change that stays alone has a line of its own, with the replicas before and after.
- Nothing waits for a line. The task ``run`` sleeps while nothing changes.
"""

import logging
from collections.abc import Sequence

import trio

log = logging.getLogger(__name__)

GATHER_S = 2.0
SHOWN = 20
"""How many partitions a line names."""


class IsrNews:
    """The changes of the ISR that a leader has made. The task ``run`` has to run."""

    def __init__(self) -> None:
        self._count = 0
        self._last: tuple[str, Sequence[int], Sequence[int]] = ("", (), ())
        self._came: dict[int, _Partitions] = {}
        self._left: dict[int, _Partitions] = {}
        self._has_some = trio.Event()

    def changed(self, partition: str, before: Sequence[int], now: Sequence[int]) -> None:
        """Note that other replicas of a partition are in sync than ``before``."""
        self._count += 1
        self._last = (partition, before, now)
        for node in set(now).difference(before):
            self._came.setdefault(node, _Partitions()).add(partition)
        for node in set(before).difference(now):
            self._left.setdefault(node, _Partitions()).add(partition)
        self._has_some.set()

    async def run(self) -> None:
        """Log what has changed, forever; what is left is logged at the end."""
        while True:
            await self._has_some.wait()
            try:
                await trio.sleep(GATHER_S)
            finally:
                self._tell()

    def _tell(self) -> None:
        if self._count == 1:
            partition, before, now = self._last
            log.info("%s is in sync on %s, before on %s", partition, now, before)
        else:
            for node, partitions in sorted(self._came.items()):
                log.info("broker %d is in sync for %s", node, partitions)
            for node, partitions in sorted(self._left.items()):
                log.info("broker %d is no longer in sync for %s", node, partitions)
        self._count = 0
        self._came, self._left = {}, {}
        self._has_some = trio.Event()


class _Partitions:
    """Some partitions: how many, and the names of the first ones."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[str] = []

    def add(self, partition: str) -> None:
        """Count one more."""
        self._count += 1
        if len(self._first) < SHOWN:
            self._first.append(partition)

    def __str__(self) -> str:
        more = f" and {self._count - SHOWN} more" if self._count > SHOWN else ""
        return f"{self._count} partition(s): {', '.join(self._first)}{more}"
