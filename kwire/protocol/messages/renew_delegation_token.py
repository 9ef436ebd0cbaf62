"""RenewDelegationToken (API key 39): lets a delegation token live longer.

Versions 1 to 2, flexible from 2. What they brought:

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
    """Lets a delegation token live longer."""

    hmac: bytes = binary()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, key=39, versions=(1, 2), flexible=2):
    """The answer to ``RenewDelegationTokenRequest``."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
