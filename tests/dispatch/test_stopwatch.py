"""What a request took is told apart: the queue, the work here, and the wait for others."""

import pytest

from kwire.broker.metrics_counters import MetricsCounters
from kwire.dispatch.stopwatch import Stopwatch
from tests.support.clock import HandClock, use_clock


async def _wait() -> None:
    """What a handler that isn't done yet gives."""


def test_the_wait_begins_with_the_first_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler may wait again; what it does in between counts as the wait."""
    clock = HandClock()
    use_clock(monkeypatch, clock, "kwire.dispatch.stopwatch")
    counters = MetricsCounters()
    watch = Stopwatch(counters)
    later = _wait()
    clock.pass_time(0.25)
    watch.start_request(3, 0.0)
    clock.pass_time(0.125)
    watch.record_response(later, is_large=False)
    clock.pass_time(0.5)
    watch.record_response(later, is_large=False)
    clock.pass_time(0.375)
    watch.record_response([b"answer"], is_large=False)
    later.close()
    times = counters.times_of(3)
    sums = [one.sum_us for one in (times.queue, times.local, times.wait)]
    assert sums == [250_000, 125_000, 875_000]
