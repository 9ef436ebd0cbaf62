"""A hostile client of a listener with TLS and logins; its attacks are the names in ``ATTACKS``.

``python -m bench.tls_attacker HOST:PORT CA OWN_HOST ATTACK`` prints a line when it has begun, and
goes on until SIGTERM; it ends without that line if it can't begin. At its end it prints how many
times it has done what the attack's name says. Its connections come from OWN_HOST, another address
than that of honest clients: a machine that attacks has one of its own. Each connection is a thread;
one that the broker ends is replaced.
"""

import base64
import os
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import NamedTuple

from bench.load import frame_of, read_frame
from bench.tls_logins import (
    LONGEST_S,
    authenticate_frame,
    begin_login,
    greeting_of,
    logged_in,
    said,
    shaken,
    trusting,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.openssl import Hostile

PAUSE_S = 0.1
"""Between two bytes of a client that is slow on purpose."""
LARGEST_RECORD = 16_384
LONG_GREETING = 128 * 1024
JUST_ALLOWED = 500_000
"""A message of a login within Kafka's limit, sasl.server.max.receive.size."""
HUGE = 1 << 30
KEYS_AT_ONCE = 300
BEGINS_S = 15.0
"""An attack that hasn't begun by then isn't possible here."""
_NO_GOODBYE = struct.pack("ii", 1, 0)


class Target(NamedTuple):
    """The broker, and where the attacker is."""

    address: tuple[str, int]
    tls: ssl.SSLContext
    own_host: str

    def connect(self) -> socket.socket:
        """A connection without TLS yet, whose end takes no port of the machine for a minute."""
        plain = socket.create_connection(self.address, LONGEST_S, (self.own_host, 0))
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_GOODBYE)
        return plain

    def shake_hands(self, tls: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A connection after its handshake."""
        return _rude(shaken(self.address, tls or self.tls, self.own_host))

    def log_in(self) -> ssl.SSLSocket:
        """A connection whose client has logged in."""
        return _rude(logged_in(self.address, self.tls, self.own_host))


Life = Callable[[Target], Iterator[None]]
"""What one connection does, until it ends; each step that counts is an element."""


def _rude(connection: ssl.SSLSocket) -> ssl.SSLSocket:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_GOODBYE)
    return connection


def _until_closed(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def slow_greeting(target: Target) -> Iterator[None]:
    """A handshake whose first message comes byte for byte."""
    with closing(target.connect()) as sock:
        for byte in greeting_of(target.tls):
            sock.sendall(bytes([byte]))
            yield
            time.sleep(PAUSE_S)


def greeting_in_pieces(target: Target) -> Iterator[None]:
    """The first message in records of a byte each, at once."""
    greeting = greeting_of(target.tls)[5:]
    with closing(target.connect()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in greeting:
            sock.sendall(b"\x16\x03\x01\x00\x01" + bytes([byte]))
            yield


def half_a_greeting(target: Target) -> Iterator[None]:
    """Half of the first message, and then nothing."""
    greeting = greeting_of(target.tls)
    with closing(target.connect()) as sock:
        sock.sendall(greeting[: len(greeting) // 2])
        yield
        _until_closed(sock)


def endless_greeting(target: Target) -> Iterator[None]:
    """A first message that says it has 128 KB, and stops a byte short of them."""
    head = b"\x01" + LONG_GREETING.to_bytes(3) + b"\x03\x03"
    message = (head + bytes(LONG_GREETING))[: LONG_GREETING + 3]
    with closing(target.connect()) as sock:
        for start in range(0, len(message), LARGEST_RECORD):
            part = message[start : start + LARGEST_RECORD]
            sock.sendall(b"\x16\x03\x01" + len(part).to_bytes(2) + part)
        yield
        _until_closed(sock)


def greetings(target: Target) -> Iterator[None]:
    """A greeting, which costs nothing, for an answer that the broker has to sign."""
    with closing(target.connect()) as sock:
        sock.sendall(greeting_of(target.tls))
        sock.recv(1)
        yield


def handshakes(target: Target) -> Iterator[None]:
    """A whole handshake, and no word after it."""
    with closing(target.shake_hands()):
        yield


def no_tls(target: Target) -> Iterator[None]:
    """Something else than TLS."""
    with closing(target.connect()) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
        yield
        _until_closed(sock)


def too_large_records(target: Target) -> Iterator[None]:
    """A record beyond TLS's limit, inside of an open connection."""
    with closing(target.log_in()) as connection:
        raw = socket.socket(fileno=os.dup(connection.fileno()))
        with closing(raw):
            raw.sendall(b"\x17\x03\x03\xff\xff" + bytes(65_535))
            yield
            _until_closed(raw)


def small_records(target: Target) -> Iterator[None]:
    """Requests of which each byte is a TLS record of its own."""
    frame = frame_of(ApiVersionsRequest(), 0)
    with closing(target.log_in()) as connection:
        while True:
            for byte in frame:
                connection.sendall(bytes([byte]))
            read_frame(connection)
            yield


def new_keys(target: Target) -> Iterator[None]:
    """New keys, hundreds of times between two requests; nobody reads the broker's."""
    frame = frame_of(ApiVersionsRequest(), 0)
    with closing(target.log_in()) as connection:
        hostile = Hostile(connection)
        while True:
            for _ in range(KEYS_AT_ONCE):
                hostile.ask_for_new_keys()
                yield
            connection.sendall(frame)
            read_frame(connection)


def another_handshake(target: Target) -> Iterator[None]:
    """TLS 1.2, and a handshake inside of it again and again."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with closing(target.shake_hands(tls)) as connection:
        hostile = Hostile(connection)
        while connection.fileno() >= 0 and not _has_ended(connection):
            hostile.ask_for_another_handshake()
            yield


def _has_ended(connection: ssl.SSLSocket) -> bool:
    """Whether the broker has closed the connection, without a look at what TLS says."""
    with closing(socket.socket(fileno=os.dup(connection.fileno()))) as raw:
        raw.setblocking(False)
        try:
            return not raw.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False


def wrong_password(target: Target) -> Iterator[None]:
    """A login by PLAIN that fails, on a connection of its own."""
    with closing(target.shake_hands()) as connection:
        begin_login(connection, "PLAIN")
        connection.sendall(authenticate_frame(b"\0alice\0wrong"))
        yield
        _until_closed(connection)


def wrong_proof(target: Target) -> Iterator[None]:
    """A login by SCRAM that fails at its end."""
    proof = base64.b64encode(bytes(64)).decode()
    with closing(target.shake_hands()) as connection:
        begin_login(connection, "SCRAM-SHA-512")
        nonce = said(connection, b"n,,n=alice,r=abc").split(b",")[0].decode()
        connection.sendall(authenticate_frame(f"c=biws,{nonce},p={proof}".encode()))
        yield
        _until_closed(connection)


def huge_frame(target: Target) -> Iterator[None]:
    """A message of a login that says it has a gigabyte."""
    with closing(target.shake_hands()) as connection:
        connection.sendall(HUGE.to_bytes(4))
        yield
        while True:
            connection.sendall(bytes(LARGEST_RECORD))


def large_logins(target: Target) -> Iterator[None]:
    """The largest message of a login that is allowed, of nonsense."""
    with closing(target.shake_hands()) as connection:
        begin_login(connection, "PLAIN")
        connection.sendall(authenticate_frame(bytes(JUST_ALLOWED)))
        yield
        _until_closed(connection)


def unfinished_logins(target: Target) -> Iterator[None]:
    """The same message without its last byte."""
    with closing(target.shake_hands()) as connection:
        begin_login(connection, "PLAIN")
        connection.sendall(authenticate_frame(bytes(JUST_ALLOWED))[:-1])
        yield
        _until_closed(connection)


ATTACKS: dict[str, tuple[Life, int]] = {
    "TLS handshakes, a byte every 100 ms, on 500 connections": (slow_greeting, 500),
    "a ClientHello in TLS records of a byte each, in a loop on 32 connections": (
        *(greeting_in_pieces, 32),
    ),
    "half a ClientHello on 900 connections": (half_a_greeting, 900),
    "a ClientHello of 128 KB that doesn't end, on 300 connections": (endless_greeting, 300),
    "a ClientHello and no more, in a loop on 32 connections": (greetings, 32),
    "TLS handshakes in a loop on 32 connections": (handshakes, 32),
    "HTTP instead of TLS, in a loop on 32 connections": (no_tls, 32),
    "TLS records that are too large, on 16 connections": (too_large_records, 16),
    "TLS records of a byte each, on 16 connections": (small_records, 16),
    "new TLS keys in a loop on 16 connections": (new_keys, 16),
    "TLS renegotiation in a loop on 16 connections": (another_handshake, 16),
    "logins by PLAIN that fail, on 64 connections": (wrong_password, 64),
    "logins by SCRAM that fail, on 64 connections": (wrong_proof, 64),
    "a login of 1 GB, in a loop on 16 connections": (huge_frame, 16),
    "logins of 500 KB that fail, on 64 connections": (large_logins, 64),
    "logins of 500 KB that don't end, on 300 connections": (unfinished_logins, 300),
}
"""What one connection does, and how many connections do it at the same time."""


def attack(target: Target, life: Life, connections: int) -> int:
    """Attack until SIGTERM; how many times something was done that counts."""
    steps, has_begun, has_ended = count(), threading.Event(), threading.Event()

    def live() -> None:
        while True:
            try:
                for _ in life(target):
                    next(steps)
                    has_begun.set()
            except OSError:
                has_ended.wait(0.001)  # the broker has ended the connection, or takes no more

    for _ in range(connections):
        threading.Thread(target=live, daemon=True).start()
    parent = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: has_ended.set())
    if has_begun.wait(BEGINS_S):
        print("attacking", flush=True)
        while not has_ended.wait(1.0) and os.getppid() == parent:
            pass  # whoever has begun the attack is there
    return next(steps)


if __name__ == "__main__":
    bootstrap, ca, own_host, name = sys.argv[1:]
    host, _, port = bootstrap.rpartition(":")
    threading.stack_size(256 * 1024)
    print(attack(Target((host, int(port)), trusting(ca), own_host), *ATTACKS[name]), flush=True)
    os._exit(0)  # hundreds of threads are in the middle of something
