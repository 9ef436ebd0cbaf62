"""Delegation tokens in the metadata: short-lived logins that a user hands to its jobs (KIP-48).

Rules:

- A token's secret is its HMAC: HMAC-SHA-512 of the token's id with ``delegation.token.secret.key``.
  The metadata has neither this key nor an HMAC. It has a digest of the HMAC, by which a token is
  found, and SCRAM credentials, for which the HMAC is the password.
- If the secret key changes, no older token is valid any more, because its digest doesn't match.
- A token expires at ``expires_ms`` unless it is renewed, and at ``max_ms`` in any case. Nobody can
  log in with an expired token, even before the controller removes it.
- The number of tokens is bounded, in the cluster and for each user who asks for them.

Source: DelegationTokenControlManager, TokenInformation of Kafka; KIP-48, KIP-373.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.scram import (
    HASHES,
    MIN_ITERATIONS,
    ScramCredential,
    credential_of,
    credential_to_json,
    salted,
    stored_credential,
)
from kwire.protocol.wire import problem_of_string

MOST_TOKENS = 10_000
MOST_PER_REQUESTER = 1_000
MOST_RENEWERS = 100
MOST_NAME_CHARACTERS = 1_000

_HMAC, HMAC_BYTES = "sha512", 64

Name: TypeAlias = tuple[str, str]
"""A principal: its type and its name."""


class DelegationToken(NamedTuple):
    """A token. Times are in ms since 1970.

    A client that logs in with it becomes ``owner``. ``requester`` has created it. ``credentials``
    are for the mechanisms in ``HASHES``, in this order.
    """

    owner: Name
    requester: Name
    renewers: tuple[Name, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    digest: bytes
    credentials: tuple[ScramCredential, ...]

    def is_expired(self, now_ms: int) -> bool:
        """Whether nobody can log in with the token any more."""
        return min(self.expires_ms, self.max_ms) < now_ms

    def concerns(self, name: Name) -> bool:
        """Whether this is the owner, the requester or a renewer, who may all see the token."""
        return name in (self.owner, self.requester) or name in self.renewers

    def may_be_renewed_by(self, name: Name) -> bool:
        """Whether this is the owner or a renewer."""
        return name == self.owner or name in self.renewers


Tokens: TypeAlias = Mapping[str, DelegationToken]
"""All tokens by id."""


class TokenChanged(NamedTuple):
    """A change that creates or renews a token, or removes it (None)."""

    token_id: str
    token: DelegationToken | None


class Secret(NamedTuple):
    """The HMAC of a token, with what is derived from it. It is never stored and never logged."""

    hmac: bytes

    def __repr__(self) -> str:
        return "Secret()"

    @property
    def password(self) -> bytes:
        """The password of a client that logs in with the token by SCRAM."""
        from base64 import b64encode

        return b64encode(self.hmac)

    @property
    def digest(self) -> bytes:
        """The digest of the HMAC, by which the metadata knows the token."""
        import hashlib

        return hashlib.sha256(self.hmac).digest()

    def credentials(self, salt: bytes) -> tuple[ScramCredential, ...]:
        """The credentials of all mechanisms; this takes milliseconds."""
        found = []
        for mechanism in HASHES:
            salted_password = salted(mechanism, self.password, salt, MIN_ITERATIONS)
            found.append(credential_of(mechanism, salted_password, salt, MIN_ITERATIONS))
        return tuple(found)


def secret_of(secret_key: str, token_id: str) -> Secret:
    """The secret of a token, as Kafka computes it."""
    import hmac

    return Secret(hmac.digest(secret_key.encode(), token_id.encode(), _HMAC))


def salt_of(secret_key: str, token_id: str) -> bytes:
    """The salt of a token's credentials, 32 bytes; ids of no token have one too."""
    import hmac

    return hmac.digest(secret_key.encode(), b"salt of " + token_id.encode(), "sha256")


class Lifetimes(NamedTuple):
    """The settings ``delegation.token.max.lifetime.ms`` and ``delegation.token.expiry.time.ms``."""

    max_ms: int
    expiry_ms: int


_LAST_MS = (1 << 63) - 1


def _sum(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _LAST_MS)


