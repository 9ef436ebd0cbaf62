"""Connections that are ready, but have to wait for a later pass of the event loop.

Rules:

- The connections that have used the least time are served first (``Turns.rank``, as it was when
  they began to wait). Of connections with equal times, the one that has waited longest is first.
- Every ``OLDEST_EVERY``-th pass begins with the connection that has waited longest. Otherwise a
  client that has used more time would wait as long as other clients bring new connections.
- A pass costs as much as it serves and as has become ready, however many connections wait.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from selectors import SelectorKey
from typing import Protocol, TypeAlias

from kwire.budget.fair_queue import OLDEST_EVERY
from kwire.budget.work import Turns

Event: TypeAlias = tuple[SelectorKey, int]
"""A connection that is ready, and for what: as the selector says it."""


class Watched(Protocol):
    """A socket that the poller calls when the socket is readable."""

    def fileno(self) -> int:
        """The descriptor of the socket."""

    @property
    def used_s(self) -> float:
        """The time that the socket's requests have taken so far."""

    def charge(self, spent_s: float) -> None:
        """Count the time of one call below."""

    def on_readable(self) -> None:
        """Handle the bytes or the connection that have arrived."""


_Place: TypeAlias = tuple[float, int, Event]


class ReadyQueue:
    """The connections that wait, by their descriptors."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Place] = {}  # the longest first
        self._by_use: list[_Place] = []  # a heap; some of it doesn't wait any more
        self._numbers = count()
        self._passes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, ready: Iterable[Event], turns: Turns) -> None:
        """Let those of the ready connections wait that don't yet."""
        waiting = self._waiting
        for event in ready:
            key = event[0]
            if key.fd not in waiting:
                place = (turns.rank(key.data.used_s), next(self._numbers), event)
                waiting[key.fd] = place
                heappush(self._by_use, place)

    def leave(self, fd: int) -> None:
        """Forget a connection that isn't watched any more, or for something else."""
        self._waiting.pop(fd, None)

    def take(self) -> Iterator[Event]:
        """The connections in the order in which a pass serves them; the rest goes on waiting."""
        waiting, by_use = self._waiting, self._by_use
        self._passes += 1
        if waiting and self._passes % OLDEST_EVERY == 0:
            fd = next(iter(waiting))
            yield waiting.pop(fd)[2]
        while waiting:
            place = heappop(by_use)
            fd = place[2][0].fd
            if waiting.get(fd) is place:
                del waiting[fd]
                yield place[2]
        by_use.clear()
