"""A pass that is spent leaves connections for the next one: each of them has its turn at last."""

import socket
from selectors import EVENT_READ, SelectorKey
from types import SimpleNamespace

import pytest

from kwire.budget.order import OLDEST_EVERY
from kwire.budget.work import CREDIT_UNITS, PASS_UNITS, Turns, Work
from kwire.connection.crowd import Crowd
from kwire.connection.poller import Poller
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.connection.peer import Peer, until
from tests.support.in_process import running_server


@pytest.fixture
async def poller(nursery):
    """A poller that runs."""
    made = Poller(nursery)
    nursery.start_soon(made.run)
    yield made
    nursery.cancel_scope.cancel()


class Fresh(Peer):
    """A new connection whose request spends a pass; then the client connects anew."""

    served = 0

    def on_readable(self):
        """Spend the pass."""
        super().on_readable()
        Fresh.served += 1
        self.poller.turns.units_left -= PASS_UNITS
        self.used_units += PASS_UNITS
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
    busy.used_units = 1_000_000
    for _ in range(5):
        ask_anew(poller)
    busy.far.send(b"x")
    await until(lambda: busy.read)
    assert Fresh.served <= 2 * OLDEST_EVERY


async def test_what_was_used_long_ago_counts_little(poller):
    """Or a client of many days would be behind everybody, and a new one before everybody."""
    turns = poller.turns
    old, new = (Work(turns, lambda: False) for _ in range(2))
    old.used_units = 1_000_000
    old.begin_request(10)
    assert turns.rank(old.used_units) - turns.rank(new.used_units) == CREDIT_UNITS


async def test_bytes_that_are_read_count_for_their_connection(tmp_path):
    """Or a client that sends large requests piece by piece would always be first."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await client.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        (connection,) = server.server.poller.connections
        before = connection.used_units
        await client.stream.send_all((1 << 20).to_bytes(4, "big") + bytes(60_000))
        await until(lambda: connection.used_units > before)
        client.stream.socket.shutdown(socket.SHUT_WR)
        assert await client.is_closed()


def ready(*descriptors):
    """Connections that are ready, in the selector's order; none has used anything."""
    unused = SimpleNamespace(used_units=0)
    return [(SelectorKey(fd, fd, EVENT_READ, unused), EVENT_READ) for fd in descriptors]


def test_of_those_that_have_used_as_much_the_longest_wait_ends_first():
    """Whatever the selector's order is now; one that isn't ready any more holds up nobody."""
    crowd, turns = Crowd(), Turns()
    crowd.leave(ready(1, 2, 3, 4), first_fd=2)
    served = crowd.in_order(ready(1, 4, 3), turns)
    assert [key.fd for key, _ in served] == [3, 4, 1]
