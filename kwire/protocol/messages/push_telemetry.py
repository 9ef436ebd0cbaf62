"""PushTelemetry (API key 72): sends the metrics of a client to the broker (KIP-714).

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    binary,
    boolean,
    int8,
    int16,
    int32,
    uuid,
)


class PushTelemetryRequest(Request, key=72, versions=(0, 0), flexible=0):
    """Sends the metrics of a client to the broker (KIP-714)."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = binary()


class PushTelemetryResponse(Response, key=72, versions=(0, 0), flexible=0):
    """The answer to ``PushTelemetryRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
