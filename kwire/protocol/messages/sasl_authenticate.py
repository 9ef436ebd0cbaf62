"""SaslAuthenticate (API key 36): carries one step of a SASL exchange.

Versions 0 to 2, flexible from 2. Changes by version:

- 1: the response gains ``session_lifetime_ms``; KIP-368.
- 2: flexible encoding.
"""

from kwire.protocol.types import (
    Request,
    Response,
    binary,
    int16,
    int64,
    string,
)


class SaslAuthenticateRequest(Request, key=36, versions=(0, 2), flexible=2):
    """Carries one step of a SASL exchange."""

    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Response, key=36, versions=(0, 2), flexible=2):
    """The answer to ``SaslAuthenticateRequest``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64(since=1, ignorable=True)
