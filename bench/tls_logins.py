"""Connections over TLS with a login by PLAIN, for clients that measure and for hostile ones."""

import socket
import ssl
from contextlib import suppress

from bench.load import frame_of, read_frame, read_response
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest

USER, PASSWORD = "alice", "alice-secret"
_MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
    "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
        f"{_MODULES}.scram.ScramLoginModule required;"
    ),
}
"""What a listener SASL_SSL needs beside its certificate."""

LONGEST_S = 60.0
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


def trusting(ca: str) -> ssl.SSLContext:
    """What clients of the broker with this CA need."""
    return ssl.create_default_context(cafile=ca)


def shaken(
    address: tuple[str, int], tls: ssl.SSLContext, own_host: str = "127.0.0.1"
) -> ssl.SSLSocket:
    """A connection after its TLS handshake; OSError."""
    plain = socket.create_connection(address, LONGEST_S, (own_host, 0))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return tls.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


def begin_login(connection: socket.socket, mechanism: str) -> None:
    """Say how the client logs in."""
    connection.sendall(frame_of(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION))
    read_frame(connection)


def authenticate_frame(message: bytes) -> bytes:
    """A request with one message of a login."""
    return frame_of(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)


def said(connection: socket.socket, message: bytes) -> bytes:
    """Send a message of a login; the broker's message, or ConnectionError if it refuses."""
    request = SaslAuthenticateRequest(auth_bytes=message)
    connection.sendall(frame_of(request, AUTHENTICATE_VERSION))
    answer = read_response(connection, request, AUTHENTICATE_VERSION)
    if answer.error_code:
        raise ConnectionError(answer.error_message)
    return bytes(answer.auth_bytes)


def logged_in(
    address: tuple[str, int], tls: ssl.SSLContext, own_host: str = "127.0.0.1"
) -> ssl.SSLSocket:
    """A connection whose client has logged in; OSError."""
    connection = shaken(address, tls, own_host)
    try:
        begin_login(connection, "PLAIN")
        said(connection, f"\0{USER}\0{PASSWORD}".encode())
    except BaseException:
        connection.close()
        raise
    return connection


def greeting_of(tls: ssl.SSLContext) -> bytes:
    """The first message of a handshake (ClientHello)."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        tls.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()
