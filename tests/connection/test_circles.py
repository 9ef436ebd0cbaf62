"""A connection that ends leaves nothing for the collector of cyclic garbage.

The broker seldom looks for circles among old objects (``kwire.cli.gc_tuning``), because all clients
wait meanwhile. So a client must not be able to fill the memory with them.
"""

import gc
import ssl
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.protocol.frame import encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kwire.testing.waiting import until
from tests.support.asking import error_of
from tests.support.certificates import Authority
from tests.support.frames import FRAMES_STAY
from tests.support.in_process import RunningServer, running_server
from tests.support.requests import fetch_request

MADE = 10
"""So many connections come and go."""

FEW_ELEMENTS = {"kwire.request.max.elements": "5000"}


async def ends_at_once(running: RunningServer) -> None:
    client = await running.connect()
    await client.aclose()


async def ends_within_a_frame(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(running.host, running.port)
    await stream.send_all(struct.pack(">ihh", 50_000_000, 3, 12) + bytes(500_000))
    await stream.aclose()


async def sends_nonsense(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(running.host, running.port)
    await stream.send_all(b"\xff" * 1000)
    await stream.receive_some(1)
    await stream.aclose()


async def ends_before_its_answer(running: RunningServer) -> None:
    client = await running.connect()
    await client.send(DescribeGroupsRequest(groups=[f"{n:x}" for n in range(3000)]), 5)
    await client.aclose()


async def ends_after_its_answer(running: RunningServer) -> None:
    client = await running.connect()
    await client.request(DescribeGroupsRequest(groups=["one"]), 5, DescribeGroupsResponse)
    await client.aclose()


async def sends_a_large_frame_of_nonsense(running: RunningServer) -> None:
    body = struct.pack(">hhih", 15, 5, 1, -1) + b"\0\xff\xff\x7f" + b"\x05abcd" * 40_000
    stream = await trio.open_tcp_stream(running.host, running.port)
    await stream.send_all(struct.pack(">i", len(body)) + body)
    await stream.receive_some(1)
    await stream.aclose()


async def sends_too_many_elements(running: RunningServer) -> None:
    """Such a frame may have 100 MB."""
    client = await running.connect()
    setting = running.broker.integer("kwire.request.max.elements")
    await client.send(DescribeGroupsRequest(groups=["g"] * (setting + 1)), 5)
    assert await client.is_closed()
    await client.aclose()


async def asks_for_a_wrong_expression(running: RunningServer) -> None:
    """The error comes from a thread."""
    client = await running.connect()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[],
        subscribed_topic_regex="(",
        topic_partitions=[],
    )
    answer = await client.request(request, 1, ConsumerGroupHeartbeatResponse)
    assert answer.error_message
    await client.aclose()


async def unregisters_an_unknown_broker(running: RunningServer) -> None:
    """The error of a decision that a thread makes."""
    client = await running.connect()
    request = UnregisterBrokerRequest(broker_id=77)
    assert (await client.request(request, 0, UnregisterBrokerResponse)).error_code
    await client.aclose()


async def creates_a_topic_twice(running: RunningServer) -> None:
    client = await running.connect()
    for _ in range(2):
        await error_of(client.topic("again"))
    await client.aclose()


async def ends_while_it_waits_for_records(running: RunningServer) -> None:
    client = await running.connect()
    await error_of(client.topic("again"))
    await client.send(fetch_request("again", max_wait_ms=100), 11)
    await trio.testing.wait_all_tasks_blocked()
    await client.aclose()


async def produces_what_is_refused(running: RunningServer) -> None:
    client = await running.connect()
    for name in ("again", "unknown"):
        assert await error_of(client.produce_batch(name, bytes(100)))
    await client.aclose()


async def ends_while_it_joins(running: RunningServer) -> None:
    client = await running.connect()
    request = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x")],
    )
    request.member_id = (await client.request(request, 9, JoinGroupResponse)).member_id
    await client.send(request, 9)
    await trio.testing.wait_all_tasks_blocked()
    await client.aclose()


WAYS = [
    ends_at_once,
    ends_within_a_frame,
    sends_nonsense,
    sends_a_large_frame_of_nonsense,
    pytest.param(sends_too_many_elements, marks=FRAMES_STAY),
    ends_before_its_answer,
    ends_after_its_answer,
    pytest.param(asks_for_a_wrong_expression, marks=FRAMES_STAY),
    unregisters_an_unknown_broker,
    creates_a_topic_twice,
    ends_while_it_waits_for_records,
    produces_what_is_refused,
    ends_while_it_joins,
]


def secured(tmp_path: Path) -> dict[str, str]:
    """A listener with TLS, and one with logins."""
    authority = Authority()
    path = authority.sign("server").write_pem(tmp_path / "server.pem")
    return {
        "listeners": "LOGIN://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,SSL:SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": 'x.PlainLoginModule required user_a="b";',
        "connection.failed.authentication.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
    }


async def logs_in(running: RunningServer, password: bytes) -> None:
    client = await running.connect()
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    await client.send(SaslAuthenticateRequest(auth_bytes=b"\0a\0" + password), 2)
    assert await client.receive_frame()
    await client.aclose()


async def logs_in_and_ends(running: RunningServer) -> None:
    await logs_in(running, b"b")


async def has_a_wrong_password(running: RunningServer) -> None:
    await logs_in(running, b"c")


async def ends_before_its_login(running: RunningServer) -> None:
    client = await running.connect()
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    await client.aclose()


async def speaks_no_tls(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(*running.server.addresses[1])
    await stream.send_all(bytes(encode_request(ApiVersionsRequest(), 0, 1, None)))
    await stream.receive_some(100)
    await stream.aclose()


async def ends_within_its_handshake(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(*running.server.addresses[1])
    await stream.send_all(b"\x16\x03\x01")
    await trio.testing.wait_all_tasks_blocked()
    await stream.aclose()


async def ends_after_its_handshake(running: RunningServer) -> None:
    """With a request; the client's side is made by hand, so that it leaves no circles itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(received, to_send)
    stream = await trio.open_tcp_stream(*running.server.addresses[1])
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            await stream.send_all(to_send.read())
            received.write(await stream.receive_some(10_000))
    tls.write(bytes(encode_request(ApiVersionsRequest(), 0, 1, None)))
    await stream.send_all(to_send.read())
    assert await stream.receive_some(10_000)
    await stream.aclose()


SECURED_WAYS = [
    logs_in_and_ends,
    has_a_wrong_password,
    ends_before_its_login,
    speaks_no_tls,
    ends_within_its_handshake,
    ends_after_its_handshake,
]


@pytest.fixture(scope="module", autouse=True)
def what_is_there_is_not_looked_at() -> None:
    """Earlier tests of the process leave much that every collection here would look at."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("connect", WAYS + SECURED_WAYS)
async def test_a_connection_leaves_no_circles(
    tmp_path: Path, connect: Callable[[RunningServer], Awaitable[None]]
) -> None:
    settings = secured(tmp_path) if connect in SECURED_WAYS else FEW_ELEMENTS
    async with running_server(tmp_path / "data", settings) as running:

        async def come_and_go(times: int) -> None:
            for _ in range(times):
                await connect(running)
            await trio.testing.wait_all_tasks_blocked(0.01)  # all have been accepted
            poller = running.server.poller
            await until(lambda: not poller.connections and not poller.unauthenticated)
            await trio.testing.wait_all_tasks_blocked(0.01)

        await come_and_go(2)  # what is imported or made once
        gc.collect()
        gc.disable()
        try:
            await come_and_go(MADE)
            found = gc.collect()
        finally:
            gc.enable()
    assert found < MADE
