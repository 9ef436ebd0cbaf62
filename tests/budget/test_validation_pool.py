"""The threads that open batches: who comes next, and who is given up."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kwire.budget.validation_pool import CREDIT_S, FairThread
from kwire.budget.work import ClientGone, Turns, Work
from tests.support.clock import steps

STRETCH_S = 0.001


def a_thread():
    """A thread in which each stretch takes ``STRETCH_S``."""
    return FairThread(steps(STRETCH_S))


class Client:
    """A connection that may end."""

    def __init__(self) -> None:
        self.is_gone = False
        self.work = Work(Turns(), lambda: self.is_gone)


class Blocked:
    """Work that keeps a thread until it is let go or given up."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self, stretches, between):
        self.has_begun.set()
        while not self.gate.wait(0.001):
            between()
        for _ in range(stretches):
            between()
        return "done"

    async def begun(self):
        await trio.to_thread.run_sync(self.has_begun.wait)


async def test_who_has_used_least_comes_first():
    """A client with many batches does not keep one with a single batch waiting for all of them."""
    thread, blocked, order = a_thread(), Blocked(), []
    busy, modest = Client(), Client()
    for client, stretches in ((modest, 1), (busy, 100)):
        await thread.run(client.work, lambda n, between: [between() for _ in range(n)], stretches)

    async def check(client, name):
        await thread.run(client.work, lambda name, between: order.append(name), name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, Client().work, blocked, 0)
        await blocked.begun()
        for _ in range(3):
            nursery.start_soon(check, busy, "busy")
            await wait_all_tasks_blocked()
        nursery.start_soon(check, modest, "modest")
        await wait_all_tasks_blocked()
        blocked.gate.set()
    assert order == ["modest", "busy", "busy", "busy"]


async def test_connecting_anew_gains_nothing():
    """A new connection begins behind one that was served a moment ago."""
    thread, blocked, order = a_thread(), Blocked(), []
    old = Client()

    async def check(client, name):
        await thread.run(client.work, lambda name, between: order.append(name), name)

    for _ in range(5):
        await check(old, "old")
    order.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, old.work, blocked, 0)
        await blocked.begun()
        for _ in range(3):
            nursery.start_soon(check, Client(), "new")
            await wait_all_tasks_blocked()
        nursery.start_soon(check, old, "old")
        await wait_all_tasks_blocked()
        blocked.gate.set()
    assert order == ["old", "new", "new", "new"]


async def test_to_have_been_quiet_gains_little():
    """Who used nothing for long is only a small credit ahead."""
    thread = a_thread()
    quiet, busy = Client(), Client()
    for client, stretches in ((quiet, 0), (busy, 1000), (busy, 0), (quiet, 0)):
        await thread.run(client.work, lambda n, between: [between() for _ in range(n)], stretches)
    assert busy.work.thread_s - quiet.work.thread_s <= CREDIT_S + STRETCH_S


async def test_a_client_that_is_gone_is_given_up_in_the_thread():
    """Its batch takes the thread no longer than to the end of a stretch."""
    thread, blocked, client = a_thread(), Blocked(), Client()
    async with trio.open_nursery() as nursery:

        async def check():
            with pytest.raises(ClientGone):
                await thread.run(client.work, blocked, 0)

        nursery.start_soon(check)
        await blocked.begun()
        client.is_gone = True
    assert await thread.run(Client().work, lambda value, between: value, 7) == 7


async def test_a_client_that_is_gone_while_it_waits_is_not_begun():
    """Its batch never comes to the thread."""
    thread, blocked, client = a_thread(), Blocked(), Client()
    never = Blocked()

    async def check():
        with pytest.raises(ClientGone):
            await thread.run(client.work, never, 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, Client().work, blocked, 0)
        await blocked.begun()
        nursery.start_soon(check)
        await wait_all_tasks_blocked()
        client.is_gone = True
        blocked.gate.set()
    assert not never.has_begun.is_set()


async def test_a_stop_waits_for_nothing():
    """What runs is given up, and who waits is sent away."""
    thread, blocked = a_thread(), Blocked()

    async def check(function):
        with pytest.raises(ClientGone):
            await thread.run(Client().work, function, 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(check, blocked)
        await blocked.begun()
        for _ in range(40):
            nursery.start_soon(check, Blocked())
        await wait_all_tasks_blocked()
        thread.close()
    with pytest.raises(ClientGone):
        await thread.run(Client().work, blocked, 0)


async def test_a_request_that_is_cancelled_gives_its_thread_back():
    """Cancellation reaches the thread at the end of a stretch."""
    thread, blocked = a_thread(), Blocked()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, Client().work, blocked, 0)
        await blocked.begun()
        nursery.cancel_scope.cancel()
    assert await thread.run(Client().work, lambda value, between: value, 7) == 7


async def test_a_stop_does_not_wait_for_a_long_stretch():
    """The decoding of a large request has no stretches; its thread is left alone."""
    thread, gate, has_begun = a_thread(), threading.Event(), threading.Event()

    def decode(_argument, _between):
        has_begun.set()
        gate.wait()

    async def check():
        with pytest.raises(ClientGone):
            await thread.run(Client().work, decode, None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(check)
        await trio.to_thread.run_sync(has_begun.wait)
        thread.close()
    assert not gate.is_set()
    gate.set()
