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
from time import thread_time
from typing import TypeVar

import trio

from kwire.budget.fair_queue import FairLock, FairLockClosed
from kwire.budget.thread_pool import ThreadPool
from kwire.budget.work import ClientGone, Work

_T = TypeVar("_T")
_A = TypeVar("_A")

DEBIT_S = 0.02
"""A connection's first count is this much above that of the connection that was served last."""

CREDIT_S = 0.01
"""The most time by which a connection that was quiet is ahead of the busy connections."""


class _Stretches:
    """Times one piece of work by the clock of its thread, which calls this after each stretch."""

    __slots__ = ("_clock", "_since_s", "_thread", "_work", "spent_s")

    def __init__(self, thread: "FairThread", work: Work, clock: Callable[[], float]) -> None:
        self._thread = thread
        self._work = work
        self._clock = clock
        self._since_s = 0.0
        self.spent_s = 0.0

    def run(self, function: Callable[[_A, Callable[[], None]], _T], argument: _A) -> _T:
        """Do the work in the thread that calls this."""
        self._since_s = self._clock()
        try:
            return function(argument, self)
        finally:
            self.spent_s = self._clock() - self._since_s

    def __call__(self) -> None:
        """Count one stretch; ClientGone if no client wants the result any more."""
        self.spent_s = self._clock() - self._since_s
        trio.from_thread.check_cancelled()
        if self._thread.is_closed or self._work.is_unwanted():
            raise ClientGone


class FairThread:
    """One thread, and the line of connections that wait for it.

    ``clock`` counts the seconds that the thread which asks has used its processor.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or thread_time
        self._pool = ThreadPool(1)
        self._lock = FairLock()
        self._floor_s = 0.0
        self._running = trio.CancelScope()

    @property
    def is_closed(self) -> bool:
        """Whether the broker stops and the thread takes no more work."""
        return self._lock.is_closed

    @property
    def running(self) -> int:
        """How many threads are at work: one or none."""
        return self._pool.running

    async def run(
        self, work: Work, function: Callable[[_A, Callable[[], None]], _T], argument: _A
    ) -> _T:
        """Run ``function(argument, between)`` in the thread; return its result or raise its error.

        The function calls ``between`` after every stretch. Raises ClientGone if the client has
        ended its connection, or if the broker stops.
        """
        used_s = work.thread_s
        if used_s is None:
            used_s = self._floor_s + DEBIT_S
        used_s = work.thread_s = max(used_s, self._floor_s - CREDIT_S)
        try:
            await self._lock.enter(used_s)
        except FairLockClosed as error:
            raise ClientGone from error
        self._floor_s = max(self._floor_s, used_s)
        stretches = _Stretches(self, work, self._clock)
        try:
            if work.is_unwanted():
                raise ClientGone
            with trio.CancelScope() as self._running:
                return await self._pool.run(stretches.run, function, argument, abandon=True)
            raise ClientGone  # the broker stops
        finally:
            work.thread_s = used_s + stretches.spent_s
            work.in_threads_s += stretches.spent_s
            self._lock.leave()

    def close(self) -> None:
        """Refuse the connections that wait, and give up the thread's current work."""
        self._lock.close()
        self._running.cancel()


class ValidationPool:
    """The two threads that open record batches."""

    def __init__(self) -> None:
        self.small = FairThread()
        self.large = FairThread()

    @property
    def running(self) -> int:
        """How many of the two threads are at work."""
        return self.small.running + self.large.running

    def close(self) -> None:
        """Close both threads, because the broker stops."""
        self.small.close()
        self.large.close()
