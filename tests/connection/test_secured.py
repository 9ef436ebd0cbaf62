"""Connections of a listener with a login: what is served before, failures, sessions that end."""

import logging
from contextlib import suppress

import pytest
import trio
import trio.testing

from kwire.connection import unauthenticated_connections
from kwire.errors import ErrorCode
from kwire.metadata.features import CHANGES_VERSION, FeatureUpdate, UpgradeType, update_features
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.security.principal import Principal
from tests.broker.leading import lead
from tests.connection.peer import until
from tests.connection.test_pipeline import everything_follows, number, produce
from tests.support.committed_topics import commit_topic
from tests.support.in_process import running_server

SETTINGS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.login.plain.sasl.jaas.config": 'x.PlainLoginModule required user_alice="hush";',
    "connection.failed.authentication.delay.ms": "200",
}


@pytest.fixture
async def running(tmp_path):
    """A server whose only listener asks for a login."""
    async with running_server(tmp_path, SETTINGS) as server:
        yield server


async def _handshake(client, mechanism="PLAIN"):
    return await client.request(SaslHandshakeRequest(mechanism=mechanism), 1, SaslHandshakeResponse)


async def _authenticate(client, message):
    request = SaslAuthenticateRequest(auth_bytes=message)
    return await client.request(request, 2, SaslAuthenticateResponse)


async def _logged_in(server):
    client = await server.connect()
    await _handshake(client)
    assert (await _authenticate(client, b"\0alice\0hush")).error_code == 0
    return client


async def test_a_login_opens_the_connection(running):
    """ApiVersions comes before it, and the handlers know who the client is."""
    client = await running.connect()
    await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert (await _handshake(client)).mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    answer = await _authenticate(client, b"\0alice\0hush")
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
    await client.request(MetadataRequest(), 1, MetadataResponse)
    [connection] = running.server.poller.connections
    assert connection.info.principal == Principal("User", "alice")
    assert len(running.server.poller.unauthenticated) == 0
    await client.aclose()


async def test_who_has_not_logged_in_is_not_told_which_broker_it_asks(running):
    """As in Kafka: the cluster's id and the node's are compared after the login."""
    client = await running.connect()
    wrong = ApiVersionsRequest(
        client_software_name="c", client_software_version="1", cluster_id="another", node_id=1
    )
    assert not (await client.request(wrong, 5, ApiVersionsResponse)).error_code
    wrong.cluster_id = None
    told = await client.request(wrong, 5, ApiVersionsResponse)
    assert told.error_code == ErrorCode.INVALID_REQUEST
    await _handshake(client)
    await _authenticate(client, b"\0alice\0hush")
    wrong.cluster_id = "another"
    told = await client.request(wrong, 5, ApiVersionsResponse)
    assert told.error_code == ErrorCode.REBOOTSTRAP_REQUIRED
    await client.aclose()


async def test_nothing_else_is_served_before_it(running, caplog):
    """The connection ends, also in the middle of a login."""
    with caplog.at_level(logging.INFO):
        for begins in (False, True):
            client = await running.connect()
            if begins:
                await _handshake(client)
            await client.send(MetadataRequest(), 1)
            assert await client.is_closed()
    assert "API key 3 before a login" in caplog.text
    assert "API key 3 in the middle of a login" in caplog.text


async def test_a_failure_is_answered_late_and_ends_the_connection(running, caplog, mock_clock):
    """An unknown name and a wrong password have one answer; the log has no password."""
    answers = []
    with caplog.at_level(logging.INFO):
        for message in (b"\0alice\0guess", b"\0eve\0guess"):
            client = await running.connect()
            await _handshake(client)
            await client.send(SaslAuthenticateRequest(auth_bytes=message), 2)
            await until(lambda: len(running.server.poller.deadlines) > 0)
            mock_clock.jump(0.19)
            await trio.testing.wait_all_tasks_blocked()
            assert len(running.server.poller.deadlines) > 0
            mock_clock.jump(0.02)
            answers.append(await client.receive_frame())
            assert await client.is_closed()
    assert answers[0] == answers[1]
    assert b"Invalid username or password" in answers[0]
    assert "authentication failed: wrong name or password for user 'eve'" in caplog.text
    assert "guess" not in caplog.text


