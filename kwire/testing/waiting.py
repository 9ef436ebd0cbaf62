"""Waiting for a state of something outside the test: a process, a file, a broker.

Only this module polls. A test says what it waits for, so that a timeout explains itself.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

POLL_INTERVAL_S = 0.02


class WaitTimeout(AssertionError):
    """The awaited state did not occur in time."""


def wait_until(
    condition: Callable[[], T],
    *,
    timeout_s: float = 30.0,
    what: str = "",
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Blocks the calling thread. Raises WaitTimeout, naming ``what`` and the last value, after
    ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            awaited = what or condition.__name__
            raise WaitTimeout(f"waited {timeout_s:g} s for {awaited}; last seen: {value!r}")
        time.sleep(interval_s)


async def until(condition: Callable[[], T], *, timeout_s: float = 30.0) -> T:
    """Like ``wait_until``, for a state in the same event loop, which runs on meanwhile."""
    with trio.move_on_after(timeout_s):
        while True:
            value = condition()
            if value:
                return value
            await trio.sleep(POLL_INTERVAL_S)
    raise WaitTimeout(f"waited {timeout_s:g} s for {condition.__name__}")
