"""The time of a broker for tests, which a test puts ahead while its clients go on in the present.

Example::

    kafka.clock.advance(days=7)  # sessions are over, retention has run

Rules:

- All of a broker's clocks go ahead together: the date, the steady clock, and the clock of its event
  loop. So a span that has been put ahead is time that has passed, and no new date.
- Only ``BrokerThread`` runs by this clock. Other event loops, and the process, keep the present.
- Time goes ahead in steps, and each step ends when the broker has done what was due by then. So
  what follows from something that was due, comes too. The steps double from a second up to a third
  of the span and become smaller again, because a broker looks every second for what is due, and a
  step for each second of a week would take minutes. Something is therefore late by at most the time
  that it took to become due.
- Time never goes back while a server runs.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from time import perf_counter

import trio

from kwire.clock import Clock, steady_clock_ms
from kwire.testing.real_time import real_date_ms

LEAST_STEP_MS = 1000
"""As long as a broker's periodic tasks rest, so that each of them has its turn in every step."""


class EventLoopClock(trio.abc.Clock):
    """The clock of an event loop: the process's time, and what it was put ahead."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def start_clock(self) -> None:
        """Nothing has to be started."""

    def current_time(self) -> float:
        """Seconds since an arbitrary moment."""
        return perf_counter() + self.ahead_s

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """How many seconds the event loop may sleep until a deadline."""
        return deadline - self.current_time()


class BrokerClock:
    """The clock of one broker.

    ``put_ahead`` gets a span in milliseconds, calls ``pass_ms`` for each step of it in the broker's
    event loop, and returns when the broker has done what is due.
    """

    def __init__(self, put_ahead: Callable[[int], None]) -> None:
        self._ahead_ms = 0
        self._put_ahead = put_ahead

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Let the broker's time run ahead, and wait until it has done what is due by then.

        Raises ValueError unless the span is at least a millisecond.
        """
        span = timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        ms = span // timedelta(milliseconds=1)
        if ms < 1:
            raise ValueError(f"time goes ahead by a millisecond or more, not by {span}")
        self._put_ahead(ms)

    def pass_ms(self, ms: int) -> None:
        """Go ahead by one step."""
        self._ahead_ms += ms

    def now_ms(self) -> int:
        """The broker's date, in milliseconds since the epoch."""
        return real_date_ms() + self._ahead_ms

    def steady_ms(self) -> int:
        """The broker's steady clock."""
        return steady_clock_ms() + self._ahead_ms

    def of_a_server(self) -> Clock:
        """The clock for a new server."""
        return Clock(self.now_ms, self.steady_ms)


def steps_ms(span_ms: int) -> Iterator[int]:
    """The steps in which a span passes."""
    passed_ms = 0
    while passed_ms < span_ms:
        left_ms = span_ms - passed_ms
        step_ms = min(left_ms, max(LEAST_STEP_MS, min(passed_ms, left_ms // 2)))
        passed_ms += step_ms
        yield step_ms
