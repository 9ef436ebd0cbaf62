"""SCRAM credentials in the metadata: with them, a broker checks its users' passwords.

Rules:

- A credential is for one user and one mechanism. It contains no password, only keys that can check
  a client's password (RFC 5802).
- A request alters each user at most once. Each user has its own result.
- The number of credentials is limited, because every broker holds all of them in memory.

Source: ScramControlManager, ScramFormatter of Kafka; KIP-554.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by their numbers in requests."""

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
MOST_CREDENTIALS = 20_000
MOST_NAME_CHARACTERS = 1024
MOST_SALT_BYTES = 1024
MOST_SALTED_BYTES = 1024
"""A salted password is as long as a hash: 32 or 64 bytes."""


class ScramCredential(NamedTuple):
    """The salt and the keys that check a user's password by one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


ScramUser: TypeAlias = tuple[str, str]
"""The name of a mechanism, and a user name."""

Credentials: TypeAlias = Mapping[ScramUser, ScramCredential]


class ScramCredentialChanged(NamedTuple):
    """A change that sets a user's credential for a mechanism, or removes it (None)."""

    mechanism: str
    user: str
    credential: ScramCredential | None


class Deletion(NamedTuple):
    """A client asks to delete a credential; ``mechanism`` is the number that it sent."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A client asks to set a credential, from a password that it has salted itself."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


def credential_of(
    mechanism: str, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential for a salted password."""
    import hashlib
    import hmac

    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
        iterations,
    )


def salted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The salted password (Hi of RFC 5802); this takes milliseconds."""
    import hashlib

    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


class Alteration:
    """The decisions about one AlterUserScramCredentials request.

    - ``changes``: the changes to make, by user.
    - ``results``: the error of each user, or None.
    """

    def __init__(self, known: Credentials) -> None:
        self.changes: dict[str, ScramCredentialChanged] = {}
        self.results: dict[str, KafkaError | None] = {}
        self._known = known
        self._room = MOST_CREDENTIALS - len(known)

    def decide_next(self, asked: Deletion | Upsertion) -> None:
        """Decide about the next credential of the request, deletions first."""
        user = asked.user
        if user in self.results:
            self.results[user] = _TWICE
            self.changes.pop(user, None)
            return
        try:
            change = _changed(self._known, asked)
            if change.credential is not None and (change.mechanism, user) not in self._known:
                self._take_room()
            self.changes[user], self.results[user] = change, None
        except KafkaError as error:
            self.results[user] = error.to_keep()

    def _take_room(self) -> None:
        self._room -= 1
        if self._room < 0:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The cluster holds at most {MOST_CREDENTIALS} SCRAM credentials",
            )


_TWICE = KafkaError(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


def _changed(known: Credentials, change: Deletion | Upsertion) -> ScramCredentialChanged:
    """The change that a client asks for; KafkaError."""
    mechanism = MECHANISMS.get(change.mechanism)
    if not change.user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        if (mechanism, change.user) not in known:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return ScramCredentialChanged(mechanism, change.user, None)
    problem = _problem(change)
    if problem is not None:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    parts = change.salted_password, change.salt, change.iterations
    return ScramCredentialChanged(mechanism, change.user, credential_of(mechanism, *parts))


def _problem(upsertion: Upsertion) -> str | None:
    """The reason why a credential isn't acceptable; None if it is."""
    if upsertion.iterations < MIN_ITERATIONS:
        return "Too few iterations"
    if upsertion.iterations > MAX_ITERATIONS:
        return "Too many iterations"
    if len(upsertion.user) > MOST_NAME_CHARACTERS:
        return "Username is too long"
    if not 0 < len(upsertion.salt) <= MOST_SALT_BYTES:
        return "The salt is empty or too long"
    if not 0 < len(upsertion.salted_password) <= MOST_SALTED_BYTES:
        return "The salted password is empty or too long"
    return None


def change_credential(
    credentials: dict[ScramUser, ScramCredential], change: ScramCredentialChanged
) -> None:
    """Carry out a change."""
    if change.credential is None:
        credentials.pop((change.mechanism, change.user), None)
    else:
        credentials[change.mechanism, change.user] = change.credential


def credential_changes(credentials: Credentials) -> list[ScramCredentialChanged]:
    """The changes that make these credentials out of none."""
    return [
        ScramCredentialChanged(mechanism, user, credential)
        for (mechanism, user), credential in credentials.items()
    ]


def changed_from_json(
    mechanism: str, user: str, credential: Sequence[str | int] | None
) -> ScramCredentialChanged:
    """A change as ``kwire.metadata.changes.to_json`` writes it."""
    if credential is None:
        return ScramCredentialChanged(mechanism, user, None)
    return ScramCredentialChanged(mechanism, user, stored_credential(credential))


def stored_credential(fields: Sequence[str | int]) -> ScramCredential:
    """A credential as ``credential_to_json`` writes it."""
    *keys, iterations = fields
    salt, stored_key, server_key = (bytes.fromhex(str(key)) for key in keys)
    return ScramCredential(salt, stored_key, server_key, int(iterations))


def credential_to_json(credential: ScramCredential | None) -> list[str | int] | None:
    """The credential of a change, in the form in which it is stored."""
    if credential is None:
        return None
    salt, stored_key, server_key, iterations = credential
    return [salt.hex(), stored_key.hex(), server_key.hex(), iterations]
