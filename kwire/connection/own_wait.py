"""Waiting for connections and for all that trio waits for in one system call, without trio's loop.

A fast path of the poller's ``wait_readable``, its slow twin: that leads through trio's scheduler,
once before the process sleeps and once after, while a request waits. Here the poller sleeps in its
own selector, which watches trio's epoll instance too.

Rules:

- It sleeps only while no other task can run; trio tells its instruments which can. That takes two
  short calls for each step of a task, of which there are few.
- It goes back to trio for everything that trio waits for: what its epoll instance watches (other
  sockets, threads that are done, signals) and its next deadline.
- It is for a process that runs nothing but kwire: a host of trio's loop, or a clock of tests, would
  not go on meanwhile. Where trio's epoll instance can't be told, there is the slow twin.
- The poller's selector must not be waited for by trio: each would watch the other.
"""

import math
import os
from contextlib import suppress

import trio

LONGEST_S = 3600.0
MANY = 1 << 30


class OwnWait(trio.abc.Instrument):
    """When to sleep in place of trio, whose epoll instance is ``trio_fd``; it has to be an
    instrument."""

    def __init__(self, trio_fd: int) -> None:
        self.others = MANY  # tasks that can run; nobody knows until trio's loop turns
        self.is_trios_turn = False
        self._trio_fd = trio_fd

    def fileno(self) -> int:
        """What the poller watches beside its connections."""
        return self._trio_fd

    def on_readable(self) -> None:
        """Something has happened for which trio waits."""
        self.is_trios_turn = True

    def before_io_wait(self, timeout: float) -> None:
        """Trio's loop turns."""
        self.others = trio.lowlevel.current_statistics().tasks_runnable

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """A task can run."""
        self.others += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """It runs."""
        self.others -= 1

    def wait_s(self) -> float:
        """How long a task, which is none of the ``others``, may sleep; 0 if it is trio's turn.

        Or if the task is to be cancelled: that happens when it goes back to trio.
        """
        statistics = trio.lowlevel.current_statistics()
        if self.others or statistics.tasks_runnable:
            trio.lowlevel.add_instrument(
                self
            )  # trio drops one that has failed, and tells it no more
            return 0.0
        if trio.current_effective_deadline() == -math.inf:
            return 0.0
        return max(0.0, min(statistics.seconds_to_next_deadline, LONGEST_S))


def epoll_instances() -> set[int]:
    """The descriptors of this process that are epoll instances; only Linux tells."""
    found = set()
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventpoll]":
                    found.add(int(name))
    return found


def own_wait() -> OwnWait | None:
    """For a process whose loop has just begun; None where it can't be told which is trio's epoll
    instance, the only one by then."""
    found = epoll_instances()
    if len(found) != 1:
        return None
    waiting = OwnWait(found.pop())
    trio.lowlevel.add_instrument(waiting)
    return waiting
