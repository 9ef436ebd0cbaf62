"""SASL SCRAM (RFC 5802, RFC 7677): client and broker both prove that they know a password's keys.

The password itself is never sent.

Rules:

- A credential holds a salt and two keys. Nobody can compute the password from them. Only the client
  runs the slow derivation of the keys, so a login costs the broker a few HMACs.
- Each exchange has a new nonce from the broker, so messages of an earlier login are of no use.
- The answers must not tell which users exist. So an unknown user also gets a salt and is refused at
  the end, like a user with a wrong password. ``Unknown`` makes this salt: it looks like a real one,
  and is always the same for a user name, on all brokers.
- A client with the extension ``tokenauth=true`` logs in with a delegation token (``token_logins``).
  The token must be valid at the first message and at the last one.
- Channel binding isn't supported, as in Kafka.

Source: ScramSaslServer, ScramMessages of Kafka.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kwire.metadata.scram import HASHES, MIN_ITERATIONS, Credentials, ScramCredential
from kwire.security.principal import USER, Principal
from kwire.security.sasl import (
    MOST_PASSWORD_MESSAGE_BYTES,
    Identity,
    LoginRefused,
    printable,
)
from kwire.security.token_logins import TokenLogins

_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"
_KAFKAS_SALT = re.compile(rb"[0-9a-z]{20,26}")

_VALUE = r"[^,\0]+"
_CLIENT_FIRST = re.compile(rf"(n,(?:a=({_VALUE}))?,)(n=({_VALUE}),r=({_VALUE})((?:,{_VALUE})*))")
_BY_TOKEN = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)
_CLIENT_FINAL = re.compile(rf"(c=({_VALUE}),r=({_VALUE})(?:,{_VALUE})*),p=({_VALUE})")


Lookup: TypeAlias = Callable[[str], ScramCredential | None]


class Unknown(NamedTuple):
    """The salts and iteration counts for users that don't exist.

    They look like those of the existing user ``model``. ``secret`` makes the salts unpredictable.
    """

    secret: bytes
    model: ScramCredential

    @classmethod
    def among(cls, credentials: Credentials, mechanism: str, secret: bytes) -> "Unknown":
        """Take the existing user whose name sorts first as the model: all brokers know the same
        one.

        ``secret`` is used if no user has a credential for this mechanism.
        """
        names = [user for known, user in credentials if known == mechanism]
        if not names:
            return cls(secret, ScramCredential(b"0" * 25, b"", b"", MIN_ITERATIONS))
        model = credentials[mechanism, min(names)]
        return cls(hmac.digest(model.server_key, b"unknown users", "sha256"), model)

    def credential(self, user: str) -> ScramCredential:
        """A credential for an unknown user, which no password fits."""
        model = self.model
        made = hashlib.shake_256(self.secret + user.encode())
        salt = made.digest(len(model.salt))
        if _KAFKAS_SALT.fullmatch(model.salt):
            salt = _in_base_36(int.from_bytes(made.digest(17)) >> 6)
        return ScramCredential(salt, b"", b"", model.iterations)


def _in_base_36(number: int) -> bytes:
    """A number in base 36. Kafka's tools write salts of 130 random bits in this form."""
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits))


class ScramExchange:
    """One login by SCRAM. ``nonce`` is a new random text; ``unknown`` makes the credentials of
    unknown users.

    ``tokens`` is None on a listener without logins by delegation token.
    """

    def __init__(
        self,
        mechanism: str,
        lookup: Lookup,
        nonce: str,
        unknown: Unknown,
        tokens: TokenLogins | None = None,
    ) -> None:
        self._unknown = unknown
        self._mechanism = mechanism
        self._tokens = tokens
        self._claims: Identity | None = None
        self.identity: Identity | None = None
        self._hash = HASHES[mechanism]
        self._told = (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        self._lookup = lookup
        self._nonce = nonce
        self._user = ""
        self._header = ""
        self._credential: ScramCredential | None = None
        self._messages: tuple[str, str] | None = None

    def step(self, message: bytes, now_ms: int) -> bytes:
        """Answer the first message with the salt, the second with the broker's proof;
        LoginRefused.
        """
        if len(message) > MOST_PASSWORD_MESSAGE_BYTES:
            raise LoginRefused("the SCRAM message is too long", self._told)
        try:
            text = message.decode()
            is_first = self._messages is None
            return self._first(text, now_ms) if is_first else self._final(text, now_ms)
        except UnicodeDecodeError:
            raise LoginRefused("the SCRAM message isn't UTF-8", self._told) from None
        except LoginRefused as refused:
            raise LoginRefused(str(refused), self._told) from None

    def _first(self, text: str, now_ms: int) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise LoginRefused("the first SCRAM message is malformed")
        self._header, authorization_id, bare, name, nonce, extensions = found.groups()
        self._user = _plain_name(name)
        if authorization_id is not None and _plain_name(authorization_id) != self._user:
            raise LoginRefused(f"user {printable(self._user)} asks for another authorization id")
        if _BY_TOKEN.search(extensions):
            self._credential = self._look_up_token(now_ms)
        else:
            self._credential = self._look_up_user()
        self._nonce = nonce + self._nonce
        salt, iterations = b64encode(self._credential.salt).decode(), self._credential.iterations
        server_first = f"r={self._nonce},s={salt},i={iterations}"
        self._messages = bare, server_first
        return server_first.encode()

    def _look_up_user(self) -> ScramCredential:
        credential = self._lookup(self._user)
        made_up = self._unknown.credential(
            self._user
        )  # also if the user is unknown, so that the time doesn't tell it
        if credential is not None:
            self._claims = Identity(Principal(USER, self._user))
        return credential or made_up

    def _look_up_token(self, now_ms: int) -> ScramCredential:
        if self._tokens is None:
            return self._unknown.credential(self._user)
        credential, token = self._tokens.find(self._mechanism, self._user, now_ms)
        if token is not None:
            self._claims = Identity(Principal(*token.owner), token.expires_ms, is_by_token=True)
        return credential

    def _final(self, text: str, now_ms: int) -> bytes:
        found = _CLIENT_FINAL.fullmatch(text)
        assert self._messages is not None
        assert self._credential is not None
        if found is None or self.identity is not None:
            raise LoginRefused("the last SCRAM message is malformed")
        without_proof, binding, nonce, proof_text = found.groups()
        if nonce != self._nonce or binding != b64encode(self._header.encode()).decode():
            raise LoginRefused("the SCRAM message belongs to another login")
        try:
            proof = b64decode(proof_text, validate=True)
        except ValueError:
            raise LoginRefused("the proof in the SCRAM message isn't base64") from None
        signed = ",".join((*self._messages, without_proof)).encode()
        stored_key = self._credential.stored_key or bytes(hashlib.new(self._hash).digest_size)
        signature = hmac.digest(stored_key, signed, self._hash)
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored_key)
        if not is_right or len(proof) != len(signature) or self._claims is None:
            raise LoginRefused(f"wrong name or password for user {printable(self._user)}")
        if self._claims.is_by_token and self._look_up_token(now_ms) != self._credential:
            raise LoginRefused(f"the token {printable(self._user)} has ended meanwhile")
        self.identity = self._claims
        verifier = hmac.digest(self._credential.server_key, signed, self._hash)
        return b"v=" + b64encode(verifier)


def _plain_name(text: str) -> str:
    """A user name, after SCRAM's escapes for comma and equals sign are replaced; LoginRefused."""
    if re.search(r"=(?!2C|3D)", text):
        raise LoginRefused("the name in the SCRAM message is malformed")
    return text.replace("=2C", ",").replace("=3D", "=")
