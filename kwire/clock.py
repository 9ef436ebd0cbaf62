"""The clock, one of the five doors to the world: the date, and how much time has passed.

Rules (docs/decisions/0018-two-clocks.md says which timer goes by which):

- ``now_ms`` is the date. It is what is written into records and files, and what is compared with
  them. Somebody may set it back or ahead at any time, so no interval is measured with it.
- ``steady_ms`` measures intervals. Nobody can set it. It goes on while the machine sleeps, where
  the system has such a clock: CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC on macOS. Its values mean
  nothing to another process, so they are never written down.
- ``age_ms`` says for how long a date that this broker wrote down has been there. Steps of the date
  that this process has seen don't count: a date that was set ahead by a week makes nothing a week
  older, and one that was set back doesn't stop anything from growing older.
- Waits for a client (sessions, long polls, idle connections) go by trio's clock, which stands
  still while the machine sleeps: a client could not be heard meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable

SMALLEST_STEP_MS = 1000
STEPS_KEPT = 256
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def steady_clock_ms() -> int:
    """Milliseconds since some moment; they go on while the machine sleeps."""
    if _STEADY is None:
        return time.monotonic_ns() // 1_000_000
    return time.clock_gettime_ns(_STEADY) // 1_000_000


class Clock:
    """The two clocks of one broker, the system's if no others are given.

    ``look`` has to be called every second or so: a step of the date is seen by it.
    """

    def __init__(
        self,
        now_ms: Callable[[], int] = wall_clock_ms,
        steady_ms: Callable[[], int] = steady_clock_ms,
    ) -> None:
        self.now_ms = now_ms
        self.steady_ms = steady_ms
        self._steps: deque[tuple[int, int]] = deque(maxlen=STEPS_KEPT)
        self._ahead_ms = now_ms() - steady_ms()

    def look(self) -> None:
        """Notice whether the date was set since the last look, and remember from when to when."""
        now_ms = self.now_ms()
        expected_ms = self.steady_ms() + self._ahead_ms
        if abs(now_ms - expected_ms) >= SMALLEST_STEP_MS:
            self._steps.append((expected_ms, now_ms))
            self._ahead_ms += now_ms - expected_ms

    def age_ms(self, date_ms: int) -> int:
        """How long ago a date was, at least; negative for one that is to come.

        Where a date may have been written before or after a step, the later of both counts.
        """
        return self.ages()(date_ms)

    def ages(self) -> Callable[[int], int]:
        """``age_ms`` for many dates at this moment."""
        self.look()
        now_ms = self.now_ms()
        if not self._steps:
            return lambda date_ms: now_ms - date_ms
        befores = [before_ms for before_ms, _ in self._steps]
        steps = list(zip(self._steps, [*befores[1:], now_ms], strict=True))

        def age_ms(date_ms: int) -> int:
            for (before_ms, after_ms), until_ms in steps:
                date_ms = _after_step(date_ms, before_ms, after_ms, until_ms)
            return now_ms - date_ms

        return age_ms


def _after_step(date_ms: int, before_ms: int, after_ms: int, until_ms: int) -> int:
    """A date as it would have been written if the clock had been set right before it.

    The date went from ``before_ms`` to ``after_ms`` in one step, and on from there to ``until_ms``.
    A step ahead leaves a gap in which nothing was written: what lies there counts from its end.
    After a step back only a date that hasn't come since is sure to be from before the step.
    """
    if after_ms > before_ms:
        return date_ms + after_ms - before_ms if date_ms <= before_ms else max(date_ms, after_ms)
    return date_ms + after_ms - before_ms if date_ms > until_ms else date_ms
