"""Work on the event loop, counted in units and done in slices.

One unit is about one microsecond of this broker's own code on the machine it was written on: the
costs are estimates that the code states, not measurements, so that the same request always takes
the same slices.

Rules:

- A connection has one ``Work``. A handler counts what it does with ``spend`` before it does it, and
  when ``spend`` says so it waits for its next slice:
  ``if work.spend(20): await later(work.next_slice)``.
- All connections together do at most ``PASS_UNITS`` at once in one pass of the event loop, which
  the poller begins by setting ``units_left``. After that the work of every connection waits for a
  slice, and one slice is done in each pass: between two slices every connection that needs no slice
  has its turn.
- The connection that has used the fewest units is served first. A client with one request does not
  wait for a client with a thousand (the idea is that of CFS, the scheduler of Linux). A connection
  that was quiet gets no more than a small credit for it.
- Whoever waits for a slice learns then that its client is gone, and stops.
"""

from collections.abc import Callable

import trio

from kwire.budget.line import Line
from kwire.errors import ErrorCode, KafkaError

SLICE_UNITS = 1000
PASS_UNITS = 4000
CREDIT_UNITS = 10 * SLICE_UNITS
"""How far a connection that was quiet may be ahead of those that were not."""


class ClientGone(Exception):
    """The connection of the client whose request is worked on has ended."""


class Turns:
    """The slices of one event loop; ``units_left`` are those of this pass."""

    def __init__(self) -> None:
        self.units_left = PASS_UNITS
        self._line = Line()
        self._floor = 0  # what the connection that was served last had used

    async def wait(self, work: "Work") -> None:
        """Wait for a slice: until those that have used less had theirs, and the loop has turned."""
        work.used_units = max(work.used_units, self._floor - CREDIT_UNITS)
        await self._line.enter(work.used_units)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._line.leave()
        self._floor = max(self._floor, work.used_units)


class Work:
    """What the requests of one connection cost, one request after the other.

    ``used_units`` is what they have cost so far, ``has_waited`` whether the request in hand has
    needed more than one slice. ``max_answer_bytes`` is ``kwire.response.max.bytes``.
    ``is_gone`` says whether the connection has ended; a thread may ask. ``thread_units`` is what
    the requests have cost in the threads that open batches, None before the first of them.
    """

    __slots__ = (
        "_answer_bytes",
        "_left",
        "_turns",
        "has_waited",
        "is_gone",
        "max_answer_bytes",
        "thread_units",
        "used_units",
    )

    def __init__(
        self, turns: Turns, is_gone: Callable[[], bool], max_answer_bytes: int = 1 << 31
    ) -> None:
        self._turns = turns
        self.is_gone = is_gone
        self._left = 0
        self._answer_bytes = 0
        self.max_answer_bytes = max_answer_bytes
        self.used_units = 0
        self.thread_units: int | None = None
        self.has_waited = False

    def begin_request(self, units: int) -> None:
        """Begin a request, whose smallest cost is ``units``."""
        self.has_waited = False
        self._answer_bytes = 0
        self.go_on()
        self.spend(units)

    def go_on(self) -> None:
        """Go on with the request in hand in another pass of the event loop."""
        left = self._turns.units_left
        self._left = left if left < SLICE_UNITS else SLICE_UNITS

    def spend(self, units: int) -> bool:
        """Count work that is done next; whether to wait for ``next_slice`` before it."""
        self._left -= units
        self.used_units += units
        self._turns.units_left -= units
        return self._left < 0

    def answer(self, size_bytes: int) -> None:
        """Count bytes of the response before they are made; KafkaError beyond the limit.

        The protocol has no error for this, so the error ends the connection.
        """
        self._answer_bytes += size_bytes
        if self._answer_bytes > self.max_answer_bytes:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the answer is larger than kwire.response.max.bytes={self.max_answer_bytes}: "
                "ask for less in one request, or raise the setting",
            )

    async def next_slice(self) -> None:
        """Wait for the next slice; ClientGone if the connection has ended meanwhile."""
        self.has_waited = True
        await self._turns.wait(self)
        if self.is_gone():
            raise ClientGone
        self._left = SLICE_UNITS
