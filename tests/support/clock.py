"""A clock that a test controls: passing time, suspend, changes of the date."""

import itertools
from collections.abc import Callable

import pytest

from kwire.clock import Clock, wall_clock_ms


class FakeClock(Clock):
    """A clock that moves only by ``pass_time`` and ``set_date``."""

    def __init__(self, date_ms: int | None = None) -> None:
        self.date_ms = wall_clock_ms() if date_ms is None else date_ms
        self.passed_ms = 1_000_000_000
        super().__init__(lambda: self.date_ms, lambda: self.passed_ms)

    def pass_time(self, ms: int) -> None:
        """Let time pass, in which the machine may also have been suspended."""
        self.date_ms += ms
        self.passed_ms += ms

    def set_date(self, by_ms: int) -> None:
        """Move the date ahead, or back if ``by_ms`` is negative; no time passes."""
        self.date_ms += by_ms


def steps(step_s: float) -> Callable[[], float]:
    """A clock that goes on by so much with each look, and by nothing else."""
    return itertools.count(step_s, step_s).__next__


def use_clock(patch: pytest.MonkeyPatch, clock: Callable[[], float], *modules: str) -> None:
    """Give modules a clock in the place of ``perf_counter``."""
    for module in modules:
        patch.setattr(f"{module}.perf_counter", clock)


def step_clock(
    patch: pytest.MonkeyPatch, module: str, step_s: float, name: str = "perf_counter"
) -> None:
    """Let a module's clock, which has this name there, go on by so much with each look."""
    patch.setattr(f"{module}.{name}", steps(step_s))


class HandClock:
    """Seconds that pass only by ``pass_time``: a clock for ``Turns``."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
