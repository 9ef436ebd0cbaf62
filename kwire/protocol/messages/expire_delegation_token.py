"""ExpireDelegationToken (API key 40): changes when a delegation token expires.

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


class ExpireDelegationTokenRequest(Request, key=40, versions=(1, 2), flexible=2):
    """Changes when a delegation token expires."""

    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Response, key=40, versions=(1, 2), flexible=2):
    """The answer to ``ExpireDelegationTokenRequest``."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
