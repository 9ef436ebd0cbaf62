"""A pass that is over leaves connections for the next one: each of them has its turn at last."""

import socket
from itertools import islice
from selectors import EVENT_READ, SelectorKey
from types import SimpleNamespace

import pytest

from kwire.budget.fair_queue import OLDEST_EVERY
from kwire.budget.work import CREDIT_S, PASS_S, Turns, Work
from kwire.connection.poller import Poller
from kwire.connection.ready_queue import ReadyQueue
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.connection.peer import Peer, until
from tests.support.clock import step_clock
from tests.support.in_process import running_server


@pytest.fixture
async def poller(nursery, clock):
    """A poller that runs."""
    made = Poller(nursery)
    nursery.start_soon(made.run)
    yield made
    nursery.cancel_scope.cancel()


class Fresh(Peer):
    """A new connection whose request takes a pass; then the client connects anew."""

    served = 0

    def on_readable(self):
        """Take the time of the pass."""
        super().on_readable()
        Fresh.served += 1
        self.poller.turns.clock.pass_time(PASS_S)
        self.abort_nowait()
        if Fresh.served < 1000:
            ask_anew(self.poller)


def ask_anew(poller):
    """A new connection with a request."""
    Fresh(poller).far.send(b"x")


async def test_a_busy_client_has_its_turn_while_others_connect_all_the_time(poller):
    """Its connection has used more than any new one, and some new connection is always ready."""
    Fresh.served = 0
    busy = Peer(poller)
    busy.used_s = 1000.0
    for _ in range(5):
        ask_anew(poller)
    busy.far.send(b"x")
    await until(lambda: busy.read)
    assert Fresh.served <= 2 * OLDEST_EVERY


async def test_what_was_used_long_ago_counts_little(poller):
    """Or a client of many days would be behind everybody, and a new one before everybody."""
    turns = poller.turns
    old, new = (Work(turns, lambda: False) for _ in range(2))
    old.used_s = 1000.0
    await old.next_slice()
    assert turns.rank(old.used_s) - turns.rank(new.used_s) == pytest.approx(CREDIT_S)


async def test_bytes_that_are_read_count_for_their_connection(tmp_path, monkeypatch):
    """Or a client that sends large requests piece by piece would always be first."""
    step_clock(monkeypatch, "kwire.budget.work", 1e-6)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await client.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        (connection,) = server.server.poller.connections
        before = connection.used_s
        await client.stream.send_all((1 << 20).to_bytes(4, "big") + bytes(60_000))
        await until(lambda: connection.used_s > before)
        client.stream.socket.shutdown(socket.SHUT_WR)
        assert await client.is_closed()


async def test_the_last_turn_of_a_connection_counts_for_the_next_one(tmp_path, monkeypatch):
    """Or a client that sends something malformed on each new connection would pay for none."""
    step_clock(monkeypatch, "kwire.budget.work", 1e-6)
    async with running_server(tmp_path) as server:
        bad = await server.connect()
        await bad.stream.send_all((8).to_bytes(4, "big") + b"\x7f\xff" + bytes(6))
        assert await bad.is_closed()
        connections = server.server.poller.connections
        await until(lambda: not connections)
        await server.connect()
        await until(lambda: connections)
        [connection] = connections
        assert connection.used_s > 0


def ready(*descriptors, used_s=0.0):
    """Connections that are ready, in the selector's order; each has used so much."""
    peer = SimpleNamespace(used_s=used_s)
    return [(SelectorKey(fd, fd, EVENT_READ, peer), EVENT_READ) for fd in descriptors]


def descriptors(events):
    """Of the connections that a pass serves."""
    return [key.fd for key, _ in events]


def test_of_those_that_have_used_as_much_the_longest_wait_ends_first():
    """Whatever the selector's order is later."""
    queue, turns = ReadyQueue(), Turns()
    queue.join(ready(2, 3, 4), turns)
    queue.join(ready(1, 4, 3, 2), turns)
    assert descriptors(queue.take()) == [2, 3, 4, 1]
    assert not queue


def test_what_a_pass_leaves_goes_on_waiting():
    """And those that have used less are served before it."""
    queue, turns = ReadyQueue(), Turns()
    queue.join(ready(1, 2, 3, used_s=5.0), turns)
    assert descriptors(islice(queue.take(), 1)) == [1]
    queue.join(ready(1, 2, 3, used_s=5.0) + ready(4, used_s=1.0), turns)
    assert descriptors(queue.take()) == [4, 2, 3, 1]


def test_who_is_not_watched_any_more_is_not_served():
    """A new connection may have its descriptor, and is served once, in its own place."""
    queue, turns = ReadyQueue(), Turns()
    queue.join(ready(1, 2, 3), turns)
    queue.leave(1)
    queue.leave(2)
    queue.join(ready(1), turns)
    assert descriptors(queue.take()) == [3, 1]


def test_some_passes_begin_with_the_longest_wait():
    """Others with less use would have been first."""
    queue, turns = ReadyQueue(), Turns()
    queue.join(ready(1, used_s=9.0), turns)
    for new in range(OLDEST_EVERY - 1):
        queue.join(ready(new + 2, used_s=1.0), turns)
        assert descriptors(islice(queue.take(), 1)) == [new + 2]
    queue.join(ready(100, used_s=1.0), turns)
    assert descriptors(queue.take()) == [1, 100]
