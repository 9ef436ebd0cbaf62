"""Virtual time: it passes only when every task waits, and then jumps to what comes next.

Rules:

- trio asks the clock how long it may sleep when no task can run. The clock goes to the earliest
  deadline or timer at that moment, and says that there is nothing to wait for.
- The sockets of brokers with a poller are real. Before time passes, the clock looks whether one of
  them has something for a task, or for the network (``sockets``).
- A ``Waiter`` is what most simulated waiting is made of: the latency of each message, each pause of
  a client. It costs one step of its task, where a cancel scope with a deadline costs several.
"""

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import trio

FOR_EVER_S = 3600.0
"""So long trio may really wait: at the end of a run its own last work is all there is to come."""


class Timer(Protocol):
    """What the clock tells of a moment."""

    def wake(self) -> bool:
        """The moment has come; whether a task has something to do."""


class Waiter:
    """One task that waits, once, until it is woken."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        """Wait until ``wake`` is called."""
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def wake(self) -> bool:
        """Let the task go on; whether it was waiting."""
        task, self._task = self._task, None
        if task is None:
            return False
        trio.lowlevel.reschedule(task)
        return True


class VirtualClock(trio.abc.Clock):
    """The clock of a run, which begins at 0.

    ``look`` says whether a socket has something for a task at this moment.
    """

    def __init__(self) -> None:
        self.look: Callable[[], bool] = lambda: False
        self._now_s = 0.0
        self._numbers = count()
        self._timers: list[tuple[float, int, Timer]] = []

    def start_clock(self) -> None:
        """Begin."""

    def current_time(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Go to the next moment at which something happens."""
        if self.look():
            return 0
        timers = self._timers
        while timers and timers[0][0] <= deadline:
            at_s, _, timer = heappop(timers)
            self._now_s = max(self._now_s, at_s)
            if timer.wake():
                while timers and timers[0][0] <= at_s:
                    heappop(timers)[2].wake()
                return 0
        if deadline == math.inf:
            return FOR_EVER_S
        self._now_s = max(self._now_s, deadline)
        return 0

    def wake_at(self, at_s: float, timer: Timer) -> None:
        """Wake a task at a moment, unless it is woken earlier."""
        if at_s < math.inf:
            heappush(self._timers, (at_s, next(self._numbers), timer))


def virtual_clock() -> VirtualClock:
    """The clock of this run."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, VirtualClock)
    return clock


async def pass_s(seconds: float) -> None:
    """Let virtual time pass."""
    clock, waiter = virtual_clock(), Waiter()
    clock.wake_at(clock.current_time() + max(0.0, seconds), waiter)
    await waiter.wait()
