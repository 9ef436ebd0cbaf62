"""Waiting for connections and for all that trio waits for in one system call, without trio's loop.

A fast path of the poller's ``wait_readable``, its slow twin: that leads through trio's scheduler,
once before the process sleeps and once after, while a request waits. Here the poller sleeps where
it is, until a connection is ready or trio has something to do.

Rules:

- It sleeps only while no other task can run; trio tells its instruments which are scheduled.
- It goes back to trio for everything that trio waits for: what its epoll instance watches (other
  sockets, threads that are done, signals) and its next deadline.
- It is for a process that runs nothing but kwire: a host of trio's loop, or a clock of tests, would
  not go on meanwhile. Where trio's epoll instance can't be told, there is the slow twin.
"""

import os
import select
from contextlib import suppress

import trio

LONGEST_S = 3600
MANY = 1 << 30


class OwnWait(trio.abc.Instrument):
    """Sleeps in place of trio, whose epoll instance is ``trio_fd``; it has to be an instrument."""

    def __init__(self, trio_fd: int) -> None:
        self.trio_fd = trio_fd
        self.others = MANY  # tasks that can run; who knows until trio is idle for the first time
        self._poll = select.poll()
        self._poll.register(trio_fd, select.POLLIN)

    def watch(self, fd: int) -> None:
        """The descriptor for which it waits beside trio's."""
        self._poll.register(fd, select.POLLIN)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """A task can run."""
        self.others += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """It runs."""
        self.others -= 1

    def before_io_wait(self, timeout: float) -> None:
        """Trio sleeps when none can run."""
        if timeout > 0:
            self.others = 0

    def sleep(self) -> bool:
        """Sleep, and say whether only what ``watch`` was told is ready; if not, it is trio's turn.

        Called by a task, which is none of the ``others``.
        """
        if self.others:
            return False
        wait_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
        if wait_s <= 0:
            return False
        ready = self._poll.poll(int(min(wait_s, LONGEST_S) * 1000) + 1)
        return len(ready) == 1 and ready[0][0] != self.trio_fd


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
