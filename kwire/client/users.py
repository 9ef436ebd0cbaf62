"""Users of SCRAM: their credentials, which a client salts, so that no password is sent."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.errors import error_of
from kwire.errors import ErrorCode
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NAMES = {number: name for name, number in MECHANISMS.items()}


class Credential(NamedTuple):
    """A user's credential, as a broker tells it: without its keys."""

    user: str
    mechanism: str
    iterations: int


async def describe_users(
    cluster: Cluster, names: Sequence[str] | None = None
) -> dict[str, list[Credential]]:
    """The credentials of users (None: all), sorted, without users that have none; KafkaError."""
    wanted = None if names is None else [UserName(name=name) for name in names]
    answer = await cluster.ask(
        DescribeUserScramCredentialsRequest(users=wanted), DescribeUserScramCredentialsResponse
    )
    error = error_of(answer.error_code, answer.error_message, "the users")
    if error is not None:
        raise error
    found = {}
    for row in sorted(answer.results, key=lambda row: row.user):
        error = error_of(row.error_code, row.error_message, f"user {row.user}")
        if error is None:
            found[row.user] = [
                Credential(row.user, _NAMES.get(one.mechanism, str(one.mechanism)), one.iterations)
                for one in sorted(row.credential_infos, key=lambda one: one.mechanism)
            ]
        elif error.code is not ErrorCode.RESOURCE_NOT_FOUND:
            raise error
    return found


async def set_password(
    cluster: Cluster, credential: Credential, password: bytes, salt: bytes
) -> None:
    """Set a user's password for one mechanism; KafkaError."""
    name = _HASHES[credential.mechanism]
    salted = hashlib.pbkdf2_hmac(name, password, salt, credential.iterations)
    upsertion = ScramCredentialUpsertion(
        name=credential.user,
        mechanism=MECHANISMS[credential.mechanism],
        iterations=credential.iterations,
        salt=salt,
        salted_password=salted,
    )
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


async def delete_credential(cluster: Cluster, credential: Credential) -> None:
    """Delete a user's credential for one mechanism; KafkaError."""
    deletion = ScramCredentialDeletion(
        name=credential.user, mechanism=MECHANISMS[credential.mechanism]
    )
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    answer = await cluster.ask(request, AlterUserScramCredentialsResponse)
    for row in answer.results:
        error = error_of(row.error_code, row.error_message, f"user {row.user}")
        if error is not None:
            raise error
