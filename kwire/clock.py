"""The clock, one of the broker's five doors to the outside world: the date, and passing time.

Rules (docs/decisions/0018-two-clocks.md says which timer uses which clock):

- ``now_ms`` is the date. It is written into records and files, and compared with dates from there.
  The date may be set back or ahead at any time, so no interval is measured with it.
- ``steady_ms`` measures intervals. It can't be set. It goes on while the machine is suspended, if
  the system has such a clock: CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC on macOS. Its values have no
  meaning in another process, so they are never written to disk.
- ``age_ms`` gives the age of a date that this broker has written. Jumps of the date that this
  process has seen don't count: setting the date ahead by a week makes nothing a week older, and
  setting it back doesn't stop anything from growing older.
- Both are read by ``clock_gettime``, which freezegun leaves alone when it freezes the time of a
  test in this process.
- Waits for a client (sessions, long polls, idle connections) use trio's clock, which stops while
  the machine is suspended, because no client can reach a suspended broker.
"""

import time
from collections import deque
from collections.abc import Callable

SMALLEST_STEP_MS = 1000
STEPS_KEPT = 256
_STEADY = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000


def steady_clock_ms() -> int:
    """Milliseconds since an arbitrary moment; they advance while the machine is suspended."""
    if _STEADY is None:
        return time.monotonic_ns() // 1_000_000
    return time.clock_gettime_ns(_STEADY) // 1_000_000


class Clock:
    """The two clocks of one broker, by default the system's.

    ``detect_jump`` has to be called about every second, because it detects jumps of the date.
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

    def detect_jump(self) -> None:
        """Detect a jump of the date since the last call, and remember it."""
        now_ms = self.now_ms()
        expected_ms = self.steady_ms() + self._ahead_ms
        if abs(now_ms - expected_ms) >= SMALLEST_STEP_MS:
            self._steps.append((expected_ms, now_ms))
            self._ahead_ms += now_ms - expected_ms

    def age_ms(self, date_ms: int) -> int:
        """A lower bound for how long ago a date was; negative for a date in the future.

        If a date may have been written before or after a jump, the later moment counts.
        """
        return self.ages()(date_ms)

    def ages(self) -> Callable[[int], int]:
        """A function that gives ``age_ms`` for many dates at this moment."""
        self.detect_jump()
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
    """Convert a date from before a jump to the clock after it.

    The date jumped from ``before_ms`` to ``after_ms`` and then advanced to ``until_ms``. A jump
    ahead leaves a gap in which nothing was written, so a date in the gap counts as its end. After a
    jump back, a date is only sure to be from before the jump if the clock hasn't reached it since.
    """
    if after_ms > before_ms:
        return date_ms + after_ms - before_ms if date_ms <= before_ms else max(date_ms, after_ms)
    return date_ms + after_ms - before_ms if date_ms > until_ms else date_ms
