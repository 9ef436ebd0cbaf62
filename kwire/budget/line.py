"""A line of connections that wait for a resource which one connection may use at a time.

``kwire.budget.order`` says who is next.
"""

from kwire.budget.order import Order, Ticket


class LineClosed(Exception):
    """The line is closed and serves no connection any more."""


class Line:
    """A connection that has entered must leave again. ``close`` refuses all that wait."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: Order[Ticket] = Order()
        self._is_taken = False

    async def enter(self, used_s: float) -> None:
        """Wait for the turn of a connection that has used so much time; LineClosed."""
        if self.is_closed:
            raise LineClosed
        if self._is_taken:
            await self._queue(used_s)
        self._is_taken = True

    def leave(self) -> None:
        """Serve the next connection in the line."""
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
                raise LineClosed
        except BaseException:
            ticket.has_left = True
            if ticket.is_called:
                self.leave()
            raise
