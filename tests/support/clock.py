"""A clock that a test controls: passing time, suspend, changes of the date."""

import itertools

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


def step_clock(patch: pytest.MonkeyPatch, module: str, step_s: float) -> None:
    """Let a module's ``perf_counter`` go on by so much with each look, and by nothing else."""
    looks = itertools.count(1)
    patch.setattr(f"{module}.perf_counter", lambda: next(looks) * step_s)
