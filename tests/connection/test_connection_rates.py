"""Clients connect as fast as they may, and one address doesn't keep the others out (KIP-612)."""

import socket

import pytest
import trio

from kwire.clock import Clock
from kwire.connection import connection_rates
from kwire.connection.admission import ListenerLimits
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.waiting import until
from tests.connection.test_connection_limits import set_config
from tests.dispatch.test_metering import alter
from tests.support.in_process import RawClient, running_server

RATE = 5
AT_ONCE = 10 * RATE
"""At a rate of so many connections a second, ten windows allow so many in one moment."""

STANDING = Clock(steady_ms=lambda: 0)


async def _is_served(raw: RawClient) -> bool:
    """Whether a connection gets an answer; False if it is closed."""
    await raw.send(MetadataRequest(), 4)
    return await raw.receive_frame() is not None


@pytest.mark.parametrize(
    "setting",
    ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"],
)
async def test_a_listener_that_accepts_too_fast_accepts_none_for_a_while(tmp_path, setting):
    """The clients wait and are served in the end."""
    async with running_server(tmp_path, {setting: str(RATE)}, clock=STANDING) as server:
        began_s = trio.current_time()
        clients = [await server.connect() for _ in range(AT_ONCE + 2)]
        for client in clients[: AT_ONCE + 1]:
            assert await _is_served(client)
        assert await _is_served(clients[-1])
        assert trio.current_time() - began_s >= 0.99 / RATE
        assert server.broker.counters.throttled == {"connection": 2}


@pytest.mark.parametrize("resource", ["1", ""])
async def test_a_rate_of_a_listener_that_is_set_while_it_is_used(tmp_path, resource):
    """By a dynamic config, of this broker or of all; without it all connect as before."""
    name = "listener.name.plaintext.max.connection.creation.rate"
    async with running_server(tmp_path, clock=STANDING) as server:
        await set_config(server.broker, resource, name, str(RATE))
        clients = [await server.connect() for _ in range(AT_ONCE + 1)]
        assert await _is_served(clients[-1])
        assert server.broker.counters.throttled == {"connection": 1}
        await set_config(server.broker, resource, name, None)
        clients = [await server.connect() for _ in range(AT_ONCE + 1)]
        assert await _is_served(clients[-1])
        assert server.broker.counters.throttled == {"connection": 1}


async def _connect_from(address: str, server) -> RawClient:
    sock = socket.socket()
    sock.bind((address, 0))
    await trio.to_thread.run_sync(sock.connect, (server.host, server.port))
    sock.setblocking(False)
    return RawClient(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))


async def test_a_new_address_does_not_make_the_broker_forget_another(tmp_path):
    """Otherwise two addresses that take turns would have no limit."""
    async with running_server(tmp_path, clock=STANDING) as server:
        first = await server.connect()
        for address in ("127.0.0.2", "127.0.0.3"):
            await alter(server, (("ip", address),), connection_creation_rate=1.0)
        served = {"127.0.0.2": 0, "127.0.0.3": 0}
        for _ in range(11):
            for address in served:
                served[address] += await _is_served(await _connect_from(address, server))
        assert served == dict.fromkeys(served, 10)
        await first.aclose()


async def test_an_address_that_connects_too_often_is_closed_and_others_are_served(tmp_path):
    async with running_server(tmp_path, clock=STANDING) as server:
        first = await server.connect()
        await alter(server, (("ip", "127.0.0.1"),), connection_creation_rate=float(RATE))
        assert server.broker.quotas is None  # requests cost what they cost without quotas
        for _ in range(AT_ONCE):
            assert await _is_served(await server.connect())
        refused = await server.connect()
        assert not await _is_served(refused)
        assert await _is_served(await _connect_from("127.0.0.2", server))
        await first.request(MetadataRequest(), 4, MetadataResponse)


async def test_a_stop_waits_for_no_connection_that_is_to_be_closed(tmp_path, monkeypatch):
    """And no more of them are held than ``MOST_HELD``."""
    monkeypatch.setattr(connection_rates, "MOST_HELD", 1)
    held, beyond = socket.socket(), socket.socket()
    with trio.fail_after(5):
        async with running_server(tmp_path) as server:
            own = ListenerLimits(server.broker).of
            rates = connection_rates.ConnectionRates(server.broker, server.server.poller, own)
            rates.hold(held, 3_600_000)
            rates.hold(beyond, 3_600_000)
            assert beyond.fileno() < 0
            assert held.fileno() >= 0
    assert held.fileno() < 0


async def test_who_is_to_be_closed_first_is_closed_first(tmp_path):
    """Others may have much longer to wait."""
    sockets = [socket.socket() for _ in range(3)]
    with trio.fail_after(5):
        async with running_server(tmp_path) as server:
            own = ListenerLimits(server.broker).of
            rates = connection_rates.ConnectionRates(server.broker, server.server.poller, own)
            for sock, wait_ms in zip(sockets, (1, 3_600_000, 2), strict=True):
                rates.hold(sock, wait_ms)
            await until(lambda: sockets[0].fileno() < 0 and sockets[2].fileno() < 0)
            assert sockets[1].fileno() >= 0
