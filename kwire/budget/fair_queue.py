"""The order in which connections that wait for the same resource are served, and a lock with it.

The connection that has used the least time is first: a client with one request does not wait for
a client with a thousand (the idea is that of CFS, the scheduler of Linux). But every
``OLDEST_EVERY``-th turn goes to the connection that has waited longest. Otherwise a client that has
used much time would wait as long as others open new connections, which have used none.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

import trio

OLDEST_EVERY = 8


class Ticket:
    """One connection's place in the order.

    ``is_called`` says that the connection has its turn, ``has_left`` that it gave up before.
    """

    __slots__ = ("has_left", "is_called", "turn")

    def __init__(self) -> None:
        self.turn = trio.Event()
        self.is_called = False
        self.has_left = False


_T = TypeVar("_T", bound=Ticket)


class FairQueue(Generic[_T]):
    """The tickets that wait."""

    def __init__(self) -> None:
        self._by_use: list[tuple[float, int, _T]] = []
        self._by_age: deque[_T] = deque()
        self._numbers = count()
        self._calls = 0

    def __bool__(self) -> bool:
        """Whether a connection waits."""
        return self.first() is not None

    def __iter__(self) -> Iterator[_T]:
        return (ticket for ticket in self._by_age if _waits(ticket))

    def add(self, used_s: float, ticket: _T) -> None:
        """Let a connection that has used so much time begin to wait."""
        heappush(self._by_use, (used_s, next(self._numbers), ticket))
        self._by_age.append(ticket)

    def first(self) -> _T | None:
        """The ticket to call next; None if no connection waits."""
        while self._by_age and not _waits(self._by_age[0]):
            self._by_age.popleft()
        while self._by_use and not _waits(self._by_use[0][2]):
            heappop(self._by_use)
        if not self._by_age:
            return None
        if len(self._by_use) > 2 * len(self._by_age):  # many tickets were called by age
            self._by_use = [entry for entry in self._by_use if _waits(entry[2])]
            heapify(self._by_use)
        is_oldest = self._calls % OLDEST_EVERY == OLDEST_EVERY - 1
        return self._by_age[0] if is_oldest else self._by_use[0][2]

    def call(self, ticket: _T) -> None:
        """Give a connection its turn."""
        self._calls += 1
        ticket.is_called = True
        ticket.turn.set()


def _waits(ticket: Ticket) -> bool:
    return not (ticket.is_called or ticket.has_left)


class FairLockClosed(Exception):
    """The lock is closed and serves no connection any more."""


class FairLock:
    """A resource that one connection may use at a time: a connection that has entered must leave.

    ``close`` refuses all that wait.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: FairQueue[Ticket] = FairQueue()
        self._is_taken = False

    async def enter(self, used_s: float) -> None:
        """Wait for the turn of a connection that has used so much time; FairLockClosed."""
        if self.is_closed:
            raise FairLockClosed
        if self._is_taken:
            await self._queue(used_s)
        self._is_taken = True

    def leave(self) -> None:
        """Serve the next connection in the queue."""
        ticket = self._waiting.first()
        if ticket is None:
            self._is_taken = False
        else:
            self._waiting.call(ticket)

    def close(self) -> None:
        """Refuse the connections that wait and all later ones."""
        self.is_closed = True
        for ticket in self._waiting:
            ticket.turn.set()

    async def _queue(self, used_s: float) -> None:
        ticket = Ticket()
        self._waiting.add(used_s, ticket)
        try:
            await ticket.turn.wait()
            if self.is_closed:
                raise FairLockClosed
        except BaseException:
            ticket.has_left = True
            if ticket.is_called:
                self.leave()
            raise