async def test_a_mechanism_that_is_not_enabled(running):
    """The client is told which are, and the connection ends."""
    client = await running.connect()
    answer = await _handshake(client, "GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert await client.is_closed()


async def test_a_large_frame_before_a_login_is_refused(running, caplog):
    """At its size, before its bytes come; afterwards requests may be larger."""
    with caplog.at_level(logging.INFO):
        client = await running.connect()
        await client.stream.send_all((524_289).to_bytes(4, "big"))
        assert await client.is_closed()
    assert "sasl.server.max.receive.size" in caplog.text
    client = await _logged_in(running)
    groups = [f"{number:030000}" for number in range(18)]
    found = await client.request(DescribeGroupsRequest(groups=groups), 5, DescribeGroupsResponse)
    assert [group.group_id for group in found.groups] == groups
    await client.aclose()


async def test_a_session_that_has_ended_serves_logins_only(tmp_path, mock_clock):
    """The client logs in again in time, or is disconnected at its next request (KIP-368)."""
    settings = {**SETTINGS, "connections.max.reauth.ms": "5000"}
    async with running_server(tmp_path, settings) as running:
        client = await running.connect()
        await _handshake(client)
        assert (await _authenticate(client, b"\0alice\0hush")).session_lifetime_ms == 5000
        mock_clock.jump(4)
        await _handshake(client)
        assert (await _authenticate(client, b"\0alice\0hush")).session_lifetime_ms == 5000
        mock_clock.jump(4)
        await client.request(MetadataRequest(), 1, MetadataResponse)
        mock_clock.jump(1.5)
        await client.send(MetadataRequest(), 1)
        assert await client.is_closed()


async def test_a_session_that_ends_while_a_request_waits_for_replicas(tmp_path, mock_clock):
    """The request is answered; the one behind it isn't served, and ends the connection."""
    settings = {**SETTINGS, "connections.max.reauth.ms": "5000"}
    async with running_server(tmp_path, settings) as running:
        broker = running.broker
        await commit_topic(broker, "t")
        leader = lead(broker, "t")
        client = await running.connect()
        await _handshake(client)
        await _authenticate(client, b"\0alice\0hush")
        await client.stream.send_all(produce(7))
        await until(lambda: len(leader.acks) == 1)
        mock_clock.jump(5.5)
        await client.stream.send_all(produce(8))
        await trio.testing.wait_all_tasks_blocked()
        assert leader.log.log_end_offset == 1
        everything_follows(leader)
        assert await number(client) == 7
        assert await client.is_closed()
        assert leader.log.log_end_offset == 1


async def test_who_does_not_log_in_is_disconnected(running, mock_clock):
    """However slowly it sends, and however long the broker has run; who has logged in stays."""
    mock_clock.jump(600)
    slow, good = await running.connect(), await _logged_in(running)
    await until(lambda: len(running.server.poller.unauthenticated) == 1)
    for byte in b"\0\0\1" + bytes(17):
        await slow.stream.send_all(bytes([byte]))
        mock_clock.jump(0.7)
        running.server.poller.unauthenticated.end_overdue(trio.current_time())
    assert len(running.server.poller.unauthenticated) == 1
    mock_clock.jump(1.1)
    running.server.poller.unauthenticated.end_overdue(trio.current_time())
    assert await slow.is_closed()
    await good.request(MetadataRequest(), 1, MetadataResponse)
    await good.aclose()


async def test_many_that_do_not_log_in(running, monkeypatch):
    """The oldest of them makes room; nobody else is kept out."""
    monkeypatch.setattr(running.server.poller.unauthenticated, "most", 2)
    first = await running.connect()
    await first.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    others = [await running.connect() for _ in range(2)]
    for client in others:
        await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert await first.is_closed()
    for client in others:
        await client.aclose()
    await until(lambda: not running.server.poller.unauthenticated)
    assert unauthenticated_connections.MOST >= 1000


async def test_credentials_for_scram(running):
    """Set and described, each user with its own result; without secrets, and by level."""
    client = await _logged_in(running)
    upsertion = ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"hash"
    )
    bad = ScramCredentialUpsertion(name="carol", mechanism=1, iterations=1)
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion, bad])
    done = await client.request(request, 0, AlterUserScramCredentialsResponse)
    assert {r.user: (r.error_code, r.error_message) for r in done.results} == {
        "bob": (0, None),
        "carol": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
    }
    users = [UserName(name=name) for name in ("bob", "carol", "dave", "dave")]
    request = DescribeUserScramCredentialsRequest(users=users)
    found = await client.request(request, 0, DescribeUserScramCredentialsResponse)
    assert {result.user: result.error_code for result in found.results} == {
        "bob": 0,
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
        "dave": ErrorCode.DUPLICATE_RESOURCE,
    }
    everyone = DescribeUserScramCredentialsRequest(users=None)
    found = await client.request(everyone, 0, DescribeUserScramCredentialsResponse)
    assert [(r.user, r.credential_infos[0].iterations) for r in found.results] == [("bob", 4096)]
    await client.aclose()


