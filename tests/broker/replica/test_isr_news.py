"""The log names who is in sync again: a line for one partition, and no flood for thousands."""

import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.replica.isr_news import GATHER_S, SHOWN, IsrNews
from tests.broker.leading import ROW, follow
from tests.broker.replica.test_alter_partition_manager import Cluster, pass_s


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kwire.broker.replica.isr_news")


@pytest.fixture
async def nursery():
    """Runs what a test starts, until it ends."""
    async with trio.open_nursery() as opened:
        yield opened
        opened.cancel_scope.cancel()


async def test_one_partition_is_told_with_its_replicas(
    tmp_path: Path,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each time anew, if the changes are apart; and nothing while nothing changes."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1,))] * 2)
    nursery.start_soon(cluster.updates.run)
    for partition in cluster.led:
        follow(partition, 3)
        await pass_s(GATHER_S + 0.1)
    assert caplog.messages == [
        f"{name} is in sync on (1, 3), before on (1,)" for name in ("t-0", "t-1")
    ]
    await pass_s(3 * GATHER_S)
    assert len(caplog.messages) == 2


async def test_a_broker_that_comes_back_has_one_line_for_all_partitions(
    tmp_path: Path,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many commits it takes: here one for each partition."""
    cluster = Cluster(tmp_path, [ROW._replace(isr=(1, 2))] * 4)
    nursery.start_soon(cluster.updates.run)
    for partition in cluster.led:
        follow(partition, 3)
        await pass_s(0.01)
    assert len(cluster.commits) == 4
    await pass_s(GATHER_S)
    [line] = caplog.messages
    assert line.startswith("broker 3 is in sync for 4 partition(s): t-0, ")


async def test_thousands_are_told_by_broker_with_the_names_of_the_first(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those that came, and those that went."""
    news = IsrNews()
    nursery.start_soon(news.run)
    for number in range(5000):
        news.changed(f"t-{number}", (1, 2), (1, 3))
    news.changed("other-0", (1,), (1, 3))
    await pass_s(GATHER_S + 0.1)
    came, left = caplog.messages
    first = ", ".join(f"t-{number}" for number in range(SHOWN))
    assert came == f"broker 3 is in sync for 5001 partition(s): {first} and {5001 - SHOWN} more"
    assert left == (
        f"broker 2 is no longer in sync for 5000 partition(s): {first} and {5000 - SHOWN} more"
    )


async def test_a_broker_that_stops_tells_what_it_has_gathered(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Just before its end something may have changed."""
    news = IsrNews()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(news.run)
        news.changed("t-0", (1, 2), (1,))
        await trio.testing.wait_all_tasks_blocked()
        assert caplog.messages == []
        nursery.cancel_scope.cancel()
    assert caplog.messages == ["t-0 is in sync on (1,), before on (1, 2)"]


async def test_a_partition_that_changes_several_times_is_told_as_it_is_in_the_end(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted once; whoever came and went, or went and came, isn't named as both."""
    news = IsrNews()
    nursery.start_soon(news.run)
    news.changed("a-0", (1, 2), (1,))
    news.changed("a-0", (1,), (1, 2))
    news.changed("a-0", (1, 2), (1,))
    await pass_s(GATHER_S + 0.1)
    assert caplog.messages == ["a-0 is in sync on (1,), before on (1, 2)"]
    caplog.clear()
    for partition in ("a-0", "a-1", "a-2"):
        news.changed(partition, (1,), (1, 2))
    news.changed("a-1", (1, 2), (1,))
    news.changed("a-2", (1, 2), (1, 2, 3))
    await pass_s(GATHER_S + 0.1)
    assert caplog.messages == [
        "broker 2 is in sync for 2 partition(s): a-0, a-2",
        "broker 3 is in sync for 1 partition(s): a-2",
        "the same brokers as before are in sync again for 1 partition(s): a-1",
    ]


async def test_a_partition_that_went_and_came_alone_is_told_too(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is different, but whoever looks for a slow broker wants to know it."""
    news = IsrNews()
    nursery.start_soon(news.run)
    news.changed("a-0", (1, 2), (1,))
    news.changed("a-0", (1,), (1, 2))
    await pass_s(GATHER_S + 0.1)
    line = "the same brokers as before are in sync again for 1 partition(s): a-0"
    assert caplog.messages == [line]
