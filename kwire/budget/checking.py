"""The threads that open record batches: one for small batches and one for all others.

A batch of a few hundred bytes may decompress to gigabytes, and nobody knows before. So the thread
for small batches tries first, within limits that take a few milliseconds. What is beyond them waits
for the other thread, where a batch may take a second or two: that is what others with large batches
wait for, and nobody else does.

Rules:

- Whoever has used the threads least comes first. A connection that is new, or was quiet, begins
  near the one that was served last: to connect anew gains nothing.
- Work in a thread is done in stretches of at most some milliseconds. After each of them the thread
  looks whether the result is still wanted, and gives up where the client is gone or the broker
  stops: nothing of it was acknowledged.
- One batch is opened at a time in each thread, so what is held for opening is bounded for the whole
  broker: a stretch, what the codec refers back to, and the result.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from kwire.budget.kind import Kind
from kwire.budget.line import Line, LineClosed
from kwire.budget.work import ClientGone, Work

_T = TypeVar("_T")
_A = TypeVar("_A")

STRETCH_UNITS = 500
"""What decompressing and walking through a stretch of 64 KiB costs, about, in microseconds."""

DEBIT_UNITS = 20_000
"""With how much more than the one that was served last a connection begins."""

CREDIT_UNITS = 10_000
"""How far a connection that was quiet may be ahead of those that were not."""


class _Stretches:
    """Counts the stretches of one piece of work; called in the thread after each of them."""

    __slots__ = ("_lane", "_work", "units")

    def __init__(self, lane: "Lane", work: Work, units: int) -> None:
        self._lane = lane
        self._work = work
        self.units = units

    def __call__(self) -> None:
        """Count one, and raise ClientGone if nobody wants the result any more."""
        self.units += STRETCH_UNITS
        trio.from_thread.check_cancelled()
        if self._lane.is_closed or self._work.is_gone():
            raise ClientGone


class Lane:
    """One thread, and the line of those that wait for it."""

    def __init__(self) -> None:
        self._kind = Kind(1)
        self._line = Line()
        self._floor = 0

    @property
    def is_closed(self) -> bool:
        """Whether the broker stops."""
        return self._line.is_closed

    async def run(
        self,
        work: Work,
        function: Callable[[_A, Callable[[], None]], _T],
        argument: _A,
        units: int = STRETCH_UNITS,
    ) -> _T:
        """``function(argument, between)`` in the thread; its result, or what it raises.

        ``between`` is for the function to call after every stretch. ``units`` is what the function
        costs besides these stretches. ClientGone where the client has ended its connection, or the
        broker stops.
        """
        used = work.thread_units
        if used is None:
            used = self._floor + DEBIT_UNITS
        used = max(used, self._floor - CREDIT_UNITS)
        work.thread_units = used
        try:
            await self._line.enter(used)
        except LineClosed as error:
            raise ClientGone from error
        self._floor = max(self._floor, used)
        stretches = _Stretches(self, work, units)
        try:
            if work.is_gone():
                raise ClientGone
            return await self._kind.run(function, argument, stretches)
        finally:
            work.thread_units = used + stretches.units
            self._line.leave()

    def close(self) -> None:
        """Send away those that wait, and have the thread give up what it does."""
        self._line.close()


class Checking:
    """The two threads."""

    def __init__(self) -> None:
        self.small = Lane()
        self.large = Lane()

    def close(self) -> None:
        """The broker stops."""
        self.small.close()
        self.large.close()
