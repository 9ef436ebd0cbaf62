"""Waiting for a state of something outside the test: a process, a file, a broker.

Only this module polls. A test says what it waits for, so that a timeout explains itself.
"""

import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import trio

from kwire.clock import steady_clock_ms

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
    __tracebackhide__ = True  # pytest shows the line of the test
    deadline_ms = steady_clock_ms() + timeout_s * 1000
    while True:
        value = condition()
        if value:
            return value
        if steady_clock_ms() >= deadline_ms:
            raise _timeout(condition, value, timeout_s, what)
        time.sleep(interval_s)


async def until(condition: Callable[[], T], *, timeout_s: float = 30.0, what: str = "") -> T:
    """Like ``wait_until``, for a coroutine of trio or asyncio; the event loop keeps running."""
    __tracebackhide__ = True
    sleep = _sleep_of_the_loop()
    deadline_ms = steady_clock_ms() + timeout_s * 1000
    while True:
        value = condition()
        if value:
            return value
        if steady_clock_ms() >= deadline_ms:
            raise _timeout(condition, value, timeout_s, what)
        await sleep(POLL_INTERVAL_S)


def _timeout(condition: Callable[[], T], value: T, timeout_s: float, what: str) -> WaitTimeout:
    awaited = what or condition.__name__
    return WaitTimeout(f"waited {timeout_s:g} s for {awaited}; last seen: {value!r}")


def _sleep_of_the_loop() -> Callable[[float], Awaitable[None]]:
    """A sleep for the event loop that runs in this thread.

    If a test has frozen the time of asyncio's loop, a thread sleeps in its place.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            is_frozen = time.monotonic.__module__ != "time"
            return partial(asyncio.to_thread, time.sleep) if is_frozen else asyncio.sleep
    return trio.sleep
