"""All that are readable are served, nobody starves, and others have their turn."""

import socket
from contextlib import suppress
from typing import ClassVar

import pytest
import trio
import trio.testing

from kwire.budget.work import PASS_S
from kwire.connection.poller import GATHER_FROM, GATHER_MOST, Poller
from tests.connection.peer import Peer, until


@pytest.fixture
async def poller(nursery, clock):
    """A poller that runs."""
    made = Poller(nursery)
    nursery.start_soon(made.run)
    yield made
    nursery.cancel_scope.cancel()


async def test_each_that_is_readable_is_served(poller):
    peers = [Peer(poller) for _ in range(20)]
    for number, peer in enumerate(peers):
        peer.far.send(bytes([number]))
    await until(lambda: all(peer.read for peer in peers))
    assert [peer.read for peer in peers] == [bytes([number]) for number in range(20)]


class Server(Peer):
    """One that leaves its answers to be gathered, where the poller wants that."""

    served: ClassVar[list[str]] = []

    def on_readable(self):
        """Read one byte, and answer with it."""
        super().on_readable()
        self.served.append("read")
        if self.poller.gathers:
            self.poller.gather(self)
        else:
            self.send_gathered()

    def send_gathered(self):
        """Answer."""
        self.served.append("sent")
        self.near.send(self.read)


@pytest.mark.parametrize(
    ("clients", "order"),
    [
        (GATHER_FROM - 1, ["read", "sent"] * (GATHER_FROM - 1)),
        (GATHER_MOST + 1, ["read"] * GATHER_MOST + ["sent"] * GATHER_MOST + ["read", "sent"]),
    ],
)
async def test_the_answers_of_many_are_sent_in_a_row(poller, clients, order):
    """And with few clients each has its answer before the next is served."""
    Server.served = []
    servers = [Server(poller) for _ in range(clients)]
    for number, server in enumerate(servers):
        server.far.send(bytes([number]))
    await until(lambda: len(Server.served) == 2 * clients)
    assert Server.served == order
    assert [server.far.recv(10) for server in servers] == [bytes([n]) for n in range(clients)]
    assert not poller.gathers


class Teller(Server):
    """One that has something to tell when it has answered."""

    def on_readable(self):
        """Answer, in one way or the other."""
        self.poller.do_afterwards(lambda: self.served.append("told"))
        super().on_readable()


@pytest.mark.parametrize("clients", [1, 3, GATHER_MOST + 1])
async def test_what_can_wait_is_done_when_all_have_their_answers(poller, clients):
    Server.served = []
    tellers = [Teller(poller) for _ in range(clients)]
    for teller in tellers:
        teller.far.send(b"x")
    await until(lambda: len(Server.served) == 3 * clients)
    assert sorted(Server.served[: 2 * clients]) == ["read"] * clients + ["sent"] * clients
    assert Server.served[2 * clients :] == ["told"] * clients


async def test_what_can_wait_is_done_at_once_between_turns(poller):
    done = []
    poller.do_afterwards(lambda: done.append("now"))
    assert done == ["now"]


async def test_what_can_wait_is_done_after_those_who_were_woken(poller):
    class Woken(Peer):
        def go_on(self):
            self.poller.do_afterwards(lambda: order.append("told"))
            order.append("sent")

    order = []
    poller.wake(Woken(poller))
    await until(lambda: len(order) == 2)
    assert order == ["sent", "told"]


async def test_one_with_much_to_do_does_not_hold_up_the_others(poller):
    busy, other = Peer(poller, pieces=1000), Peer(poller)
    busy.far.send(bytes(1000))
    await until(lambda: busy.turns > 10)
    other.far.send(b"x")
    await until(lambda: other.read)
    assert busy.turns < 1000


async def test_tasks_have_their_turn_while_connections_are_busy(poller):
    peers = [Peer(poller, pieces=10**9) for _ in range(3)]
    for peer in peers:
        peer.far.send(bytes(10_000))
    await until(lambda: all(peer.turns for peer in peers))
    await trio.lowlevel.checkpoint()
    assert min(len(peer.read) for peer in peers) < 10_000


