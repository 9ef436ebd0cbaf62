"""AlterUserScramCredentials (API key 51): changes or deletes SCRAM credentials of users.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    binary,
    int8,
    int16,
    int32,
    string,
)


class ScramCredentialDeletion(Nested):
    """An element of ``deletions`` in ``AlterUserScramCredentialsRequest``."""

    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Nested):
    """An element of ``upsertions`` in ``AlterUserScramCredentialsRequest``."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = binary()
    salted_password: bytes = binary()


class AlterUserScramCredentialsRequest(Request, key=51, versions=(0, 0), flexible=0):
    """Changes or deletes SCRAM credentials of users."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Nested):
    """An element of ``results`` in ``AlterUserScramCredentialsResponse``."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class AlterUserScramCredentialsResponse(Response, key=51, versions=(0, 0), flexible=0):
    """The answer to ``AlterUserScramCredentialsRequest``."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
