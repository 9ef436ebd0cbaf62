"""Connections with TLS: requests and responses of any size, and clients that nobody wants."""

import logging
import os
import socket
import ssl
from contextlib import suppress

import pytest
import trio
import trio.testing

from kwire.connection import unauthenticated_connections
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import (
    FetchResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.security.listeners import ListenerSecurity
from kwire.security.own_keys import LOOK_INTERVAL_S
from kwire.security.tls import Tls
from kwire.testing.waiting import until
from tests.support.certificates import Authority
from tests.support.committed_topics import commit_topic
from tests.support.in_process import RawClient, running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request

CA, OTHER_CA = Authority(), Authority("another CA")
TOPIC = "t"
MUTUAL, REQUESTED = 1, 3


@pytest.fixture
def settings(tmp_path):
    """An SSL listener, one with client certificates, and one with a login."""
    path = CA.sign("server").write_pem(tmp_path / "server.pem")
    return {
        "message.max.bytes": "10000000",
        "listeners": "SSL://:0,MUTUAL://:0,SASL_SSL://:0,REQUESTED://:0".replace(
            ":0", "127.0.0.1:0"
        ),
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL,SASL_SSL:SASL_SSL,REQUESTED:SSL",
        "listener.name.requested.ssl.client.auth": "requested",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem,
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=kwire$/$1/",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": "x.P required user_alice=hush;",
    }


@pytest.fixture
async def running(tmp_path, settings):
    """A server with one topic."""
    async with running_server(tmp_path, settings) as server:
        await commit_topic(server.broker, TOPIC)
        yield server


async def _connect(running, place=0, certified=None, tmp_path=None, ca=CA):
    context = ssl.create_default_context(cadata=ca.certificate_pem)
    if certified is not None:
        context.load_cert_chain(certified.write_pem(tmp_path / "client.pem"))
    stream = await trio.open_tcp_stream(*running.server.addresses[place])
    secure = trio.SSLStream(stream, context, server_hostname="localhost")
    return RawClient(secure)


def _produce(size_bytes):
    return produce_request(TOPIC, batch(bytes(size_bytes)), acks=1)


def _fetch():
    return fetch_request(TOPIC, max_bytes=100 << 20, partition_max_bytes=100 << 20)


@pytest.mark.parametrize("size_bytes", [1, 16_300, 40_000, 300_000, 5_000_000])
async def test_requests_and_responses_of_any_size(running, size_bytes):
    """Over many TLS records, larger than all buffers, and from files."""
    client = await _connect(running)
    with trio.fail_after(20):
        for _ in range(2):
            done = await client.request(_produce(size_bytes), 8, ProduceResponse)
            assert done.responses[0].partition_responses[0].error_code == 0
        found = await client.request(_fetch(), 11, FetchResponse)
        assert len(found.responses[0].partitions[0].records) > 2 * size_bytes
    await client.aclose()


async def test_many_requests_at_once(running):
    """More than one turn serves, in records that the kernel has handed over long before."""
    client = await _connect(running)
    frames = [encode_request(ApiVersionsRequest(), 0, number, None) for number in range(1000)]
    found = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, b"".join(frames))
            while len(found) < len(frames):
                frame = await client.receive_frame()
                found.append(int.from_bytes(frame[:4], "big"))
    assert found == list(range(1000))
    await client.aclose()


async def test_many_requests_behind_one_in_two_parts(running):
    """The buffer that has begun takes few of them, and no byte comes from the network any more."""
    client = await _connect(running)
    requests = [encode_request(ApiVersionsRequest(), 0, number, None) for number in range(1000)]
    sent = b"".join(requests)
    with trio.fail_after(20):
        await client.stream.send_all(sent[:7])
        await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_all(sent[7:])
        for number in range(len(requests)):
            frame = await client.receive_frame()
            assert int.from_bytes(frame[:4], "big") == number
    await client.aclose()


async def test_a_client_that_does_not_read(running):
    """Little is held for it: no more is read from it, and it gets everything when it reads."""
    writer = await _connect(running)
    await writer.request(_produce(3_000_000), 8, ProduceResponse)
    await writer.aclose()
    await until(lambda: not running.server.poller.connections)
    client = await _connect(running)
    for _ in range(5):
        await client.send(_fetch(), 11)
    [connection] = running.server.poller.connections
    await until(lambda: connection.held_bytes)
    await trio.testing.wait_all_tasks_blocked()
    assert connection.held_bytes < 1 << 20
    for _ in range(5):
        frame = await client.receive_frame()
        assert len(frame) > 3_000_000
    await client.aclose()


