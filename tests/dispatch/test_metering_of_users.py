"""The quota of a user counts for whoever has logged in as this user, and for nobody else.

The clock of the quotas stands still, so that the waits are the same in every run.
"""

import ssl

import pytest
import trio

from kwire.clock import Clock
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.dispatch.test_metering import alter
from tests.support.certificates import Authority
from tests.support.in_process import RawClient, running_server
from tests.support.records import batch
from tests.support.requests import produce_request

VERSION = 9
RATE = 1000.0
WINDOWS = 10
"""A client that was quiet may use the quota of so many seconds at once."""

PLAIN, LOGIN, TLS = 0, 1, 2
CA = Authority()


@pytest.fixture
async def running(tmp_path):
    """A server with one topic and three listeners; alice has a quota."""
    settings = {
        "listeners": ",".join(
            f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL")
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": 'x.P required user_alice="a" user_bob="b";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(CA.sign("server").write_pem(tmp_path / "server.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem,
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=kwire$/$1/",
    }
    async with running_server(tmp_path, settings, clock=Clock(steady_ms=lambda: 0)) as server:
        await server.topic("t")
        await server.hang_up()
        await alter(server, (("user", "alice"),), producer_byte_rate=RATE)
        yield server


async def _stream(running, place):
    return await trio.open_tcp_stream(*running.server.addresses[place])


async def _logged_in(running, user, client_id):
    client = RawClient(await _stream(running, LOGIN), client_id)
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    request = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user[0]}".encode())
    assert not (await client.request(request, 2, SaslAuthenticateResponse)).error_code
    return client


async def _with_certificate(running, user, tmp_path):
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    context.load_cert_chain(CA.sign(user).write_pem(tmp_path / f"{user}.pem"))
    stream = await _stream(running, TLS)
    return RawClient(trio.SSLStream(stream, context, server_hostname="localhost"), "id")


def _request(size_bytes):
    """A Produce of so many bytes on the wire, as quotas count them, with a client id of 2."""

    def made(payload):
        return produce_request("t", batch(bytes(payload)), acks=1)

    overhead = len(bytes(encode_request(made(size_bytes), VERSION, 1, "id"))) - 4 - size_bytes
    return made(size_bytes - overhead)


async def _produce(client, size_bytes):
    """How long the client has to wait afterwards, in ms."""
    answer = await client.request(_request(size_bytes), VERSION, ProduceResponse)
    assert not answer.responses[0].partition_responses[0].error_code
    return answer.throttle_time_ms


async def test_all_connections_of_a_user_share_its_quota(running):
    """Whatever they call themselves; and another user at the same address isn't concerned."""
    half = int(RATE * WINDOWS / 2)
    first = await _logged_in(running, "alice", "a1")
    second = await _logged_in(running, "alice", "a2")
    others = [await _logged_in(running, "bob", name) for name in ("a1", "b2")]
    assert await _produce(first, half) == 0
    assert await _produce(second, half + int(RATE)) == pytest.approx(1000, abs=1)
    assert await _produce(first, int(RATE)) == pytest.approx(2000, abs=1)
    for other in others:
        assert await _produce(other, 4 * half) == 0
    assert len(running.broker.quotas.pauses) == 2
    assert running.broker.counters.throttled == {"produce": 2}


async def test_the_pause_of_a_user_over_tls(running, tmp_path):
    """What it sends meanwhile is read when the pause is over, and others are served meanwhile."""
    alice = await _with_certificate(running, "alice", tmp_path)
    bob = await _with_certificate(running, "bob", tmp_path)
    pause_ms = await _produce(alice, int(RATE * (WINDOWS + 0.3)))
    began_s = trio.current_time()
    assert pause_ms == pytest.approx(300, abs=1)
    await alice.send(_request(200), VERSION)
    with trio.move_on_after(0.05) as read:
        await alice.receive_frame()
    assert read.cancelled_caught
    assert await _produce(bob, int(20 * RATE)) == 0
    assert await alice.receive_frame() is not None
    assert trio.current_time() - began_s >= pause_ms / 1000 - 0.01
