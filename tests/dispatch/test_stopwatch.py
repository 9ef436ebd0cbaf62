"""What a request took is told apart: the queue, the work here, and the wait for others."""

from types import SimpleNamespace

import pytest

from kwire.broker.metrics_counters import MetricsCounters
from kwire.dispatch import stopwatch
from kwire.dispatch.stopwatch import Stopwatch


async def _wait() -> None:
    """What a handler that isn't done yet gives."""


def test_the_wait_begins_with_the_first_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler may wait again; what it does in between counts as the wait."""
    now = SimpleNamespace(s=10.0)
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: now.s)
    counters = MetricsCounters()
    watch = Stopwatch(counters)
    later = _wait()
    watch.begin(3, 9.75)
    for now_s in (10.125, 10.5):
        now.s = now_s
        watch.take(later, is_large=False)
    later.close()
    now.s = 11.0
    watch.take([b"answer"], is_large=False)
    times = counters.times_of(3)
    sums = [one.sum_us for one in (times.queue, times.local, times.wait)]
    assert sums == [250_000, 125_000, 875_000]
