"""Opens connections to brokers with TLS and a login, for kwire's commands and for brokers.

Rules:

- A connection is returned after the TLS handshake and the login, so its user needn't know about
  them. A failed login is an OSError, like a broker that can't be reached.
- With SCRAM, the broker also proves that it knows the password's keys. The derivation of the keys
  is slow on purpose, so a thread does it, and a broker that logs in to another serves its clients
  meanwhile.

Source: SaslClientAuthenticator, ScramSaslClient of Kafka; RFC 4616, RFC 5802.
"""

import hashlib
import hmac
import ssl
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Generator
from secrets import token_urlsafe
from typing import Any, NamedTuple, TypeAlias, TypeVar

import trio

from kwire.client.errors import SecurityFailure
from kwire.client.peer import OpenStream, open_tcp
from kwire.protocol.codec import MalformedRequest, decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.protocol.types import Request, Response

R = TypeVar("R", bound=Response)

LOGIN_S = 15.0
MOST_ANSWER_BYTES = 64 * 1024
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16_384
"""The iterations that Kafka allows. With fewer, a server that pretends to be a broker could guess
the password from the proof. With more, it could keep this broker busy for a long time."""

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

Messages: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's messages, is sent the broker's, and raises OSError for a wrong one."""

InThread: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments in a thread, and gives its result."""


class Credentials(NamedTuple):
    """The user, the password and the SASL mechanism of a login.

    With ``is_delegation_token``, they are the id and the HMAC of a token (KIP-48). For OAUTHBEARER,
    ``token`` returns the token for a login; a thread calls it; OSError. For GSSAPI, ``messages``
    makes the messages of a login at a host.
    """

    mechanism: str
    user: str = ""
    password: str = ""
    is_delegation_token: bool = False
    token: Callable[[], str] | None = None
    messages: Callable[[str], Messages] | None = None


NewContext: TypeAlias = Callable[[], ssl.SSLContext]
"""Returns the TLS context of a new connection, because certificates may have been renewed."""


def open_secured(
    context: ssl.SSLContext | NewContext | None,
    credentials: Credentials | None,
    in_thread: InThread,
) -> OpenStream:
    """Opens streams with TLS if there is a ``context``, and a login if there are credentials."""

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        stream: trio.abc.Stream = await open_tcp(host, port)
        try:
            with trio.fail_after(LOGIN_S):
                if context is not None:
                    made = context if isinstance(context, ssl.SSLContext) else context()
                    stream = await _with_tls(stream, made, host)
                if credentials is not None:
                    await _log_in(stream, credentials, host, in_thread)
        except trio.TooSlowError:
            await trio.aclose_forcefully(stream)
            raise OSError(f"no TLS handshake or no login within {LOGIN_S:g} s") from None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    return open_stream


async def _with_tls(stream: trio.abc.Stream, context: ssl.SSLContext, host: str) -> trio.abc.Stream:
    secure = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await secure.do_handshake()
    except trio.BrokenResourceError as error:
        raise SecurityFailure(f"the TLS handshake failed: {_tls_failure_text(error)}") from error
    return secure


def _tls_failure_text(error: Exception) -> str:
    """Why TLS failed, in a few words."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        reason = getattr(cause, "verify_message", None) or cause.reason
        return (reason or str(cause)).replace("_", " ").removesuffix(".").lower()
    return str(cause or error)


async def _log_in(
    stream: trio.abc.Stream, credentials: Credentials, host: str, in_thread: InThread
) -> None:
    try:
        asked = SaslHandshakeRequest(mechanism=credentials.mechanism)
        handshake = await _ask(stream, asked, SaslHandshakeResponse, _HANDSHAKE_VERSION)
        if handshake.error_code:
            raise SecurityFailure(
                f"the broker doesn't take logins with {credentials.mechanism}, only with "
                f"{', '.join(handshake.mechanisms) or 'none'}"
            )
        messages = _messages(credentials, host)
        message = await in_thread(next, messages)
        while True:
            request = SaslAuthenticateRequest(auth_bytes=message)
            answer = await _ask(stream, request, SaslAuthenticateResponse, _AUTHENTICATE_VERSION)
            if answer.error_code:
                raise SecurityFailure(f"the login failed: {answer.error_message}")
            following = await in_thread(_following, messages, answer.auth_bytes)
            if following is None:
                return
            message = following
    except RuntimeError as error:
        raise SecurityFailure("the login failed") from error
    except (MalformedRequest, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise OSError(f"the connection was lost in the login ({error})") from error


async def _ask(stream: trio.abc.Stream, request: Request, response: type[R], version: int) -> R:
    await stream.send_all(bytes(encode_request(request, version, 0, "kwire")))
    size = int.from_bytes(await _receive(stream, 4))
    if size > MOST_ANSWER_BYTES:
        raise OSError(f"an answer of {size} bytes in the login")
    frame = await _receive(stream, size)
    _, position = decode_response_header(frame, response, version)
    return decode(response, version, memoryview(frame)[position:])


async def _receive(stream: trio.abc.Stream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        some = await stream.receive_some(size - len(received))
        if not some:
            raise OSError("the broker closed the connection in the login")
        received += some
    return received


def _following(messages: Messages, answer: bytes) -> bytes | None:
    """The message after an answer of the broker; None after the last one."""
    try:
        return messages.send(answer)
    except StopIteration:
        return None


def _messages(credentials: Credentials, host: str) -> Messages:
    mechanism, user, password, is_delegation_token, token, messages = credentials
    if messages is not None:
        return messages(host)
    if token is not None:
        return _bearer(token)
    if mechanism == "PLAIN":
        return _plain(user, password)
    extensions = ",tokenauth=true" if is_delegation_token else ""
    return scram_messages(_HASHES[mechanism], user, password, token_urlsafe(24), extensions)


def _plain(user: str, password: str) -> Messages:
    yield f"\0{user}\0{password}".encode()


def _bearer(token: Callable[[], str]) -> Messages:
    if (yield f"n,,\x01auth=Bearer {token()}\x01\x01".encode()):
        yield b"\x01"  # the broker refuses the token, and gives the reason after this message
        raise SecurityFailure("the login failed: the broker doesn't take the token")


def scram_messages(
    name: str, user: str, password: str, nonce: str, extensions: str = ""
) -> Messages:
    """The client's side of SCRAM with a hash; OSError if the broker doesn't know the password."""
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}{extensions}"
    challenge = (yield f"n,,{bare}".encode()).decode()
    try:
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        salt, iterations = b64decode(parts["s"]), int(parts["i"])
        is_ours = parts["r"].startswith(nonce)
    except (ValueError, KeyError):
        raise SecurityFailure("the broker's SCRAM message is malformed") from None
    if not is_ours or not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise SecurityFailure("the broker's SCRAM message is not an answer to this one")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={parts['r']}"
    signed = f"{bare},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = yield f"{without_proof},p={proof}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if not hmac.compare_digest(last, b"v=" + b64encode(expected)):
        raise SecurityFailure("the broker doesn't know the password that it checks")