class Costly(Peer):
    """Its request takes the time of a pass; ``order`` notes whose request was served."""

    order: ClassVar[list[int]] = []

    def on_readable(self):
        """Read one byte, which takes long."""
        super().on_readable()
        self.order.append(self.read[-1])
        self.poller.turns.clock.pass_time(PASS_S)


async def test_the_connections_that_have_used_least_come_first_when_a_pass_is_over(poller):
    """A client with costly requests on many connections doesn't delay another's for all of them."""
    Costly.order = []
    costly = [Costly(poller) for _ in range(10)]
    for number, peer in enumerate(costly):
        peer.used_s = PASS_S
        peer.far.send(bytes([number]))
    cheap = Costly(poller)
    cheap.far.send(b"\xff")
    await until(lambda: len(Costly.order) == 11)
    assert Costly.order.index(255) <= 1
    assert sorted(Costly.order) == [*range(10), 255]


async def test_who_is_not_watched_is_not_served(poller):
    peer = Peer(poller)
    poller.unwatch(peer)
    peer.far.send(b"x")
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert not peer.read
    poller.watch(peer)
    await until(lambda: peer.read)


async def test_who_sends_is_told_when_the_other_side_has_read_and_reads_nothing_until_then(poller):
    peer = Peer(poller)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += peer.near.send(bytes(4096))
    peer.unsent = b"the rest"
    poller.watch_writing(peer)
    peer.far.send(b"x")
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert (peer.turns, peer.read) == (0, b"")
    while filled:
        filled -= len(peer.far.recv(filled))
    await until(lambda: peer.read)
    assert peer.far.recv(100) == b"the rest"


async def test_counts_by_address_and_the_end_of_all(poller):
    peers = [Peer(poller) for _ in range(2)]
    assert poller.per_address == {"127.0.0.1": 2}
    peers[0].abort_nowait()
    assert poller.per_address == {"127.0.0.1": 1}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(poller.wait_all_gone)
        await trio.testing.wait_all_tasks_blocked()
        peers[1].abort_nowait()
    assert not poller.connections
    assert not poller.per_address


async def test_one_that_cannot_be_watched_is_not_counted(poller, tmp_path):
    """The kernel may refuse it, as it does a file; the poller ends all the same."""
    peer = Peer(poller)
    peer.abort_nowait()
    with (tmp_path / "file").open("w") as refused:
        peer.fileno = refused.fileno
        with pytest.raises(PermissionError):
            poller.add(peer)
    assert not poller.connections
    assert not poller.per_address


async def test_those_that_are_left_are_ended_with_the_poller(nursery):
    async with trio.open_nursery() as inner:
        poller = Poller(inner)
        inner.start_soon(poller.run)
        peer = Peer(poller)
        await trio.testing.wait_all_tasks_blocked()
        inner.cancel_scope.cancel()
    assert peer.is_aborted


class Sleeper(Peer):
    """One whose request takes a while when it is woken."""

    def go_on(self):
        """Work for a quarter of a pass."""
        super().go_on()
        self.poller.turns.clock.pass_time(PASS_S / 4)


class Waker(Peer):
    """One whose request wakes others."""

    woken = ()

    def on_readable(self):
        """Read one byte, and wake them."""
        super().on_readable()
        for other in self.woken:
            self.poller.wake(other)


@pytest.mark.parametrize("in_turn", [False, True])
async def test_many_that_are_woken_do_not_hold_up_the_others(poller, in_turn):
    sleepers, waker = [Sleeper(poller) for _ in range(100)], Waker(poller)
    waker.woken = sleepers
    if in_turn:
        waker.far.send(b"x")
    else:
        for sleeper in sleepers:
            poller.wake(sleeper)
    await until(lambda: sleepers[0].turns)
    assert not sleepers[-1].turns
    await until(lambda: sleepers[-1].turns)
    assert [sleeper.turns for sleeper in sleepers] == [1] * len(sleepers)


