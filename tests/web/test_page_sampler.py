"""Looks at the broker: seldom, shared by all who watch, and turned into rates."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.budget.slices import Slices
from kwire.metadata.image import PartitionImage, TopicImage
from kwire.web.cross_loop_calls import NotServing
from kwire.web.page import sampler
from kwire.web.page.sampler import GroupSample, Sample, Sampler, TopicSample, Totals


class FakeCalls:
    """Answers with samples that grow: each look finds a hundred more records of ten bytes."""

    def __init__(self, clock: "Clock") -> None:
        self.looks = 0
        self.lag = 5
        self.steps = 1
        self.refusals = 0
        self.steady_ms = clock.steady_ms

    async def run(self, _: Callable[..., Awaitable[Any]], *arguments: object) -> Sample:
        """A sample, after ``steps`` steps."""
        if self.refusals:
            self.refusals -= 1
            raise NotServing("the broker is starting")
        self.looks += 1
        count = self.looks * 100
        topics = {"orders": TopicSample(1, 0, count * 10, count, count * 10, 0)}
        totals = Totals(count, count * 10, 0, count, 0, 1, 0, (0,) * 9 + (count * 99, count))
        groups = [GroupSample("billing", "classic", "Stable", 1, self.lag, ("orders",))]
        now_ms = self.steady_ms()
        return Sample(now_ms, now_ms, self.steps, totals, topics, groups)


class Clock:
    """The steady clock of the sampler."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def steady_ms(self) -> int:
        """The time."""
        return int(self.now_s * 1000)


@pytest.fixture
def clock() -> Clock:
    """A clock that the test moves."""
    return Clock()


async def test_all_who_watch_share_a_look(clock: Clock) -> None:
    """However many pages are open, the broker is looked at once in ``FRESH_S``."""
    broker_calls = FakeCalls(clock)
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(samples.latest)
    assert broker_calls.looks == 1
    clock.now_s += sampler.FRESH_S + 0.1
    await samples.latest()
    assert broker_calls.looks == 2


async def test_looks_that_take_long_are_seldom(clock: Clock) -> None:
    """A broker with very many partitions isn't busy with samples."""
    broker_calls = FakeCalls(clock)
    broker_calls.steps = 1_000_000
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    await samples.latest()
    clock.now_s += sampler.FRESH_S * 2
    await samples.latest()
    assert broker_calls.looks == 1
    clock.now_s += sampler.SPARE_WATCHED * 3
    await samples.latest()
    assert broker_calls.looks == 2


async def test_rates_are_differences(clock: Clock) -> None:
    """Per second, between two looks; and 99 % of the requests were faster than the last bucket."""
    broker_calls = FakeCalls(clock)
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    await samples.latest()
    assert samples.rates("orders") == (0, 0, 0)
    assert not samples.points(0)
    clock.now_s += 10
    await samples.latest()
    assert samples.rates("orders") == (10, 100, 0)
    assert samples.rates("unknown") == (0, 0, 0)
    [point] = samples.points(0)
    assert (point.messages_in, point.bytes_in, point.requests, point.lag) == (10, 100, 10, 5)
    assert point.produce_s == 512e-6


async def test_what_other_brokers_lead_is_not_offline() -> None:
    """Only a partition that nobody leads is."""
    partitions = tuple(PartitionImage(leader, 0, (1, 2), (1, 2)) for leader in (1, 2, -1, 2))
    topic = TopicImage("orders", bytes(16), partitions, 4)
    broker = cast(Broker, SimpleNamespace(leader_of=lambda _, index: partitions[index].leader))
    assert await sampler.offline_of(broker, topic, Slices()) == 1


async def test_charts_reach_back_a_day(clock: Clock) -> None:
    """The last points one by one, what is older a minute each."""
    broker_calls = FakeCalls(clock)
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    for _ in range(3 * sampler.POINTS_KEPT):
        await samples.latest()
        clock.now_s += 10
    points = samples.points(0)
    steps = [after.at_ms - before.at_ms for before, after in pairwise(points)]
    assert steps[-1] == 10_000
    assert steps[0] == sampler.MINUTE_MS
    assert sum(steps) == (3 * sampler.POINTS_KEPT - 2) * 10_000
    assert len(samples.points(points[-5].at_ms)) == 5


async def test_the_lag_of_a_group_is_kept_while_it_exists(clock: Clock) -> None:
    """A point each ten seconds, also while somebody looks more often."""
    broker_calls = FakeCalls(clock)
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    for lag in (5, 6, 7, 8, 9, 10):
        broker_calls.lag = lag
        await samples.latest()
        clock.now_s += 5
    assert [lag for _, lag in samples.lags["billing"]] == [5, 7, 9]


async def test_the_looks_go_on_after_a_start(
    autojump_clock: trio.testing.MockClock, clock: Clock
) -> None:
    """A broker that isn't serving yet is asked again."""
    broker_calls = FakeCalls(clock)
    broker_calls.refusals = 2
    samples = Sampler(broker_calls)  # type: ignore[arg-type]
    with trio.move_on_after(sampler.EVERY_S * 2.5):
        await samples.run()
    assert (broker_calls.refusals, broker_calls.looks) == (0, 1)
