"""CreateDelegationToken (API key 38): creates a delegation token.

Versions 1 to 3, flexible from 2. Changes by version:

- 2: flexible encoding.
- 3: the request gains ``owner_principal_type`` and ``owner_principal_name``; the response gains
  ``token_requester_principal_type`` and ``token_requester_principal_name``; a user may create a
  token for another user (KIP-373).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    binary,
    int16,
    int32,
    int64,
    string,
)


class CreatableRenewers(Nested):
    """An element of ``renewers`` in ``CreateDelegationTokenRequest``."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request, key=38, versions=(1, 3), flexible=2):
    """Creates a delegation token."""

    owner_principal_type: str | None = string(since=3, nullable=True)
    owner_principal_name: str | None = string(since=3, nullable=True)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Response, key=38, versions=(1, 3), flexible=2):
    """The answer to ``CreateDelegationTokenRequest``."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()
