"""DescribeUserScramCredentials (API key 50): lists the SCRAM credentials of users, without their
secrets.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
)


class UserName(Nested):
    """An element of ``users`` in ``DescribeUserScramCredentialsRequest``."""

    name: str = string()


class DescribeUserScramCredentialsRequest(Request, key=50, versions=(0, 0), flexible=0):
    """Lists the SCRAM credentials of users, without their secrets."""

    users: list[UserName] | None = array(UserName, nullable=True)


class CredentialInfo(Nested):
    """An element of ``credential_infos`` in ``DescribeUserScramCredentialsResult``."""

    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Nested):
    """An element of ``results`` in ``DescribeUserScramCredentialsResponse``."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Response, key=50, versions=(0, 0), flexible=0):
    """The answer to ``DescribeUserScramCredentialsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