def new_token(
    owner: Name,
    requester: Name,
    renewers: Iterable[Name],
    asked_ms: int,
    now_ms: int,
    lifetimes: Lifetimes,
) -> DelegationToken:
    """A token as a client has asked for it. Its digest and its credentials are still missing.

    ``asked_ms`` is the longest life that the client wants; 0 and less mean the broker's limit.
    Raises KafkaError (INVALID_PRINCIPAL_TYPE, POLICY_VIOLATION).
    """
    names = tuple(renewers)
    if any(kind != "User" for kind, _ in (owner, *names)):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(names) > MOST_RENEWERS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"a token has at most {MOST_RENEWERS} renewers"
        )
    if any(len(name) > MOST_NAME_CHARACTERS for _, name in (owner, requester, *names)):
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the name of a principal is too long")
    life_ms = min(lifetimes.max_ms, asked_ms) if asked_ms > 0 else lifetimes.max_ms
    max_ms = _sum(now_ms, life_ms)
    expires_ms = min(max_ms, _sum(now_ms, lifetimes.expiry_ms))
    assert expires_ms <= max_ms, (expires_ms, max_ms)
    return DelegationToken(owner, requester, names, now_ms, expires_ms, max_ms, b"", ())


def check_room(tokens: Tokens, requester: Name) -> None:
    """Raise KafkaError (POLICY_VIOLATION) if there are too many tokens for one more."""
    if len(tokens) >= MOST_TOKENS:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"the cluster holds at most {MOST_TOKENS} delegation tokens"
        )
    if sum(token.requester == requester for token in tokens.values()) >= MOST_PER_REQUESTER:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"a user has at most {MOST_PER_REQUESTER} delegation tokens"
        )


def find_token(tokens: Tokens, secret: Secret) -> str:
    """The id of the token with this secret; KafkaError (DELEGATION_TOKEN_NOT_FOUND)."""
    if len(secret.hmac) != HMAC_BYTES:  # a client may send a hundred megabytes
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    digest = secret.digest
    for token_id, token in tokens.items():
        if token.digest == digest:
            return token_id
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def renewed(token: DelegationToken, asks: Name, asked_ms: int, now_ms: int, expiry_ms: int) -> int:
    """The new time of expiry of a token that is renewed for ``asked_ms``; 0 and less mean
    ``expiry_ms``.

    Raises KafkaError (DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH).
    """
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.may_be_renewed_by(asks):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period_ms = min(expiry_ms, asked_ms) if asked_ms > 0 else expiry_ms
    return min(token.max_ms, _sum(now_ms, period_ms))


def expiring(token: DelegationToken, asks: Name, period_ms: int, now_ms: int) -> int | None:
    """When a token expires that is to expire after a period. None if the period is negative, which
    means that the token is removed at once.

    Raises KafkaError (DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH).
    """
    if not token.may_be_renewed_by(asks):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        return None
    if token.is_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return min(token.max_ms, _sum(now_ms, period_ms))


def without_expired(tokens: Tokens, now_ms: int) -> list[TokenChanged]:
    """The changes that remove the tokens that have expired."""
    return [
        TokenChanged(token_id, None)
        for token_id, token in tokens.items()
        if token.is_expired(now_ms)
    ]


def change_token(tokens: dict[str, DelegationToken], change: TokenChanged) -> None:
    """Carry out a change."""
    if change.token is None:
        tokens.pop(change.token_id, None)
    else:
        tokens[change.token_id] = change.token


def token_changes(tokens: Tokens) -> list[TokenChanged]:
    """The changes that create these tokens in empty metadata."""
    return [TokenChanged(token_id, token) for token_id, token in tokens.items()]


def size_of_token(change: TokenChanged) -> int:
    """About how many bytes a change takes in a store, in addition to what every change takes."""
    if change.token is None:
        return 0
    names = change.token.owner, change.token.requester, *change.token.renewers
    return 1000 + sum(10 + len(name) for _, name in names)


def token_to_json(token: DelegationToken | None) -> list[Any] | None:
    """The token of a change as it is stored."""
    if token is None:
        return None
    *fields, digest, credentials = token
    return [*fields, digest.hex(), [credential_to_json(one) for one in credentials]]


def token_from_json(token_id: str, token: list[Any] | None) -> TokenChanged:
    """A change as ``kwire.metadata.changes.to_json`` writes it.

    A token with a principal that no message can carry counts as removed. Earlier brokers took such
    names from tokens of an identity provider; then nobody could be told of any token beside it.
    """
    if token is None:
        return TokenChanged(token_id, None)
    owner, requester, renewers, issued_ms, expires_ms, max_ms, digest, credentials = token
    if any(map(problem_of_string, (*owner, *requester, *chain.from_iterable(renewers)))):
        return TokenChanged(token_id, None)
    return TokenChanged(
        token_id,
        DelegationToken(
            _name(*owner),
            _name(*requester),
            tuple(_name(*one) for one in renewers),
            int(issued_ms),
            int(expires_ms),
            int(max_ms),
            bytes.fromhex(digest),
            tuple(map(stored_credential, credentials)),
        ),
    )


def _name(kind: str, name: str) -> Name:
    return kind, name