async def test_large_fetches_that_are_woken_do_not_delay_a_small_one(poller):
    """However many there are, and though they were woken before it."""
    large, small, seen = [Sleeper(poller) for _ in range(100)], Sleeper(poller), []
    small.go_on = lambda: seen.append(sum(sleeper.turns for sleeper in large))
    for sleeper in large:
        poller.wake(sleeper, 250)
    poller.wake(small, 1)
    await until(lambda: all(sleeper.turns for sleeper in large))
    assert seen == [0]


async def test_one_request_does_not_wait_for_many_pipelines(poller):
    """Each pass serves one pipeline if that uses up the pass; all of them have their turn."""

    class Pipeline(Peer):
        def on_readable(self):
            self.turns += 1
            poller.turns.clock.pass_time(PASS_S)
            poller.serve_again(self)

    pipelines, client = [Pipeline(poller) for _ in range(100)], Peer(poller)
    for pipeline in pipelines:
        poller.serve_again(pipeline)
    client.far.send(b"x")
    await until(lambda: client.turns)
    assert sum(pipeline.turns for pipeline in pipelines) < 50
    await until(lambda: all(pipeline.turns for pipeline in pipelines))


async def test_who_asks_for_another_turn_between_turns_has_it(poller):
    """Though nothing comes that would wake the poller up."""

    class Woken(Peer):
        def go_on(self):
            self.poller.serve_again(self)

    woken = Woken(poller)
    await trio.testing.wait_all_tasks_blocked(0.01)
    poller.wake(woken)
    await until(lambda: woken.turns)


class Talker(Peer):
    """One whose client asks again as soon as it is served, MOST times."""

    MOST = 20_000

    def on_readable(self):
        """Read one byte; there is another one at once."""
        super().on_readable()
        if self.turns < self.MOST:
            self.far.send(b"x")


async def test_a_client_that_never_stops_does_not_keep_tasks_from_what_comes(
    time_by_looks, nursery
):
    """A turn has an end, though nobody could go on yet who waits for a socket or a time."""
    ours, theirs = socket.socketpair()
    seen = []

    class Telling(Talker):
        def on_readable(self):
            super().on_readable()
            if self.turns == 3:
                theirs.send(b"x")

    async def wait():
        await trio.lowlevel.wait_readable(ours)
        seen.append(talker.turns)

    with ours, theirs:
        poller = Poller(nursery)
        talker = Telling(poller)
        nursery.start_soon(wait)
        nursery.start_soon(poller.run)
        await trio.testing.wait_all_tasks_blocked()
        talker.far.send(b"x")
        await until(lambda: seen)
        assert 3 <= seen[0] < Talker.MOST // 10
        nursery.cancel_scope.cancel()


async def test_a_turn_ends_when_a_task_can_go_on(time_by_looks, nursery):
    """However much more there is to serve."""
    event, ends = trio.Event(), set()

    class Waking(Talker):
        def on_readable(self):
            super().on_readable()
            if self.turns == 5:
                event.set()

    class Steps(trio.abc.Instrument):
        def after_task_step(self, task):
            ends.add(talker.turns)

    poller = Poller(nursery)
    talker = Waking(poller)
    nursery.start_soon(event.wait)
    nursery.start_soon(poller.run)
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(Steps())
    talker.far.send(b"x")
    await until(event.is_set)
    assert 5 in ends
    nursery.cancel_scope.cancel()


async def test_nobody_looks_for_a_message_of_another_broker(time_by_looks, nursery):
    """The turn ends at once: that broker may need this processor to send it."""
    ends = []

    class Following(Talker):
        def on_readable(self):
            super().on_readable()
            poller.expects_nothing = True

    class Steps(trio.abc.Instrument):
        def after_task_step(self, task):
            ends.append(talker.turns)

    poller = Poller(nursery)
    talker = Following(poller)
    nursery.start_soon(poller.run)
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(Steps())
    talker.far.send(b"x")
    await until(lambda: talker.turns > 3)
    assert {1, 2, 3} <= set(ends)
    nursery.cancel_scope.cancel()