async def test_a_certificate_names_the_client(running, tmp_path):
    """By the rules; on a listener without client certificates it stays anonymous."""
    client = await _connect(running, 1, CA.sign("alice"), tmp_path)
    await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    [connection] = running.server.poller.connections
    assert str(connection.info.principal) == "User:alice"
    assert len(running.server.poller.unauthenticated) == 0
    await client.aclose()


@pytest.mark.parametrize(
    ("certified", "principal"), [(None, "User:ANONYMOUS"), (CA.sign("alice"), "User:alice")]
)
async def test_a_certificate_that_is_only_requested(running, tmp_path, certified, principal):
    """Who shows none is served as nobody in particular."""
    client = await _connect(running, REQUESTED, certified, tmp_path)
    await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    [connection] = running.server.poller.connections
    assert str(connection.info.principal) == principal
    await client.aclose()


async def test_a_login_under_tls(running):
    """SASL_SSL: first the handshake, then the login."""
    client = await _connect(running, 2)
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    assert len(running.server.poller.unauthenticated) == 1
    message = SaslAuthenticateRequest(auth_bytes=b"\0alice\0hush")
    done = await client.request(message, 2, SaslAuthenticateResponse)
    assert done.error_code == 0
    [connection] = running.server.poller.connections
    assert str(connection.info.principal) == "User:alice"
    await client.aclose()


REFUSED = (
    (CA.sign("late", days=-1), "certificate has expired"),
    (OTHER_CA.sign("alice"), "unable to get local issuer certificate"),
    (OTHER_CA, "self-signed certificate"),
    (CA.sign("eve", organization="elsewhere"), "no rule of ssl.principal.mapping.rules"),
)


@pytest.mark.parametrize(
    ("listener", "certified", "reason"),
    [
        (MUTUAL, None, "peer did not return a certificate"),
        *((listener, *refused) for listener in (MUTUAL, REQUESTED) for refused in REFUSED),
    ],
)
async def test_certificates_that_are_refused(
    running, tmp_path, caplog, listener, certified, reason
):
    """None, one that is over, one of another CA, one of its own, one without a user's name."""
    with caplog.at_level(logging.INFO):
        client = await _connect(running, listener, certified, tmp_path)
        try:
            await client.send(ApiVersionsRequest(), 0)
            assert await client.is_closed()
        except trio.BrokenResourceError:
            pass
        await until(lambda: not running.server.poller.connections)
    assert reason.replace("self-signed", "self") in caplog.text.replace("self-signed", "self")


async def test_who_speaks_something_else(running, caplog):
    """A plain client, an old version of TLS; the connection ends and the log says why."""
    stream = await trio.open_tcp_stream(*running.server.addresses[0])
    with caplog.at_level(logging.INFO):
        await stream.send_all(bytes(encode_request(ApiVersionsRequest(), 0, 1, None)))
        assert await RawClient(stream).is_closed()
    assert "the TLS handshake failed" in caplog.text


async def test_a_large_greeting_counts_as_held_until_the_handshake_is_over(running, monkeypatch):
    """More than a small buffer, in several records: it is taken, unless too much is held."""
    unauthenticated = running.server.poller.unauthenticated
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    context.set_alpn_protocols([f"{number:0200}" for number in range(150)])
    for most_bytes, is_taken in ((1 << 20, True), (20_000, False)):
        monkeypatch.setattr(unauthenticated_connections, "MOST_BYTES", most_bytes)
        stream = await trio.open_tcp_stream(*running.server.addresses[0])
        client = RawClient(trio.SSLStream(stream, context, server_hostname="localhost"))
        with trio.fail_after(20):
            if is_taken:
                await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
                await client.aclose()
            else:
                with pytest.raises(trio.BrokenResourceError):
                    await client.stream.do_handshake()
    assert not unauthenticated.held_bytes


async def test_a_handshake_that_takes_too_long(running, mock_clock):
    """A client that sends its greeting byte by byte is disconnected."""
    client = await trio.open_tcp_stream(*running.server.addresses[0])
    await client.send_all(b"\x16\x03\x01")
    poller = running.server.poller
    with trio.fail_after(60):
        while not poller.unauthenticated:
            await trio.lowlevel.checkpoint()
    mock_clock.jump(unauthenticated_connections.PATIENCE_S + 1)
    poller.unauthenticated.end_overdue(trio.current_time())
    assert await RawClient(client).is_closed()
    assert not poller.unauthenticated


