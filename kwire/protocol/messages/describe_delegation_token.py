"""DescribeDelegationToken (API key 41): lists delegation tokens.

Versions 1 to 3, flexible from 2. Changes by version:

- 2: flexible encoding.
- 3: the response gains ``DescribedDelegationToken.token_requester_principal_type`` and
  ``DescribedDelegationToken.token_requester_principal_name``.
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


class DescribeDelegationTokenOwner(Nested):
    """An element of ``owners`` in ``DescribeDelegationTokenRequest``."""

    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request, key=41, versions=(1, 3), flexible=2):
    """Lists delegation tokens."""

    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable=True
    )


class DescribedDelegationTokenRenewer(Nested):
    """An element of ``renewers`` in ``DescribedDelegationToken``."""

    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Nested):
    """An element of ``tokens`` in ``DescribeDelegationTokenResponse``."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, key=41, versions=(1, 3), flexible=2):
    """The answer to ``DescribeDelegationTokenRequest``."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
