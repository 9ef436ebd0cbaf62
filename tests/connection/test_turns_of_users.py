"""What a user's connections have cost counts for the user, whatever addresses it comes from."""

import socket

import pytest
import trio

from kwire.budget.work import CREDIT_S
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.testing.waiting import until
from tests.support.in_process import RawClient, running_server

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'x.P required user_alice="a" user_bob="b";',
}
USED = 50 * CREDIT_S


@pytest.fixture
async def running(tmp_path, clock):
    """A server whose clients log in, and whose work takes no time."""
    async with running_server(tmp_path, SETTINGS) as server:
        yield server


async def _from(running, host):
    """A connection from this address, before its login, and the server's side of it."""
    sock = socket.socket()
    sock.bind((host, 0))
    await trio.to_thread.run_sync(sock.connect, (running.host, running.port))
    sock.setblocking(False)
    client = RawClient(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    port = sock.getsockname()[1]
    [here] = [one for one in running.server.poller.connections if one.info.peer_port == port]
    return client, here


async def _login(client, user):
    request = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user[0]}".encode())
    assert not (await client.request(request, 2, SaslAuthenticateResponse)).error_code


async def _user(running, user, host):
    client, here = await _from(running, host)
    await _login(client, user)
    return client, here


async def _leaves(running, client, here):
    await client.aclose()
    await until(lambda: here not in running.server.poller.connections)


async def test_a_user_that_comes_again_from_elsewhere_goes_on_where_it_was(running):
    """Another user isn't behind because of it, not even at the same address."""
    client, here = await _user(running, "alice", "127.0.0.2")
    here._work.used_s += USED
    await _leaves(running, client, here)
    _, alice = await _user(running, "alice", "127.0.0.3")
    _, bob = await _user(running, "bob", "127.0.0.2")
    assert alice.used_s >= USED
    assert bob.used_s < CREDIT_S


async def test_who_does_not_log_in_counts_by_its_address(running):
    """What it has cost isn't put on the user who logs in from there later."""
    client, here = await _from(running, "127.0.0.2")
    here._work.used_s += USED
    await _leaves(running, client, here)
    client, here = await _from(running, "127.0.0.2")
    assert here.used_s >= USED
    await _login(client, "bob")
    await until(lambda: here.used_s < CREDIT_S)


async def test_a_user_does_not_leave_its_costs_behind_by_logging_in_again(running):
    """What a connection used before its login is the user's."""
    client, here = await _from(running, "127.0.0.2")
    here._work.used_s += USED
    await _login(client, "alice")
    assert here.used_s >= USED
    await _leaves(running, client, here)
    _, again = await _user(running, "alice", "127.0.0.4")
    assert again.used_s >= USED
