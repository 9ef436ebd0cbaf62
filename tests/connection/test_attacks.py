"""Attacks on listeners with TLS that have no better place; docs/SECURITY.md lists all of them."""

import socket
import ssl
from contextlib import suppress
from functools import partial

import pytest
import trio

from kwire.client.secured import open_secured
from kwire.config.broker import BrokerConfig
from kwire.connection.tls_socket import MOST_SILENT_BYTES, TlsSocket
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.security.authority import NewAuthority
from kwire.security.tls import server_context
from kwire.testing.waiting import until
from tests.support.certificates import Authority
from tests.support.in_process import RawClient, running_server
from tests.support.openssl import Hostile, Missing
from tests.support.passes import Passes

CA = Authority()


def _settings(certified, **more):
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": certified.key_pem(),
        "ssl.keystore.certificate.chain": certified.certificate_pem,
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def _attempt(address, context):
    with socket.create_connection(address, 10) as plain:
        context.wrap_socket(plain, server_hostname="localhost")


async def test_a_downgrade_to_an_older_version(tmp_path):
    """Who takes the newer version out of the client's greeting doesn't get the older one."""
    settings = _settings(CA.sign("server"), ssl_enabled_protocols="TLSv1.3")
    context = ssl.create_default_context(cadata=CA.certificate_pem)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with running_server(tmp_path, settings) as running:
        address = running.server.addresses[0]
        with pytest.raises(ssl.SSLError, match=r"(?i)version"):
            await trio.to_thread.run_sync(_attempt, address, context)


async def test_a_downgrade_to_a_weak_cipher_suite(tmp_path):
    """No suite without authentication or without encryption is served, whatever a client wants."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("aNULL:eNULL:@SECLEVEL=0")
    async with running_server(tmp_path, _settings(CA.sign("server"))) as running:
        address = running.server.addresses[0]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await trio.to_thread.run_sync(_attempt, address, context)


@pytest.mark.parametrize("attack", ["expired", "self-signed", "wrong name", "another CA"])
async def test_a_server_that_is_not_the_one_it_says(tmp_path, attack):
    """kwire's client, as a command or another broker, sends nothing there."""
    made = {
        "expired": lambda: CA.sign("server", days=-1),
        "self-signed": lambda: Authority("localhost"),
        "another CA": lambda: Authority("another CA").sign("server"),
    }
    said = {
        "expired": "expired",
        "self-signed": "self.signed",
        "wrong name": "not valid for 'localhost'",
        "another CA": "unable to get local issuer",
    }
    trusted = CA.certificate_pem
    if attack == "wrong name":
        authority = NewAuthority("CA", 1)
        pair = authority.sign("server", ["elsewhere.example.org"], 1)
        trusted = authority.certificate_pem
        settings = _settings(CA.sign("server")) | {
            "ssl.keystore.key": pair.key_pem,
            "ssl.keystore.certificate.chain": pair.certificate_pem,
        }
    else:
        settings = _settings(made[attack]())
    context = ssl.create_default_context(cadata=trusted)
    async with running_server(tmp_path, settings) as running:
        opened = open_secured(context, None, trio.to_thread.run_sync)
        with pytest.raises(OSError, match=f"the TLS handshake failed: .*{said[attack]}"):
            await opened("localhost", running.port)


async def test_a_storm_of_handshakes(tmp_path):
    """Who has a connection is served between the handshakes of others, which wait in turn.

    Its answer takes a few passes of the event loop, however many handshakes there are.
    """
    trusting = ssl.create_default_context(cadata=CA.certificate_pem)
    async with running_server(tmp_path, _settings(CA.sign("server"))) as running:
        address = running.server.addresses[0]
        stream = await trio.open_tcp_stream(*address)
        good = RawClient(trio.SSLStream(stream, trusting, server_hostname="localhost"))
        await good.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
        greeting = _greeting(trusting)
        async with trio.open_nursery() as nursery:
            others = [await trio.open_tcp_stream(*address) for _ in range(100)]
            for one in others:
                nursery.start_soon(partial(one.send_all, greeting))
            for _ in range(10):
                with Passes() as passes:
                    await good.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
                assert passes.count <= 4
                assert running.broker.threads.handshakes.running <= 2
        await good.aclose()
        for one in others:
            await one.aclose()


@pytest.mark.parametrize(
    "bound",
    [
        "kwire.connection.unauthenticated_connections.MOST_BYTES",
        "kwire.connection.tls_socket.MOST_HANDSHAKE_BYTES",
    ],
)
async def test_a_handshake_that_does_not_end(tmp_path, monkeypatch, bound):
    """A first message of 100 KB that stops short: what all hold together is bounded, and each."""
    monkeypatch.setattr(bound, 70_000)
    record = b"\x16\x03\x01\x40\x00"
    async with running_server(tmp_path, _settings(CA.sign("server"))) as running:
        stream = await trio.open_tcp_stream(*running.server.addresses[0])
        await stream.send_all(record + b"\x01\x01\x86\xa0\x03\x03" + bytes(16_384 - 6))
        with suppress(trio.BrokenResourceError):  # it may be ended while it sends
            for _ in range(4):
                await stream.send_all(record + bytes(16_384))
        with trio.fail_after(5), suppress(trio.BrokenResourceError):
            assert await stream.receive_some() == b""
        await until(lambda: not running.server.poller.connections)
        assert not running.server.poller.unauthenticated.held_bytes


def _greeting(context):
    """The first message of a handshake."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


def test_renegotiation():
    """In TLS 1.2 a client may ask for it; it is refused, and who goes on asking is cut off."""
    settings = BrokerConfig.load(_settings(CA.sign("server"), ssl_enabled_protocols="TLSv1.2"))
    accepted, sock = socket.socketpair()
    accepted.setblocking(False)
    sock.setblocking(False)
    server = TlsSocket(accepted, server_context(settings.of_listener("SSL")))
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=CA.certificate_pem)
    client = trusting.wrap_bio(inward, outward, server_hostname="localhost")
    is_done = False
    while not is_done:
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        sock.sendall(outward.read())
        server.receive_handshake()
        is_done = server.shake_hands()
        server.send_handshake()
        inward.write(sock.recv(1 << 16))
    client.do_handshake()
    view = memoryview(bytearray(1 << 16))
    with suppress(BlockingIOError):
        server.recv_into(view)
    try:
        Hostile(client).ask_for_another_handshake()
    except Missing as missing:
        pytest.skip(str(missing))
    asked = outward.read()
    assert len(asked) > 100
    sock.sendall(asked)
    with suppress(BlockingIOError):
        server.recv_into(view)
    assert server.tls.version() == "TLSv1.2"
    server.send_handshake()
    inward.write(sock.recv(1 << 16))
    with pytest.raises(ssl.SSLError, match=r"(?i)renegotiation"):
        client.read(1)
    assert len(asked) < MOST_SILENT_BYTES
    sock.close()
    server.close()
