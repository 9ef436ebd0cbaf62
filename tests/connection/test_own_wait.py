"""Sleeping without trio's loop: the same is served, and nobody who waits for trio is forgotten."""

import os
import signal
import socket
import sys
import threading

import pytest
import trio

from kwire.connection.own_wait import OwnWait, epoll_instances
from kwire.connection.poller import Poller
from tests.connection.test_poller import Peer, Talker, Waker

ROUNDS = 300

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells which descriptor is trio's epoll instance"
)


class Echo(Peer):
    """One that answers every byte."""

    def on_readable(self):
        """Answer with what has come."""
        self.turns += 1
        self.near.send(self.near.recv(1))


class Loops(trio.abc.Instrument):
    """Counts how often trio looks for events."""

    count = 0

    def before_io_wait(self, timeout):
        """It looks."""
        self.count += 1


class World:
    """A loop with a poller, which waits by itself or has trio wait."""

    def __init__(self, nursery, own):
        self.waiting = own
        self.loops = Loops()
        trio.lowlevel.add_instrument(self.loops)
        self.poller = Poller(nursery, own)
        self.echo = Echo(self.poller)

    def talk(self, rounds=ROUNDS):
        """A client in a thread: asks, waits for the answer, asks again; the answers."""
        answers = b""
        self.echo.far.settimeout(10)
        for number in range(rounds):
            self.echo.far.send(bytes([number % 256]))
            answers += self.echo.far.recv(1)
        return answers


def run(scenario, *, own=True, polls=True):
    """Run a scenario in a loop of its own; fails where it takes long."""
    before = epoll_instances()

    async def main():
        waiting = None
        if own:
            [trio_fd] = epoll_instances() - before
            waiting = OwnWait(trio_fd)
            trio.lowlevel.add_instrument(waiting)
        async with trio.open_nursery() as nursery:
            world = World(nursery, waiting)
            if polls:
                nursery.start_soon(world.poller.run)
            with trio.fail_after(10) as limit:
                await scenario(world)
            assert not limit.cancel_called
            nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.fixture(params=[0.0, 50e-6])
def look_s(request, monkeypatch):
    """How long the poller looks before it sleeps."""
    monkeypatch.setattr("kwire.connection.poller.LOOK_S", request.param)


@pytest.mark.usefixtures("look_s")
@pytest.mark.parametrize("own", [True, False])
def test_a_client_has_the_same_answers_either_way(own):
    """And the fast path is one: trio's loop hardly turns."""
    loops = []

    async def scenario(world):
        answers = await trio.to_thread.run_sync(world.talk)
        assert answers == bytes(number % 256 for number in range(ROUNDS))
        loops.append(world.loops.count)

    run(scenario, own=own)
    if own:
        assert loops[0] < ROUNDS // 2


def test_a_time_comes_while_nobody_asks():
    async def scenario(world):
        began = trio.current_time()
        with trio.move_on_after(0.02):
            await trio.sleep_forever()
        assert trio.current_time() - began >= 0.02

    run(scenario)


@pytest.mark.usefixtures("look_s")
def test_a_time_comes_while_a_client_never_stops():
    async def scenario(world):
        ended = threading.Event()

        def talk():
            while not ended.is_set():
                world.talk(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, talk)
            for _ in range(20):
                with trio.move_on_after(0.001):
                    await trio.sleep_forever()
            ended.set()
        assert world.echo.turns

    run(scenario)


def test_a_deadline_that_is_set_in_a_turn_is_kept():
    """As those of requests are that wait."""

    async def scenario(world):
        with trio.CancelScope() as scope:

            class Setting(Peer):
                def on_readable(self):
                    super().on_readable()
                    scope.deadline = trio.current_time() + 0.02

            setting = Setting(world.poller)
            setting.far.send(b"x")
            await trio.sleep_forever()
        assert setting.read == b"x"

    run(scenario)


def test_a_thread_that_is_done_is_heard_of():
    async def scenario(world):
        for number in range(50):
            assert await trio.to_thread.run_sync(lambda n=number: n) == number

    run(scenario)


