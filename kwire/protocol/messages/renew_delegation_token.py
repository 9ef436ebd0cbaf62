"""RenewDelegationToken (API key 39): prolongs the life of a delegation token.

Versions 1 to 2, flexible from 2. Changes by version:

- 2: flexible encoding.
"""

from kwire.protocol.types import (
    Request,
    Response,
    binary,
    int16,
    int32,
    int64,
)


class RenewDelegationTokenRequest(Request, key=39, versions=(1, 2), flexible=2):
    """Prolongs the life of a delegation token."""

    hmac: bytes = binary()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, key=39, versions=(1, 2), flexible=2):
    """The answer to ``RenewDelegationTokenRequest``."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
