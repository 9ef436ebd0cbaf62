"""A handler that doesn't wait is answered on the spot; one that waits goes on where it was."""

from functools import partial

import pytest
import trio

from kwire.broker.delayed import Delayed
from kwire.handlers.lib.waiting import at_once_or_later, happens, later


async def double(number, *waits):
    """Twice a number, after some waits that give what is added to it."""
    total = 2 * number
    for wait in waits:
        try:
            total += await later(wait)
        except KeyError:
            total += 1000
    return total


async def give(number):
    """A number, after a while."""
    await trio.lowlevel.checkpoint()
    return number


async def fail():
    """An error, after a while."""
    await trio.lowlevel.checkpoint()
    raise KeyError


def work(begun):
    """What is left of a handler."""
    return at_once_or_later(begun).work()


def test_what_does_not_wait_is_there_at_once():
    assert at_once_or_later(double(4)) == 8


async def test_what_waits_goes_on_with_what_it_waited_for():
    later_on = at_once_or_later(double(4, partial(give, 1), partial(give, 2)))
    assert await later_on.work() == 11


async def test_an_error_comes_out_where_it_was_waited_for():
    assert await work(double(4, fail, partial(give, 2))) == 1010


async def test_a_wait_that_is_cancelled_ends_the_handler():
    with trio.move_on_after(0.01) as scope:
        await work(double(4, trio.sleep_forever))
    assert scope.cancelled_caught


async def test_an_error_nobody_catches_reaches_who_waits():
    async def broken():
        await later(partial(give, 1))
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await work(broken())


class Sleeper:
    """Counts how often it is woken."""

    def __init__(self):
        self.count = 0

    def wake(self, size):
        """It is woken."""
        self.count += 1


async def count(change):
    """How often a change happens before time is up."""
    happened = 0
    while await happens(change):
        happened += 1
    return happened


def test_a_change_that_has_happened_is_not_waited_for():
    change = Delayed()
    change.set()
    change.time_is_up()
    assert at_once_or_later(count(change)) == 1


def test_many_times_are_as_good_as_one_while_nobody_looks():
    change = Delayed()
    begun = at_once_or_later(count(change))
    change.sleeper = sleeper = Sleeper()
    for turn in (1, 2):
        change.set()
        change.set()
        assert sleeper.count == turn
        assert begun.go_on() is begun
    change.time_is_up()
    assert sleeper.count == 3
    assert begun.go_on() == 2


def test_what_happens_when_time_is_up_already_counts():
    change = Delayed()
    begun = at_once_or_later(count(change))
    change.sleeper = sleeper = Sleeper()
    change.time_is_up()
    change.set()
    assert sleeper.count == 1
    assert begun.go_on() == 1


def test_going_on_for_nothing_waits_on():
    change = Delayed()
    begun = at_once_or_later(count(change))
    assert begun.go_on() is begun
    assert begun.waits_for is change


async def test_work_ends_where_a_change_is_waited_for():
    async def both(change):
        number = await later(partial(give, 5))
        await happens(change)
        return number

    change = Delayed()
    begun = at_once_or_later(both(change))
    assert await begun.work() is begun
    change.set()
    assert begun.go_on() == 5
