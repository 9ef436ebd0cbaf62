"""A rate is kept, and no more waited than that takes."""

import pytest

from kwire.log.compaction.throttle import Throttle


class Time:
    """Seconds that pass by sleeping."""

    def __init__(self):
        self.now_s = 100.0
        self.slept = []

    def clock(self):
        """Now."""
        return self.now_s

    def sleep(self, seconds):
        """Let time pass."""
        self.slept.append(seconds)
        self.now_s += seconds


def test_what_is_too_fast_has_to_wait():
    """10,000 bytes at 1,000 a second take 10 seconds."""
    time = Time()
    throttle = Throttle(1000, time.clock, time.sleep)
    for _ in range(100):
        throttle.count_bytes(100)
    assert time.now_s == pytest.approx(110, abs=0.31)
    assert max(time.slept) <= 0.3 + 0.1


def test_what_is_slow_enough_never_waits():
    """Nor does anything without a limit."""
    time = Time()
    slow = Throttle(1000, time.clock, time.sleep)
    fast = Throttle(1.7976931348623157e308, time.clock, time.sleep)
    for _ in range(100):
        slow.count_bytes(70)
        fast.count_bytes(1 << 30)
        time.now_s += 0.1
    assert time.slept == []
