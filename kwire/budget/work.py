"""Work on the event loop, counted in units and done in slices.

One unit is about one microsecond of kwire's own code on the machine it was written on. A handler
states the cost of its work as an estimate and measures nothing, so the same request always costs
the same units.

Rules:

- A connection has one ``Work``. A handler calls ``spend`` with the cost of its next piece of work.
  If ``spend`` returns True, the handler waits for its next slice before that work:
  ``if work.spend(20): await later(work.next_slice)``.
- A pass of the event loop begins when the poller sets ``units_left`` to ``PASS_UNITS``. A request
  gets its first slice without waiting: ``SLICE_UNITS``, or the units that the pass has left.
- A request that has spent its slice waits for the next one. Each pass of the event loop grants one
  such slice of ``SLICE_UNITS``. So every request that needs no second slice has a turn between two
  slices.
- The connection that has used the fewest units gets the next slice. So a client with one request
  does not wait for a client with a thousand requests (CFS, the scheduler of Linux, has the same
  idea). A connection that was quiet is ahead of the busy ones by at most ``CREDIT_UNITS``.
- ``next_slice`` raises ClientGone if the client closed its connection while the handler waited.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import trio

from kwire.errors import ErrorCode, KafkaError

SLICE_UNITS = 1000
PASS_UNITS = 4000
CREDIT_UNITS = 10 * SLICE_UNITS
"""By how many units a connection that was quiet may be ahead of the busy connections."""


class ClientGone(Exception):
    """The client closed its connection before its request was answered."""


class _Ticket:
    """One connection's place in the queue for slices."""

    __slots__ = ("has_left", "is_called", "turn")

    def __init__(self) -> None:
        self.turn = trio.Event()
        self.is_called = False
        self.has_left = False


class Turns:
    """The slices of one event loop; ``units_left`` are the unspent units of the current pass."""

    def __init__(self) -> None:
        self.units_left = PASS_UNITS
        self._waiting: list[tuple[int, int, _Ticket]] = []
        self._order = count()
        self._is_taken = False
        self._floor = 0  # the units that the connection of the last slice had used

    async def wait(self, work: "Work") -> None:
        """Wait for a slice, at least until the next pass of the event loop.

        Connections that have used fewer units get their slices first.
        """
        work.used_units = max(work.used_units, self._floor - CREDIT_UNITS)
        if self._is_taken:
            await self._queue(work)
        self._is_taken = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._call_next()
        self._floor = max(self._floor, work.used_units)

    async def _queue(self, work: "Work") -> None:
        ticket = _Ticket()
        heappush(self._waiting, (work.used_units, next(self._order), ticket))
        try:
            await ticket.turn.wait()
        except BaseException:
            ticket.has_left = True
            if ticket.is_called:
                self._call_next()
            raise

    def _call_next(self) -> None:
        while self._waiting:
            ticket = heappop(self._waiting)[2]
            if not ticket.has_left:
                ticket.is_called = True
                ticket.turn.set()
                return
        self._is_taken = False


class Work:
    """Counts the cost of the requests of one connection, one request after the other.

    ``used_units`` is the cost of all requests so far. ``has_waited`` says whether the current
    request has needed more than one slice. ``max_answer_bytes`` is ``kwire.response.max.bytes``.
    """

    __slots__ = (
        "_answer_bytes",
        "_is_gone",
        "_left",
        "_turns",
        "has_waited",
        "max_answer_bytes",
        "used_units",
    )

    def __init__(
        self, turns: Turns, is_gone: Callable[[], bool], max_answer_bytes: int = 1 << 31
    ) -> None:
        self._turns = turns
        self._is_gone = is_gone
        self._left = 0
        self._answer_bytes = 0
        self.max_answer_bytes = max_answer_bytes
        self.used_units = 0
        self.has_waited = False

    def begin_request(self, units: int) -> None:
        """Begin to count a request that costs at least ``units``."""
        self.has_waited = False
        self._answer_bytes = 0
        self.go_on()
        self.spend(units)

    def go_on(self) -> None:
        """Continue the current request in another pass of the event loop, with a new slice."""
        left = self._turns.units_left
        self._left = left if left < SLICE_UNITS else SLICE_UNITS

    def spend(self, units: int) -> bool:
        """Count the next piece of work; return whether to wait for ``next_slice`` before it."""
        self._left -= units
        self.used_units += units
        self._turns.units_left -= units
        return self._left < 0

    def answer(self, size_bytes: int) -> None:
        """Count bytes of the response before they are made; KafkaError beyond the limit.

        The protocol has no error code for a response that is too large, so the error ends the
        connection.
        """
        self._answer_bytes += size_bytes
        if self._answer_bytes > self.max_answer_bytes:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the response is larger than kwire.response.max.bytes={self.max_answer_bytes}: "
                "ask for less in one request, or raise the setting",
            )

    async def next_slice(self) -> None:
        """Wait for the next slice; raise ClientGone if the client closed its connection."""
        self.has_waited = True
        await self._turns.wait(self)
        if self._is_gone():
            raise ClientGone
        self._left = SLICE_UNITS
