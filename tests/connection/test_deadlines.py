"""Changes are told when their time is up, once, and what is discarded doesn't pile up."""

import math

import pytest
import trio
import trio.testing

from kwire.broker.delayed import Delayed
from kwire.connection.deadlines import KEPT, Deadlines


class Sleeper:
    """Notes when it is woken."""

    def __init__(self):
        self.woken_s = []

    def wake(self, size):
        """It is woken."""
        self.woken_s.append(trio.current_time())


@pytest.fixture
async def deadlines(nursery, mock_clock):
    """Deadlines that are watched, at second 0."""
    made = Deadlines()
    nursery.start_soon(made.run)
    await trio.testing.wait_all_tasks_blocked()
    yield made
    nursery.cancel_scope.cancel()


def change_at(deadlines, deadline_s):
    """A change that somebody waits for."""
    change = Delayed(deadline_s)
    change.sleeper = Sleeper()
    deadlines.add(change)
    return change


async def pass_s(mock_clock, seconds):
    """Let time pass."""
    mock_clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked()


async def test_each_is_told_at_its_time(deadlines, mock_clock):
    started_s = trio.current_time()
    changes = [change_at(deadlines, started_s + at) for at in (3, 1, 2, 1)]
    for _ in range(4):
        await pass_s(mock_clock, 1)
    assert [change.sleeper.woken_s for change in changes] == [
        [started_s + at] for at in (3, 1, 2, 1)
    ]
    assert all(change.is_late for change in changes)
    assert not len(deadlines)


async def test_a_time_that_is_over_already(deadlines):
    change = change_at(deadlines, trio.current_time() - 1)
    await trio.testing.wait_all_tasks_blocked()
    assert change.is_late
    assert len(change.sleeper.woken_s) == 1


async def test_one_without_a_deadline_is_never_told(deadlines, mock_clock):
    change = change_at(deadlines, math.inf)
    await pass_s(mock_clock, 1e6)
    assert not change.is_late


async def test_who_does_not_wait_any_more_is_not_told(deadlines, mock_clock):
    gone, stays = (change_at(deadlines, trio.current_time() + 1) for _ in range(2))
    sleeper = gone.sleeper
    deadlines.discard(gone)
    await pass_s(mock_clock, 1)
    assert not gone.is_late
    assert not sleeper.woken_s
    assert stays.is_late


async def test_what_is_discarded_does_not_pile_up(deadlines, mock_clock):
    """As with consumers that always have a long fetch under way, and always get something."""
    waits = [change_at(deadlines, trio.current_time() + 500) for _ in range(10)]
    for _ in range(10_000):
        deadlines.discard(change_at(deadlines, trio.current_time() + 300))
    assert len(deadlines) <= 2 * len(waits) + KEPT + 1
    await pass_s(mock_clock, 300)
    assert len(deadlines) <= 2 * len(waits) + KEPT + 1
    await pass_s(mock_clock, 200)
    assert all(change.is_late for change in waits)
    assert not len(deadlines)


async def test_one_told_may_be_discarded(deadlines, mock_clock):
    change = change_at(deadlines, trio.current_time() + 1)
    await pass_s(mock_clock, 1)
    deadlines.discard(change)
    for _ in range(10 * KEPT):
        deadlines.discard(change_at(deadlines, trio.current_time() + 1))
    assert len(deadlines) <= KEPT + 1


async def test_one_that_was_forgotten_may_wait_again(deadlines, mock_clock):
    """As a consumer's next fetch does when others have left in between."""
    change = change_at(deadlines, trio.current_time() + 500)
    sleeper = change.sleeper
    deadlines.discard(change)
    for _ in range(10 * KEPT):
        deadlines.discard(change_at(deadlines, trio.current_time() + 400))
    change.sleeper = sleeper
    deadlines.add(change)
    await pass_s(mock_clock, 500)
    assert sleeper.woken_s == [trio.current_time()]


async def test_who_waits_on_is_noted_once(deadlines, mock_clock):
    """As with fetches that want much and are woken by every little append."""
    waits = [change_at(deadlines, trio.current_time() + 1) for _ in range(10)]
    sleepers = [change.sleeper for change in waits]
    for _ in range(1000):
        for change, sleeper in zip(waits, sleepers, strict=True):
            deadlines.discard(change)
            change.sleeper = sleeper
            deadlines.add(change)
    assert len(deadlines) == len(waits)
    await pass_s(mock_clock, 1)
    assert [len(sleeper.woken_s) for sleeper in sleepers] == [1] * len(waits)
    assert not len(deadlines)
    deadlines.add(waits[0])
    assert len(deadlines) == 1


def hasten(deadlines, change, deadline_s):
    """Its deadline becomes sooner."""
    change.deadline_s = deadline_s
    deadlines.hasten(change)


async def test_what_becomes_sooner_is_told_once_then(deadlines, mock_clock):
    change = change_at(deadlines, trio.current_time() + 500)
    await pass_s(mock_clock, 1)
    hasten(deadlines, change, trio.current_time() + 5)
    await pass_s(mock_clock, 5)
    assert change.sleeper.woken_s == [trio.current_time()]
    await pass_s(mock_clock, 500)
    assert len(change.sleeper.woken_s) == 1
    assert not len(deadlines)


async def test_what_becomes_sooner_before_it_is_added_is_told_then(deadlines, mock_clock):
    change = Delayed(trio.current_time() + 500)
    hasten(deadlines, change, trio.current_time() + 5)
    assert not len(deadlines)
    change.sleeper = Sleeper()
    deadlines.add(change)
    await pass_s(mock_clock, 5)
    assert change.sleeper.woken_s == [trio.current_time()]


async def test_fetches_that_become_sooner_do_not_pile_up(deadlines, mock_clock):
    """As with followers that are told of a new high watermark by the next records."""
    stays = change_at(deadlines, trio.current_time() + 1000)
    for _ in range(10_000):
        change = change_at(deadlines, trio.current_time() + 500)
        hasten(deadlines, change, trio.current_time() + 5)
        deadlines.discard(change)
        assert not change.is_late
    assert len(deadlines) <= KEPT + 4
    again = change_at(deadlines, trio.current_time() + 500)
    hasten(deadlines, again, trio.current_time() + 5)
    sleeper = again.sleeper
    deadlines.discard(again)
    again.sleeper = sleeper
    deadlines.add(again)
    await pass_s(mock_clock, 5)
    assert len(sleeper.woken_s) == 1
    await pass_s(mock_clock, 995)
    assert stays.is_late
    assert not len(deadlines)
