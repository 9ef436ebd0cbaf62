"""PushTelemetry: takes the metrics of a client (KIP-714).

Behavior: for unreadable metrics the error is INVALID_RECORD, after which a client pushes no more. A
separate thread decompresses and reads metrics, so that a client with many metrics delays no other
client. Metrics may decompress to ``MOST_TIMES`` the bytes that a client may push. The thread stops
when the client has gone. It first serves the connection that has used the threads least.
"""

from collections.abc import Callable
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.get_telemetry_subscriptions import client_of
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.handlers.lib.slices import free_in_slices, give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.protocol.otlp import Point, points
from kwire.protocol.wire import MalformedRequest
from kwire.record.batch import InvalidRecords, TooLarge
from kwire.record.compression import decompress

POINTS_AT_ONCE = 10
MOST_TIMES = 8


class _Push(NamedTuple):
    """The metrics that a client has pushed."""

    codec: int
    metrics: bytes
    most_bytes: int


RIGHTS = (everybody("the broker says which metrics it wants"),)


async def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    """Take the metrics."""
    broker, client = context.broker, client_of(context)
    try:
        broker.client_metrics.check_push(
            request.client_instance_id,
            client,
            request.subscription_id,
            request.compression_type,
            len(request.metrics),
            terminating=request.terminating,
        )
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    if request.metrics:
        most_bytes = MOST_TIMES * broker.integer("telemetry.max.bytes")
        push = _Push(request.compression_type, bytes(request.metrics), most_bytes)

        async def read() -> list[Point]:
            return await broker.threads.telemetry.run(context.work, _read_metrics, push)

        try:
            found = await later(read)
        except (InvalidRecords, TooLarge, MalformedRequest):
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
        broker.client_metrics.count_push()
        free_in_slices(found, context.work)
        found.reverse()
        while found:  # a point has many parts, so those that are taken are freed piece by piece
            piece = found[: -POINTS_AT_ONCE - 1 : -1]
            del found[-POINTS_AT_ONCE:]
            await give_way(context.work)
            broker.client_metrics.keep_points(request.client_instance_id, client, piece)
    return PushTelemetryResponse()


def _read_metrics(push: _Push, between: Callable[[], None]) -> list[Point]:
    return points(memoryview(decompress(push.codec, push.metrics, push.most_bytes)), between)
