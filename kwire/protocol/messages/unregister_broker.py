"""UnregisterBroker (API key 64): removes a broker from the cluster.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    int16,
    int32,
    string,
)


class UnregisterBrokerRequest(Request, key=64, versions=(0, 0), flexible=0):
    """Removes a broker from the cluster."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Response, key=64, versions=(0, 0), flexible=0):
    """The answer to ``UnregisterBrokerRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