async def test_a_renewed_certificate_counts_for_new_connections(
    running, settings, tmp_path, caplog, mock_clock
):
    """A file that has changed is read again; one that can't be read changes nothing."""
    old = await _connect(running)
    await old.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    path = tmp_path / "server.pem"
    path.write_text("nonsense")
    os.utime(path, (1, 1))
    mock_clock.jump(LOOK_INTERVAL_S)
    with caplog.at_level(logging.INFO):
        again = await _connect(running)
        await again.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert "keeps its old certificate" in caplog.text
    OTHER_CA.sign("renewed").write_pem(path)
    os.utime(path, (2, 2))
    mock_clock.jump(LOOK_INTERVAL_S)
    new = await _connect(running, ca=OTHER_CA)
    await new.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    await old.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    for client in (old, again, new):
        await client.aclose()


async def test_a_dynamic_config_renews_a_certificate(running, tmp_path, mock_clock):
    """As kafka-configs sets it for a listener of one broker."""
    path = OTHER_CA.sign("renewed").write_pem(tmp_path / "renewed.pem")
    name = "listener.name.ssl.ssl.keystore.location"
    change = ConfigChanged(ConfigResourceType.BROKER, "1", name, str(path))
    await running.broker.commit(lambda _image: [change])
    mock_clock.jump(LOOK_INTERVAL_S)
    client = await _connect(running, ca=OTHER_CA)
    await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    await client.aclose()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ssl.keystore.location", "a\0b"),
        ("ssl.keystore.location", "a pipe"),
        ("ssl.truststore.location", "a pipe"),
        ("ssl.truststore.location", "/dev/zero"),
        ("ssl.enabled.protocols", "TLSv0"),
        ("ssl.cipher.suites", "a\0b"),
        ("ssl.keystore.type", "x"),
        ("ssl.client.auth", "x"),
        ("ssl.principal.mapping.rules", "RULE:(("),
    ],
)
async def test_a_dynamic_config_of_nonsense_harms_nobody(
    running, tmp_path, caplog, mock_clock, setting, value
):
    """The listener keeps what it has, and the broker neither ends nor waits for a pipe."""
    if value == "a pipe":
        value = str(tmp_path / "pipe")
        os.mkfifo(value, 0o600)
    changes = [
        ConfigChanged(ConfigResourceType.BROKER, "1", f"listener.name.ssl.{name}", text)
        for name, text in {"ssl.truststore.certificates": "", setting: value}.items()
    ]
    await running.broker.commit(lambda _image: changes)
    mock_clock.jump(LOOK_INTERVAL_S)
    with trio.fail_after(10):
        client = await _connect(running)
        await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
        await client.aclose()
    assert "keeps its old certificate" in caplog.text


@pytest.mark.parametrize("place", ["ListenerSecurity.tls", "Tls.principal"])
async def test_a_bug_in_letting_a_client_in_ends_only_its_connection(running, monkeypatch, place):
    """Such as a certificate that Python can't read: the broker serves all others."""

    def fails(*_):
        raise ValueError("a bug")

    kind, name = place.split(".")
    owner = {"Tls": Tls, "ListenerSecurity": ListenerSecurity}[kind]
    other = await _connect(running)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fails)
        with trio.fail_after(5):
            with suppress(trio.BrokenResourceError):
                client = await _connect(running)
                await client.send(ApiVersionsRequest(), 0)
                assert await client.is_closed()
    assert [str(bug) for bug in running.broker.bugs] == ["a bug"]
    running.broker.bugs.clear()
    await other.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    again = await _connect(running)
    await again.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    await again.aclose()
    await other.aclose()


async def test_the_end_is_told(running):
    """The client sees a close_notify, so it knows that nothing was cut off."""
    client = await _connect(running)
    await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    [connection] = running.server.poller.connections
    connection.abort_nowait()
    assert await client.stream.receive_some(1) == b""
    client.stream.transport_stream.socket.close()


async def test_an_old_version_is_refused(running):
    """TLS 1.1 isn't spoken, whatever the client prefers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED

    def attempt():
        address = running.server.addresses[0]
        refused = pytest.raises((ssl.SSLError, ConnectionError))
        with socket.create_connection(address, 10) as plain, refused:
            context.wrap_socket(plain)

    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    await trio.to_thread.run_sync(attempt)