def test_another_socket_is_heard_of():
    async def scenario(world):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            later = threading.Timer(0.02, theirs.send, [b"x"])
            later.start()
            await trio.lowlevel.wait_readable(ours)
            assert ours.recv(10) == b"x"
            later.join()

    run(scenario)


def test_another_socket_is_heard_of_at_once_while_a_client_never_stops(time_by_looks):
    """Not only when the turn has lasted long enough."""

    async def scenario(world):
        ours, theirs = socket.socketpair()

        class Telling(Talker):
            def on_readable(self):
                super().on_readable()
                if self.turns == 3:
                    theirs.send(b"x")

        with ours, theirs:
            talker = Telling(world.poller)
            talker.far.send(b"x")
            await trio.lowlevel.wait_readable(ours)
            assert 3 <= talker.turns < 10

    run(scenario)


@pytest.mark.parametrize("looks", [False, True])
def test_who_is_woken_by_one_that_was_woken_goes_on(looks):
    """In a later turn, for which nothing has to come."""

    async def scenario(world):
        world.poller.looks = looks
        done = trio.Event()

        class Chained(Waker):
            def go_on(self):
                super().go_on()
                for other in self.woken:
                    self.poller.wake(other)
                if not self.woken:
                    done.set()

        first, *others = chain = [Chained(world.poller) for _ in range(4)]
        for one, following in zip(chain, others, strict=False):
            one.woken = [following]
        first.far.send(b"x")
        await done.wait()
        assert [one.turns for one in chain] == [1] * len(chain)

    run(scenario)


def test_a_signal_is_heard_of():
    async def scenario(world):
        with trio.open_signal_receiver(signal.SIGUSR1) as signals:
            later = threading.Timer(0.02, os.kill, [os.getpid(), signal.SIGUSR1])
            later.start()
            assert await anext(signals) == signal.SIGUSR1
            later.join()

    run(scenario)


@pytest.mark.usefixtures("look_s")
def test_tasks_that_can_run_do():
    """However many run beside the poller, in whatever order; and while a client never stops."""

    async def steps(done):
        for _ in range(300):
            await trio.lowlevel.checkpoint()
        done.append(True)

    async def scenario(world):
        for talks in (False, True):
            done = []
            async with trio.open_nursery() as nursery:
                if talks:
                    nursery.start_soon(trio.to_thread.run_sync, world.talk)
                for _ in range(3):
                    nursery.start_soon(steps, done)
            assert done == [True] * 3

    run(scenario)


def test_a_task_that_a_request_starts_runs():
    async def scenario(world):
        told = trio.Event()

        class Starting(Peer):
            def on_readable(self):
                super().on_readable()
                self.poller.start_task(tell)

        async def tell():
            told.set()

        starting = Starting(world.poller)
        starting.far.send(b"x")
        await told.wait()

    run(scenario)


def test_a_poller_that_is_cancelled_in_its_turn_ends():
    """It doesn't sleep first: only trio can end it."""

    async def scenario(world):
        ended = trio.Event()

        async def poll():
            with scope:
                await poller.run()
            ended.set()

        class Ending(Peer):
            def on_readable(self):
                super().on_readable()
                scope.cancel()

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            poller = Poller(nursery, world.waiting)
            ending = Ending(poller)
            nursery.start_soon(poll)
            ending.far.send(b"x")
            await ended.wait()
            assert ending.is_aborted
            nursery.cancel_scope.cancel()

    run(scenario, polls=False)


def test_it_goes_on_though_trio_drops_its_instrument():
    """As it does when one fails: no task is forgotten, and it is taken in again."""

    async def scenario(world):
        for _ in range(3):
            trio.lowlevel.remove_instrument(world.waiting)
            told = trio.Event()

            class Starting(Peer):
                def on_readable(self):
                    super().on_readable()
                    self.poller.start_task(self.tell)

                async def tell(self, told=told):
                    told.set()

            Starting(world.poller).far.send(b"x")
            await told.wait()
        await trio.to_thread.run_sync(world.talk)
        assert world.loops.count < ROUNDS // 2
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(Loops())
        trio.lowlevel.remove_instrument(world.waiting)  # for it is there

    run(scenario)
