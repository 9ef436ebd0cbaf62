"""A handler that doesn't wait is answered on the spot; one that waits goes on where it was."""

from functools import partial

import pytest
import trio

from kwire.handlers.waiting import at_once_or_later, later


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