async def test_credentials_need_the_level_of_the_cluster(running):
    """While a broker may be there that doesn't know them."""
    lower = FeatureUpdate(CHANGES_VERSION, 1, UpgradeType.UNSAFE_DOWNGRADE)
    await running.broker.commit(lambda image: update_features(image, [lower]))
    client = await _logged_in(running)
    upsertion = ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"hash"
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    done = await client.request(request, 0, AlterUserScramCredentialsResponse)
    assert done.results[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    await client.aclose()


async def test_a_plain_listener_answers_logins_with_an_error(tmp_path):
    """ILLEGAL_SASL_STATE, as Kafka."""
    async with running_server(tmp_path) as running:
        client = await running.connect()
        assert (await _handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await _authenticate(client, b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        await client.aclose()


async def test_a_login_that_is_pipelined_opens_nothing_early(running):
    """A request that is sent behind a login that fails isn't served."""
    client = await running.connect()
    frames = (
        encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, None),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"\0eve\0guess"), 2, 2, None),
        encode_request(MetadataRequest(), 1, 3, None),
    )
    await client.stream.send_all(b"".join(frames))
    assert (await client.receive_frame())[:4] == b"\0\0\0\1"
    assert (await client.receive_frame())[:4] == b"\0\0\0\2"
    assert await client.is_closed()


async def test_an_ipv4_client_of_an_ipv6_listener_has_its_ipv4_address(tmp_path):
    """ACLs name 127.0.0.1: one that denies this host can't be got around by an IPv6 listener."""
    settings = {**SETTINGS, "listeners": "LOGIN://[::]:0"}
    async with running_server(tmp_path, settings) as running:
        port = running.server.addresses[0][1]
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await until(lambda: len(running.server.poller.connections) == 1)
        [connection] = running.server.poller.connections
        assert connection.info.peer_host == connection.peer_host == "127.0.0.1"
        await stream.aclose()


async def test_newcomers_share_a_bounded_memory(running, monkeypatch, caplog):
    """Many that begin a large request: who holds the most is ended, others log in."""
    monkeypatch.setattr(unauthenticated_connections, "MOST_BYTES", 220_000)
    begun = (240_000).to_bytes(4, "big")
    many = [await running.connect() for _ in range(3)]
    for size, client in zip((20_000, 40_000, 230_000), many, strict=True):
        with suppress(trio.BrokenResourceError):  # it may be ended while it sends
            await client.stream.send_all(begun + bytes(size))
    assert await many[2].is_closed()
    good = await _logged_in(running)
    await good.request(MetadataRequest(), 1, MetadataResponse)
    assert len(running.server.poller.connections) == 3
    assert len(running.server.poller.unauthenticated) == 2
    for client in (good, *many[:2]):
        await client.aclose()
    await until(lambda: not running.server.poller.unauthenticated.held_bytes)
