"""TLS messages that hold no data: their time and their memory are bounded."""

import socket
import ssl
from contextlib import suppress

import pytest

from kwire.connection import tls_socket
from kwire.connection.tls_socket import MOST_SILENT_BYTES, MOST_STEPS, TlsSocket
from tests.support.certificates import Authority
from tests.support.openssl import Hostile, Missing

CA = Authority()


class Peer:
    """A client that shakes hands with a TlsSocket, and asks for new keys when told."""

    def __init__(self, tmp_path):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CA.sign("server").write_pem(tmp_path / "server.pem"))
        accepted, self.sock = socket.socketpair()
        accepted.setblocking(False)
        self.sock.setblocking(False)
        self.server = TlsSocket(accepted, context)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context(cadata=CA.certificate_pem)
        self.tls = client.wrap_bio(self._in, self._out, server_hostname="localhost")
        is_done = False
        while not is_done:
            with suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            self.flush()
            self.server.receive_handshake()
            is_done = self.server.shake_hands()
            self.server.send_handshake()
            self._in.write(self.sock.recv(1 << 16))
        with suppress(BlockingIOError):
            self.server.recv_into(memoryview(bytearray(10)))

    def flush(self):
        """Send what TLS has made."""
        self.sock.sendall(self._out.read())

    def ask_for_new_keys(self, count):
        """Send KeyUpdate messages, each of which wants an answer."""
        hostile = hostile_of(self.tls)
        for _ in range(count):
            hostile.ask_for_new_keys()
        self.flush()

    def close(self):
        """Close both ends."""
        self.sock.close()
        self.server.close()


def hostile_of(tls):
    """Calls of OpenSSL, if there are any."""
    try:
        return Hostile(tls)
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def peer(tmp_path):
    """A client after its handshake."""
    peer = Peer(tmp_path)
    yield peer
    peer.close()


