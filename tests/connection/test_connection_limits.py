"""How many connections there may be: of the broker, a listener, an address (KIP-402)."""

import socket

import pytest
import trio

from kwire.connection.connection_limits import LOOK_S
from kwire.metadata.config_control import Alteration, Operation, alter_configs
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.metadata import MetadataRequest
from tests.connection.peer import until
from tests.support.in_process import RawClient, running_server

BROKER = ConfigResourceType.BROKER


async def set_config(broker, resource, name, value):
    """Set a dynamic config of a broker, or of all with the name ""; None deletes it."""
    operation = Operation.DELETE if value is None else Operation.SET
    change = [Alteration(name, operation, value)]
    key = BROKER, resource
    await broker.commit(lambda image: alter_configs(image, key, change, broker.settings))


TWO = "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0"
LISTENERS = {
    "listeners": TWO,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
}


async def _connect(server, place=0, host="127.0.0.1"):
    sock = socket.socket()
    sock.bind((host, 0))
    await trio.to_thread.run_sync(sock.connect, server.server.addresses[place])
    sock.setblocking(False)
    return RawClient(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))


async def _is_served(raw):
    """Whether a connection gets an answer; False if it is closed."""
    try:
        await raw.send(MetadataRequest(), 4)
        return await raw.receive_frame() is not None
    except trio.BrokenResourceError:
        return False


async def test_a_listener_has_a_limit_of_its_own(tmp_path, caplog, mock_clock):
    """Others aren't concerned, and who leaves makes room."""
    name = "listener.name.plaintext.max.connections"
    async with running_server(tmp_path, {**LISTENERS, name: "2"}) as server:
        first, second = [await _connect(server) for _ in range(2)]
        assert await _is_served(first)
        assert await _is_served(second)
        assert not await _is_served(await _connect(server))
        assert f"{name} is reached" in caplog.text
        other = await _connect(server, 1)
        assert await _is_served(other)
        await first.aclose()
        await until(lambda: len(server.server.poller.connections) == 2)
        mock_clock.jump(LOOK_S)
        assert await _is_served(await _connect(server))


@pytest.mark.parametrize("resource", ["1", ""])
async def test_a_limit_of_a_listener_that_is_set_while_connections_are_there(
    tmp_path, mock_clock, resource
):
    """By a dynamic config, of this broker or of all: those that are here count; others may stay."""
    name = "listener.name.plaintext.max.connections"
    async with running_server(tmp_path, {**LISTENERS, "max.connections": "100"}) as server:
        held = [await _connect(server) for _ in range(3)]
        assert all([await _is_served(one) for one in held])
        await set_config(server.broker, resource, name, "4")
        held.append(await _connect(server))
        assert await _is_served(held[-1])
        assert not await _is_served(await _connect(server))
        assert await _is_served(await _connect(server, 1))
        await set_config(server.broker, resource, name, "5")
        assert await _is_served(await _connect(server))
        await set_config(server.broker, resource, name, None)
        mock_clock.jump(LOOK_S)
        held += [await _connect(server) for _ in range(3)]
        assert all([await _is_served(one) for one in held])


async def test_some_addresses_have_other_limits(tmp_path):
    """More, fewer, none at all; names of hosts count for nobody."""
    settings = {
        "max.connections.per.ip": "1",
        "max.connections.per.ip.overrides": "127.0.0.2:2,127.0.0.3:0,localhost:9",
    }
    async with running_server(tmp_path, settings) as server:
        held = []
        for host, count in (("127.0.0.1", 1), ("127.0.0.2", 2), ("127.0.0.3", 0)):
            for number in range(count + 1):
                held.append(await _connect(server, host=host))
                assert await _is_served(held[-1]) is (number < count), (host, number)


async def test_there_is_always_room_for_brokers(tmp_path, mock_clock):
    """Who was silent for the longest on another listener makes it."""
    settings = {**LISTENERS, "inter.broker.listener.name": "INTERNAL", "max.connections": "2"}
    async with running_server(tmp_path, settings) as server:
        silent, busy = [await _connect(server) for _ in range(2)]
        assert await _is_served(silent)
        await until(lambda: len(server.server.poller.connections) == 2)
        mock_clock.jump(1)
        assert await _is_served(busy)
        assert not await _is_served(await _connect(server))
        broker = await _connect(server, 1)
        assert await _is_served(broker)
        assert not await _is_served(silent)
        assert await _is_served(busy)


async def test_no_broker_makes_room_for_another(tmp_path, mock_clock):
    """However long it was silent: a client goes."""
    settings = {**LISTENERS, "inter.broker.listener.name": "INTERNAL", "max.connections": "2"}
    async with running_server(tmp_path, settings) as server:
        silent = await _connect(server, 1)
        assert await _is_served(silent)
        mock_clock.jump(1)
        client = await _connect(server)
        assert await _is_served(client)
        mock_clock.jump(1)
        assert await _is_served(await _connect(server, 1))
        assert not await _is_served(client)
        assert await _is_served(silent)


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
async def test_the_limits_of_the_broker(tmp_path, caplog, name):
    """One line says which."""
    async with running_server(tmp_path, {name: "1"}) as server:
        first = await _connect(server)
        assert await _is_served(first)
        assert not await _is_served(await _connect(server))
        assert f"refusing a connection from 127.0.0.1: {name} is reached" in caplog.text
