"""The threads that open record batches: one for small batches and one for all others.

A batch of a few hundred bytes may decompress to gigabytes, and its header does not say so. So the
thread for small batches opens each batch first, within limits that take a few milliseconds. A batch
beyond these limits goes to the other thread, where one batch may take a second or two. Only
connections with large batches wait for that thread.

Rules:

- The connection that has used the threads least is served first. A connection that is new or was
  quiet starts near the connection that was served last, so a client gains nothing if it reconnects.
- A thread works in stretches of at most some milliseconds. After each stretch the thread checks
  whether the result is still wanted. It gives up if the broker stops, or if the client is gone and
  had to wait for a response (``Work.is_unwanted``): nothing of the batch was acknowledged.
- Each thread opens one batch at a time. So the whole broker's memory for opening is bounded: a
  stretch, the window to which the codec refers back, and the result.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from kwire.budget.kind import Kind
from kwire.budget.line import Line, LineClosed
from kwire.budget.work import ClientGone, Work

_T = TypeVar("_T")
_A = TypeVar("_A")

STRETCH_UNITS = 125
"""The approximate cost of decompressing and reading 16 KiB (one stretch), in microseconds."""

DEBIT_UNITS = 20_000
"""A connection's first count of units is this much above the connection that was served last."""

CREDIT_UNITS = 10_000
"""The most units by which a connection that was quiet is ahead of the busy connections."""


class _Stretches:
    """Counts the stretches of one piece of work; called in the thread after each of them."""

    __slots__ = ("_lane", "_work", "units")

    def __init__(self, lane: "Lane", work: Work, units: int) -> None:
        self._lane = lane
        self._work = work
        self.units = units

    def __call__(self) -> None:
        """Count one stretch; ClientGone if no client wants the result any more."""
        self.units += STRETCH_UNITS
        trio.from_thread.check_cancelled()
        if self._lane.is_closed or self._work.is_unwanted():
            raise ClientGone


class Lane:
    """One thread, and the line of connections that wait for it."""

    def __init__(self) -> None:
        self._kind = Kind(1)
        self._line = Line()
        self._floor = 0
        self._running = trio.CancelScope()

    @property
    def is_closed(self) -> bool:
        """Whether the broker stops and the thread takes no more work."""
        return self._line.is_closed

    async def run(
        self,
        work: Work,
        function: Callable[[_A, Callable[[], None]], _T],
        argument: _A,
        units: int = STRETCH_UNITS,
    ) -> _T:
        """Run ``function(argument, between)`` in the thread; return its result or raise its error.

        The function calls ``between`` after every stretch. ``units`` is what the function costs
        besides these stretches. Raises ClientGone if the client has ended its connection, or if the
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
            if work.is_unwanted():
                raise ClientGone
            with trio.CancelScope() as self._running:
                return await self._kind.run(function, argument, stretches, abandon=True)
            raise ClientGone  # the broker stops
        finally:
            work.thread_units = used + stretches.units
            work.in_threads_units += stretches.units
            self._line.leave()

    def close(self) -> None:
        """Refuse the connections that wait, and give up the thread's current work."""
        self._line.close()
        self._running.cancel()


class Checking:
    """The two threads that open record batches."""

    def __init__(self) -> None:
        self.small = Lane()
        self.large = Lane()

    def close(self) -> None:
        """Close both threads, because the broker stops."""
        self.small.close()
        self.large.close()
