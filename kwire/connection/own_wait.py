"""One system call that waits for connections and for everything trio waits for.

This is the fast path of the poller's ``wait_readable``, its slow twin. The slow twin leads through
trio's scheduler twice while a request waits: before and after the process sleeps. On the fast path
the poller sleeps in its own selector, which also watches trio's epoll instance.

Rules:

- The poller sleeps only while no other task can run. Trio tells its instruments which tasks can
  run: two short calls for each step of a task, and there are few steps.
- The poller returns to trio for everything that trio waits for: an event of trio's epoll instance
  (other sockets, finished threads, signals) and trio's next deadline.
- The fast path needs a process that runs only kwire. While the poller sleeps, a program that hosts
  trio's loop, or a test's clock, would stand still. If kwire can't find trio's epoll instance, it
  takes the slow twin.
- Trio must not wait for the poller's selector, because then each would watch the other.
- To ask trio for its next deadline takes as long as a small request. So while no task of trio has
  run since the last answer, that answer is used again, and ``soonest_s``, the deadline that the
  poller's own turns move. A turn may set another deadline, too, so the answer is used for
  ``FRESH_S`` only, and a sleep doesn't last longer.
"""

import math
import os
from contextlib import suppress

import trio

LONGEST_S = 3600.0
FRESH_S = 0.01
"""How long an answer of trio's is used."""

MANY = 1 << 30


class OwnWait(trio.abc.Instrument):
    """Decides whether the poller sleeps in trio's place; ``trio_fd`` is trio's epoll instance.

    Trio tells only instruments which tasks can run, so this class is an instrument.
    """

    def __init__(self, trio_fd: int) -> None:
        self.others = MANY  # tasks that can run; unknown until trio's loop turns
        self._has_run = True  # whether a task has run since trio told its next deadline
        self._next_s = self._stale_s = 0.0
        self.is_trios_turn = False
        self.used_s = 0.0  # so the poller serves it before all connections
        self._trio_fd = trio_fd

    def charge(self, spent_s: float) -> None:
        """Nobody pays for this."""

    def fileno(self) -> int:
        """The descriptor that the poller watches beside its connections."""
        return self._trio_fd

    def on_readable(self) -> None:
        """Note that something has happened for which trio waits."""
        self.is_trios_turn = True

    def before_io_wait(self, timeout: float) -> None:
        """Count the tasks that can run, because trio's loop turns."""
        self._has_run = True
        self.others = trio.lowlevel.current_statistics().tasks_runnable

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Count a task that can run now."""
        self._has_run = True
        self.others += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a task that runs now as no longer waiting to run."""
        self._has_run = True
        self.others -= 1

    def wait_s(self, soonest_s: float = math.inf) -> float:
        """How long the calling task may sleep in seconds; 0 if trio has to have its turn.

        ``soonest_s`` is a deadline that the calling task may have moved. The calling task isn't one
        of the ``others``. The result is also 0 if that task is to be cancelled, because a task
        learns of that only when it returns to trio.
        """
        now_s = trio.current_time()
        if now_s < self._stale_s and not self._has_run:
            return max(0.0, min(self._next_s, self._stale_s, soonest_s) - now_s)
        statistics = trio.lowlevel.current_statistics()
        if self.others or statistics.tasks_runnable:
            trio.lowlevel.add_instrument(self)  # trio no longer calls an instrument that has failed
            return 0.0
        if trio.current_effective_deadline() == -math.inf:
            return 0.0
        left_s = statistics.seconds_to_next_deadline
        self._next_s, self._stale_s = now_s + left_s, now_s + FRESH_S
        self._has_run = False
        return max(0.0, min(left_s, LONGEST_S))


def epoll_instances() -> set[int]:
    """The descriptors of this process that are epoll instances; empty except on Linux."""
    found = set()
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventpoll]":
                    found.add(int(name))
    return found


def own_wait() -> OwnWait | None:
    """An OwnWait for a process whose loop has just begun, when trio's is the only epoll instance.

    None if there isn't exactly one epoll instance, because kwire can't tell then which is trio's.
    """
    found = epoll_instances()
    if len(found) != 1:
        return None
    waiting = OwnWait(found.pop())
    trio.lowlevel.add_instrument(waiting)
    return waiting
