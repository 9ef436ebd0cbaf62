"""Envelope (API key 58): carries a request that one broker forwards for a client.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    binary,
    int16,
)


class EnvelopeRequest(Request, key=58, versions=(0, 0), flexible=0):
    """Carries a request that one broker forwards for a client."""

    request_data: bytes = binary()
    request_principal: bytes | None = binary(nullable=True)
    client_host_address: bytes = binary()


class EnvelopeResponse(Response, key=58, versions=(0, 0), flexible=0):
    """The answer to ``EnvelopeRequest``."""

    response_data: bytes | None = binary(nullable=True, default=None)
    error_code: int = int16()
