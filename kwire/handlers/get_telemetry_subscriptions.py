"""GetTelemetrySubscriptions: the metrics that a client has to push (KIP-714).

Behavior: a client without an instance id gets one. The codecs are in Kafka's order of preference. A
client that asks again before its interval is over is throttled. kwire advertises this API only if
its HTTP port shows the pushed metrics, and while there is a subscription. Kafka advertises it if it
has a plugin for them.
"""

from kwire.broker.client_metrics import Client
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.protocol.types import ZERO_UUID
from kwire.record.compression import Compression

CODECS = [Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY]


RIGHTS = (everybody("it tells nothing about the cluster"),)


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    """Answer with the subscription of the client."""
    broker = context.broker
    instance_id = request.client_instance_id
    while instance_id == ZERO_UUID:
        instance_id = broker.random.randbytes(16)
    try:
        subscription = broker.client_metrics.get(instance_id, client_of(context))
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=[int(codec) for codec in CODECS],
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=broker.integer("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def client_of(context: RequestContext) -> Client:
    """The client of a request."""
    connection = context.connection
    software = connection.software
    return Client(
        context.client_id or "",
        software.name if software else "",
        software.version if software else "",
        connection.peer_host,
        connection.peer_port,
        connection.connection_id,
        connection.is_gone,
    )
