"""GetTelemetrySubscriptions (API key 71): tells a client which metrics to push (KIP-714).

Version 0, flexible.
"""

from kwire.protocol.types import (
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class GetTelemetrySubscriptionsRequest(Request, key=71, versions=(0, 0), flexible=0):
    """Tells a client which metrics to push (KIP-714)."""

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Response, key=71, versions=(0, 0), flexible=0):
    """The answer to ``GetTelemetrySubscriptionsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
