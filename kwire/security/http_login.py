"""Logins by HTTP: an ``Authorization`` header is checked as a login on a listener would be.

``Basic`` has the name and the password of a user of PLAIN or of SCRAM. For SCRAM both sides of the
login are played here, so users, unknown users and refusals are those of the listener. ``Bearer``
has a token of OAUTHBEARER.

Source: RFC 7617, RFC 6750.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping

from kwire.metadata.scram import HASHES, salted
from kwire.security.sasl import (
    MOST_PASSWORD_MESSAGE_BYTES,
    Exchange,
    Identity,
    LoginRefused,
    NewExchange,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""Those by which a client of HTTP can log in."""

BEARER = "OAUTHBEARER"


def schemes(mechanisms: Mapping[str, NewExchange]) -> list[str]:
    """The schemes of ``Authorization`` that these mechanisms take: Basic, Bearer."""
    has_password = any(one in mechanisms for one in MECHANISMS if one != BEARER)
    return ["Basic"] * has_password + ["Bearer"] * (BEARER in mechanisms)


def log_in(header: bytes, mechanisms: Mapping[str, NewExchange], now_ms: int) -> Identity:
    """The user that a header proves; LoginRefused. It takes milliseconds, so in a thread."""
    scheme, _, given = header.strip().partition(b" ")
    if len(given) > MOST_PASSWORD_MESSAGE_BYTES * 2:
        raise LoginRefused("the header is too long")
    scheme, given = scheme.lower(), given.strip()
    if scheme == b"bearer" and BEARER in mechanisms:
        exchange = mechanisms[BEARER]()
        exchange.step(b"n,,\x01auth=Bearer " + given + b"\x01\x01", now_ms)
        if exchange.identity is None:
            exchange.step(b"\x01", now_ms)  # which says why
        return _proved(exchange)
    if scheme != b"basic":
        raise LoginRefused("no login of a scheme that the listener takes")
    return _by_password(given, mechanisms, now_ms)


def _by_password(given: bytes, mechanisms: Mapping[str, NewExchange], now_ms: int) -> Identity:
    try:
        name, colon, password = b64decode(given, validate=True).decode().partition(":")
    except ValueError:
        raise LoginRefused("the login isn't text in base64") from None
    if not name or not colon or not password or "\0" in name + password:
        raise LoginRefused("the login has no name or no password")
    refused = LoginRefused("the listener takes no passwords")
    for mechanism in MECHANISMS:
        if mechanism == BEARER or mechanism not in mechanisms:
            continue
        exchange = mechanisms[mechanism]()
        try:
            if mechanism == "PLAIN":
                exchange.step(f"\0{name}\0{password}".encode(), now_ms)
            else:
                _prove(exchange, mechanism, name, password, now_ms)
            return _proved(exchange)
        except LoginRefused as error:
            refused = error
    raise refused


def _prove(exchange: Exchange, mechanism: str, name: str, password: str, now_ms: int) -> None:
    """The client's side of SCRAM (RFC 5802, 3); LoginRefused."""
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r=http"
    first = exchange.step(f"n,,{bare}".encode(), now_ms).decode()
    answered = dict(part.split("=", 1) for part in first.split(","))
    salt, iterations = b64decode(answered["s"]), int(answered["i"])
    key = hmac.digest(
        salted(mechanism, password.encode(), salt, iterations), b"Client Key", HASHES[mechanism]
    )
    final = f"c=biws,r={answered['r']}"
    stored_key = hashlib.new(HASHES[mechanism], key).digest()
    signature = hmac.digest(stored_key, f"{bare},{first},{final}".encode(), HASHES[mechanism])
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    exchange.step(f"{final},p={b64encode(proof).decode()}".encode(), now_ms)


def _proved(exchange: Exchange) -> Identity:
    if exchange.identity is None:
        raise LoginRefused("the login isn't complete")
    return exchange.identity
