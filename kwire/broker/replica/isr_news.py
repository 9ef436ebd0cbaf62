"""The lines of the log about replicas that come into sync, or are no longer in sync.

Rules:

- A broker that restarts comes into sync for thousands of partitions within a moment. Changes within
  ``GATHER_S`` of the first one are told together: a line for each broker that came or went, with
  the number of partitions, and the names of the first ``SHOWN``.
- What counts of a partition is the difference between the replicas before its first change and
  those after its last one. So each partition is counted once, and the lines show the final state.
  Partitions that are as before have a line of their own.
- A partition that changes alone has a line with the replicas before and after.
- There is at most one entry for each partition that the broker leads.
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
        # By partition: the replicas in sync before the first change, and after the last one.
        self._changes: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
        self._has_some = trio.Event()

    def changed(self, partition: str, before: Sequence[int], after: Sequence[int]) -> None:
        """Note that other replicas of a partition are in sync than ``before``."""
        first, _ = self._changes.get(partition, (before, after))
        self._changes[partition] = (first, after)
        self._has_some.set()

    async def run(self) -> None:
        """Log what has changed, forever; what is left is logged at the end."""
        while True:
            await self._has_some.wait()
            try:
                await trio.sleep(GATHER_S)
            finally:
                self._log_changes()

    def _log_changes(self) -> None:
        changes, self._changes = self._changes, {}
        self._has_some = trio.Event()
        if len(changes) == 1:
            [(partition, (before, now))] = changes.items()
            if set(before) != set(now):
                log.info("%s is in sync on %s, before on %s", partition, now, before)
                return
        _tell_by_broker(changes)


def _tell_by_broker(changes: dict[str, tuple[Sequence[int], Sequence[int]]]) -> None:
    """Write the lines about several partitions."""
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for partition, (before, now) in changes.items():
        alike.setdefault((tuple(before), tuple(now)), []).append(partition)
    came: dict[int, list[str]] = {}
    left: dict[int, list[str]] = {}
    same: list[str] = []
    for (before, now), partitions in alike.items():
        for node in set(now).difference(before):
            came.setdefault(node, []).extend(partitions)
        for node in set(before).difference(now):
            left.setdefault(node, []).extend(partitions)
        if set(before) == set(now):
            same += partitions
    for node, partitions in sorted(came.items()):
        log.info("broker %d is in sync for %s", node, _shown(partitions))
    for node, partitions in sorted(left.items()):
        log.info("broker %d is no longer in sync for %s", node, _shown(partitions))
    if same:
        log.info("the same brokers as before are in sync again for %s", _shown(same))


def _shown(partitions: Sequence[str]) -> str:
    """How many partitions there are, and the names of the first ones."""
    more = f" and {len(partitions) - SHOWN} more" if len(partitions) > SHOWN else ""
    return f"{len(partitions)} partition(s): {', '.join(partitions[:SHOWN])}{more}"
