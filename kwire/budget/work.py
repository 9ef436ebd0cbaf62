"""Work on the event loop, counted in units and done in slices.

One unit is about one microsecond of this broker's own code on the machine it was written on: the
costs are estimates that the code states, not measurements, so that the same request always takes
the same slices.

Rules:

- A connection has one ``Work``. Each turn of the connection begins with ``begin``, and a handler
  counts what it does with ``spend`` before it does it. When ``spend`` says so the handler waits for
  its next slice: ``if work.spend(20): await later(work.next_slice)``.
- All connections together do at most ``PASS_UNITS`` at once in one pass of the event loop. After
  that the work of every connection waits for a slice, and one slice is done in each pass: between
  two slices every connection that needs no slice has its turn.
- The connection that has used the fewest units is served first. A client with one request does not
  wait for a client with a thousand (the idea is that of CFS, the scheduler of Linux). A connection
  that was quiet gets no more than a small credit for it.
- Whoever waits for a slice learns then that its client is gone, and stops.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import trio

SLICE_UNITS = 1000
PASS_UNITS = 4000
CREDIT_UNITS = 10 * SLICE_UNITS
"""How far a connection that was quiet may be ahead of those that were not."""


LARGE_ANSWER_BYTES = 65_536
"""A response of so many bytes is encoded in a thread."""


class ClientGone(Exception):
    """The connection of the client whose request is worked on has ended."""


class AnswerTooLarge(Exception):
    """The response would be larger than ``kwire.response.max.bytes``.

    The protocol has no error for this, so the connection ends. It is no KafkaError, which a handler
    would turn into the error of one element.
    """


class _Ticket:
    """One connection's place among those that wait for a slice."""

    __slots__ = ("has_left", "is_called", "turn")

    def __init__(self) -> None:
        self.turn = trio.Event()
        self.is_called = False
        self.has_left = False


class Turns:
    """The slices of one event loop; ``units_left`` are those of this pass."""

    def __init__(self) -> None:
        self.units_left = PASS_UNITS
        self._waiting: list[tuple[int, int, _Ticket]] = []
        self._order = count()
        self._is_taken = False
        self._floor = 0  # what the connection that was served last had used

    def begin_pass(self) -> None:
        """The event loop begins a pass: connections may work at once again."""
        self.units_left = PASS_UNITS

    async def wait(self, work: "Work") -> None:
        """Wait for a slice: until those that have used less had theirs, and the loop has turned."""
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
    """What the requests of one connection cost, one request after the other.

    ``used_units`` is what they have cost so far. ``is_large`` tells whether the request in hand has
    needed more than one slice, or has a large response: then a thread encodes the response.
    ``max_answer_bytes`` is ``kwire.response.max.bytes``.
    """

    __slots__ = (
        "_answer_bytes",
        "_begun_with",
        "_is_gone",
        "_left",
        "_turns",
        "is_large",
        "max_answer_bytes",
        "used_units",
    )

    def __init__(
        self, turns: Turns, is_gone: Callable[[], bool], max_answer_bytes: int = 1 << 31
    ) -> None:
        self._turns = turns
        self._is_gone = is_gone
        self._left = self._begun_with = 0
        self._answer_bytes = 0
        self.max_answer_bytes = max_answer_bytes
        self.used_units = 0
        self.is_large = False

    @property
    def answered_bytes(self) -> int:
        """How many bytes of the response have been counted."""
        return self._answer_bytes

    @property
    def is_over(self) -> bool:
        """Whether the slice is used up."""
        return self._left <= 0

    def begin(self) -> None:
        """Begin a turn of the connection, in which several requests may be served."""
        left = self._turns.units_left
        self._left = self._begun_with = left if left < SLICE_UNITS else SLICE_UNITS

    def end(self) -> None:
        """End a turn of the connection: what it has done counts for this pass of the loop."""
        spent = self._begun_with - self._left
        self._begun_with = self._left
        self.used_units += spent
        self._turns.units_left -= spent

    def begin_request(self, units: int) -> None:
        """Begin a request, whose smallest cost is ``units``."""
        self.is_large = False
        self._answer_bytes = 0
        self._left -= units

    def spend(self, units: int) -> bool:
        """Count work that is done next; whether to wait for ``next_slice`` before it."""
        self._left -= units
        return self._left < 0

    def answer(self, size_bytes: int) -> None:
        """Count bytes of the response before they are made; AnswerTooLarge beyond the limit."""
        self._answer_bytes += size_bytes
        if self._answer_bytes > LARGE_ANSWER_BYTES:
            self.is_large = True
        if self._answer_bytes > self.max_answer_bytes:
            raise AnswerTooLarge(
                f"the answer is larger than kwire.response.max.bytes={self.max_answer_bytes}: "
                "ask for less in one request, or raise the setting"
            )

    async def next_slice(self) -> None:
        """Wait for the next slice; ClientGone if the connection has ended meanwhile."""
        self.end()
        self.is_large = True
        await self._turns.wait(self)
        if self._is_gone():
            raise ClientGone
        self._left = self._begun_with = SLICE_UNITS
