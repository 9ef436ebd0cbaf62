"""SASL OAUTHBEARER (RFC 7628): logins with a signed token (JWT) from an identity provider.

Rules:

- PyJWT verifies the signature of a token with the public keys of
  ``sasl.oauthbearer.jwks.endpoint.url`` (``file:…`` or ``https:…``). Only signatures by a private
  key are accepted, neither ``none`` nor a shared secret.
- A token must have an expiration time (``exp``) and a subject. Its issuer and audience are checked
  if they are configured. The login is valid until the token expires.
- A listener accepts tokens without a signature only if its settings name Kafka's class for them.

Source: OAuthBearerSaslServer, BrokerJwtValidator, OAuthBearerUnsecuredValidatorCallbackHandler of
Kafka.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kwire.security.principal import USER, Principal
from kwire.security.sasl import Identity, LoginRefused, printable

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
TOLD = "Authentication failed: the token is not valid"
MOST_TOKEN_CHARACTERS = 16 * 1024
"""The longest token. PyJWT looks at each character in Python: so many take 1 ms before anybody has
logged in. The tokens of identity providers have 1 to 4 KB, those with many groups 8."""

MOST_MESSAGE_BYTES = MOST_TOKEN_CHARACTERS + 16 * 1024
"""The largest message. Anybody may send one before the login, and a long one takes time to
parse."""

TOLD_TOO_LONG = f"Authentication failed: a token has at most {MOST_TOKEN_CHARACTERS} characters"

MOST_PAIRS = 100
_MESSAGE = re.compile(rb"n,(?:a=([^,\x01]*))?,\x01(.*)\x01\x01", re.DOTALL)
_BEARER = re.compile(rb"auth=bearer +([-_.~+/a-z0-9]+=*)", re.IGNORECASE)

Claims: TypeAlias = Mapping[str, Any]
Verify: TypeAlias = Callable[[str], Claims]
"""A function that verifies a token's signature and returns its claims; LoginRefused."""


class TokenRules(NamedTuple):
    """What a token must contain to be accepted. Times are in seconds."""

    issuer: str = ""
    audiences: Sequence[str] = ()
    subject_claim: str = "sub"
    skew_s: int = 30


class _TooLong(LoginRefused):
    """The message is too long to be looked at. The client is told so: it can't prove anything."""

    def __init__(self, what: str, size: int, most: int) -> None:
        super().__init__(f"{what} has {size} characters, too long: at most {most}", TOLD_TOO_LONG)


class OauthExchange:
    """One login with a token."""

    def __init__(self, verify: Verify, rules: TokenRules) -> None:
        self._verify = verify
        self._rules = rules
        self._failure: LoginRefused | None = None
        self.identity: Identity | None = None

    def step(self, message: bytes, now_ms: int) -> bytes:
        """Check the token. A client that is refused gets the reason in reply to its next
        message.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self.identity = self._identity(message, now_ms)
        except _TooLong as refused:
            self._failure = refused
            return b'{"status":"invalid_token"}'
        except LoginRefused as refused:
            self._failure = LoginRefused(str(refused), TOLD)
            return b'{"status":"invalid_token"}'
        return b""

    def _identity(self, message: bytes, now_ms: int) -> Identity:
        authorization_id, token = _parts(message)
        claims = self._verify(token)
        name = checked(claims, self._rules, now_ms / 1000)
        if authorization_id not in ("", name):
            raise LoginRefused(f"user {printable(name)} asks for another authorization id")
        return Identity(Principal(USER, name), int(claims["exp"] * 1000))


def _parts(message: bytes) -> tuple[str, str]:
    """The authorization id and the token in a client's first message; LoginRefused."""
    if len(message) > MOST_MESSAGE_BYTES:
        raise _TooLong("the OAUTHBEARER message", len(message), MOST_MESSAGE_BYTES)
    found = _MESSAGE.fullmatch(message)
    if found is None:
        raise LoginRefused("the OAUTHBEARER message is malformed")
    for pair in found[2].split(b"\x01", MOST_PAIRS):
        bearer = _BEARER.fullmatch(pair)
        if bearer is None:
            continue
        if len(bearer[1]) > MOST_TOKEN_CHARACTERS:
            raise _TooLong("the token", len(bearer[1]), MOST_TOKEN_CHARACTERS)
        return (found[1] or b"").decode("utf-8", "replace"), bearer[1].decode()
    raise LoginRefused("the OAUTHBEARER message has no bearer token")


def checked(claims: Claims, rules: TokenRules, now_s: float) -> str:
    """Check the claims of a token; return the user name in them; LoginRefused."""
    end_s, begin_s = claims.get("exp"), claims.get("nbf", claims.get("iat", 0))
    name = claims.get(rules.subject_claim)
    if not isinstance(name, str) or not name:
        raise LoginRefused(f"the token has no claim {rules.subject_claim}")
    if end_s is None or not _is_time(end_s) or not _is_time(begin_s):
        raise LoginRefused(f"the token of {printable(name)} has no end, or a time is no number")
    if now_s >= end_s + rules.skew_s:
        raise LoginRefused(f"the token of {printable(name)} has expired")
    if now_s < begin_s - rules.skew_s:
        raise LoginRefused(f"the token of {printable(name)} isn't valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise LoginRefused(f"the token of {printable(name)} has another issuer")
    audience = claims.get("aud")
    found = audience if isinstance(audience, list) else [audience]
    if rules.audiences and not any(one in rules.audiences for one in found):
        raise LoginRefused(f"the token of {printable(name)} is for another audience")
    return name


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def unsecured(token: str) -> Claims:
    """The claims of a token without a signature; LoginRefused if the token has one."""
    parts = token.split(".")
    try:
        header, claims = (
            json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2]
        )
    except (ValueError, RecursionError):
        raise LoginRefused("the token is no JWT") from None
    if len(parts) != 3 or parts[2] or not isinstance(header, dict) or header.get("alg") != "none":
        raise LoginRefused("the token is signed, but this listener takes unsecured tokens only")
    if not isinstance(claims, dict):
        raise LoginRefused("the token has no claims")
    return claims


def signed(keys: Callable[[str | None], object | None]) -> Verify:
    """Return the function that verifies signed tokens.

    ``keys`` returns the public key (an object of PyJWT) for a key id. Needs PyJWT with
    cryptography.
    """
    import jwt

    def verify(token: str) -> Claims:
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in ALGORITHMS:
                raise LoginRefused(f"the token's algorithm {printable(str(algorithm))} isn't taken")
            key = keys(header.get("kid"))
            if key is None:
                raise LoginRefused("the token is signed with a key that isn't known")
            # ``checked`` checks times, issuer and audience, with the broker's clock.
            checks = ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
            options: Any = {f"verify_{name}": False for name in checks}
            return jwt.decode(token, key, algorithms=[algorithm], options=options)  # type: ignore[arg-type]
        except jwt.PyJWTError as error:
            raise LoginRefused(f"the token is not valid: {error}") from None

    return verify