def test_a_client_that_only_asks_for_new_keys_is_disconnected(peer):
    """Each costs time, and has an answer that waits in memory."""
    view = memoryview(bytearray(1 << 16))
    peer.ask_for_new_keys(MOST_SILENT_BYTES // 27 + 1)
    with pytest.raises(ConnectionAbortedError):
        peer.server.recv_into(view)


def test_data_in_between_does_not_hide_them(peer):
    """Their answers wait until something is sent, and are counted."""
    view = memoryview(bytearray(1 << 16))
    rounds = 0
    with suppress(ConnectionAbortedError):
        for _ in range(5):
            peer.ask_for_new_keys(MOST_SILENT_BYTES // 27 // 3)
            peer.tls.write(b"x")
            peer.flush()
            assert peer.server.recv_into(view) == 1
            rounds += 1
    assert rounds == 3


def test_the_end_of_a_connection_is_seen(peer):
    """As of any socket: what arrived before is read first, then there are 0 bytes."""
    view = memoryview(bytearray(1 << 16))
    peer.tls.write(b"last")
    peer.flush()
    peer.sock.close()
    assert peer.server.recv_into(view) == len(b"last")
    while peer.server.has_pending:
        with suppress(BlockingIOError):
            peer.server.recv_into(view)
    assert peer.server.recv_into(view) == 0


def test_some_new_keys_do_no_harm(peer):
    """What follows them arrives."""
    view = memoryview(bytearray(1 << 16))
    peer.ask_for_new_keys(10)
    for _ in range(20):
        peer.tls.write(bytes(10_000))
        peer.flush()
        assert peer.server.recv_into(view) == 10_000
        while peer.server.has_pending:
            with suppress(BlockingIOError):
                peer.server.recv_into(view)


@pytest.mark.parametrize("pieces", [1, 2])
def test_the_last_message_of_a_handshake_is_known(tmp_path, pieces):
    """It is taken without a thread; not the rest of a record, nor one with a certificate in it."""
    assert _shaken(tmp_path, ssl.CERT_NONE, pieces) == [False, True, False][: pieces + 1]
    assert _shaken(tmp_path, ssl.CERT_OPTIONAL, pieces) == [False] * (pieces + 1)


def _shaken(tmp_path, verify_mode, pieces):
    """What ``is_last`` was after the greeting, and after each piece of the last message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CA.sign("server").write_pem(tmp_path / "server.pem"))
    context.verify_mode = verify_mode
    accepted, sock = socket.socketpair()
    accepted.setblocking(False)
    server = TlsSocket(accepted, context)
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=CA.certificate_pem)
    tls = client.wrap_bio(inward, outward, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    found = []
    sock.sendall(outward.read())
    server.receive_handshake()
    found.append(server.is_last)
    server.shake_hands()
    server.send_handshake()
    inward.write(sock.recv(1 << 16))
    tls.do_handshake()
    last = outward.read()
    at = 0 if pieces == 1 else 20
    is_done = False
    for piece in filter(None, (last[:at], last[at:])):
        sock.sendall(piece)
        server.receive_handshake()
        found.append(server.is_last)
        is_done = server.shake_hands()
    assert is_done
    sock.close()
    server.close()
    return found


@pytest.mark.parametrize(
    ("records", "is_last"),
    [
        (b"\x17\x03\x03\x00\x02ab", True),
        (b"\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x02ab\x17\x03\x03\x00\x01a", True),
        (b"\x17\x03\x03\x00\x02ab\x17\x03", True),
        (b"\x17\x03\x03\x00\x02ab\x16\x03\x01\x00\x02ab", False),
        (b"\x17\x03\x03\x00\x00\x16\x03\x01\x00\x02ab", False),
        (b"\x14\x03\x03\x00\x01\x01", False),
        (b"\x16\x03\x01\x00\x02ab", False),
    ],
)
def test_no_slow_step_hides_behind_an_encrypted_record(tmp_path, records, is_last):
    """TLS skips early data, and then takes the message behind it, which needs the private key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CA.sign("server").write_pem(tmp_path / "server.pem"))
    accepted, client = socket.socketpair()
    server = TlsSocket(accepted, context)
    client.sendall(records)
    server.receive_handshake()
    assert server.is_last is is_last
    client.close()
    accepted.close()


@pytest.fixture
def newcomer(tmp_path):
    """A client's socket before any handshake, and the server's side of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CA.sign("server").write_pem(tmp_path / "server.pem"))
    accepted, client = socket.socketpair()
    accepted.setblocking(False)
    server = TlsSocket(accepted, context)
    yield client, server
    client.close()
    server.close()


def test_a_part_of_a_record_is_no_step(newcomer):
    """Who sends its greeting byte for byte has one step computed, not hundreds."""
    client, server = newcomer
    seen = []
    for byte in b"\x16\x03\x01\x00\x04\x01\x00\x00\x00" + b"\x16\x03":
        client.sendall(bytes([byte]))
        server.receive_handshake()
        seen.append(server.has_record)
    assert seen == [False] * 8 + [True, False, False]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x16\x03\x01\xff\xff"])
def test_what_is_no_record_is_refused_at_once(newcomer, data):
    """It isn't waited for until it is complete."""
    client, server = newcomer
    client.sendall(data)
    server.receive_handshake()
    assert server.has_record
    with pytest.raises(ssl.SSLError):
        server.shake_hands()


def test_records_of_single_bytes_are_bounded(newcomer):
    """Each would be a step in a thread."""
    client, server = newcomer
    record = b"\x16\x03\x01\x00\x01\x01"
    for _ in range(MOST_STEPS):
        client.sendall(record)
        server.receive_handshake()
    client.sendall(record)
    with pytest.raises(ConnectionAbortedError, match="too many records"):
        server.receive_handshake()


def test_data_begins_the_count_anew(peer, monkeypatch):
    """As many bytes without data as are allowed may come after it, and none more."""
    view, count, key_update_bytes = memoryview(bytearray(100)), 10, 27
    monkeypatch.setattr(tls_socket, "MOST_SILENT_BYTES", count * key_update_bytes)
    peer.tls.write(b"data")
    peer.flush()
    assert peer.server.recv_into(view) == 4
    peer.ask_for_new_keys(count)
    with pytest.raises(BlockingIOError):
        peer.server.recv_into(view)
    peer.ask_for_new_keys(1)
    with pytest.raises(ConnectionAbortedError):
        peer.server.recv_into(view)
