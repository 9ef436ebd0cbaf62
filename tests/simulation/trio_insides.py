"""What a deterministic run has to know of trio's insides: the order of tasks, and its epoll."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from trio._core import _run as scheduler

# Private attributes: trio has no public way to seed its scheduler, nor to wait for its sockets too.


@contextmanager
def seeded_order(seed: int) -> Iterator[None]:
    """Let a seed decide in which order the tasks that may run do so."""
    before = scheduler._r.getstate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        scheduler._r.seed(seed)
        try:
            yield
        finally:
            scheduler._r.setstate(before)


def poller_of_this_run() -> int:
    """The descriptor of the epoll that has all sockets of trio's tasks."""
    io_manager: Any = scheduler.GLOBAL_RUN_CONTEXT.runner.io_manager
    fd: int = io_manager._epoll.fileno()
    return fd
