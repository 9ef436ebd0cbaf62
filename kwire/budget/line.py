"""A line of connections that wait for a resource which one connection may use at a time.

The connection that has used the fewest units is served first: a client with one request does not
wait for a client with a thousand (the idea is that of CFS, the scheduler of Linux).
"""

from heapq import heappop, heappush
from itertools import count

import trio


class LineClosed(Exception):
    """The line is closed and serves no connection any more."""


class _Ticket:
    """One connection's place in the line."""

    __slots__ = ("has_left", "is_called", "turn")

    def __init__(self) -> None:
        self.turn = trio.Event()
        self.is_called = False
        self.has_left = False


class Line:
    """A connection that has entered must leave again. ``close`` refuses all that wait."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: list[tuple[int, int, _Ticket]] = []
        self._order = count()
        self._is_taken = False

    async def enter(self, used_units: int) -> None:
        """Wait until the connections that have used fewer units are served; LineClosed."""
        if self.is_closed:
            raise LineClosed
        if self._is_taken:
            await self._queue(used_units)
        self._is_taken = True

    def leave(self) -> None:
        """Serve the next connection in the line."""
        while self._waiting:
            ticket = heappop(self._waiting)[2]
            if not ticket.has_left:
                ticket.is_called = True
                ticket.turn.set()
                return
        self._is_taken = False

    def close(self) -> None:
        """Refuse the connections that wait and all later ones."""
        self.is_closed = True
        for _, _, ticket in self._waiting:
            ticket.turn.set()

    async def _queue(self, used_units: int) -> None:
        ticket = _Ticket()
        heappush(self._waiting, (used_units, next(self._order), ticket))
        try:
            await ticket.turn.wait()
            if self.is_closed:
                raise LineClosed
        except BaseException:
            ticket.has_left = True
            if ticket.is_called:
                self.leave()
            raise
