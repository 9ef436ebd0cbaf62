"""WriteTxnMarkers: writes the markers that end transactions into this broker's partitions.

Behaviour: the senders are coordinators of other brokers, and operators who abort a hanging
transaction (``kafka-transactions.sh abort``). From version 2 on, a marker names the version of the
protocol by which the partition checks its epoch (KIP-1228).
"""

from kwire.broker.markers import EndMarker, write_marker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.waiting import Unfinished, at_once_or_later, later
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


UNITS_PER_TOPIC = 2
UNITS_PER_MARKER = 120


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Unfinished:
    """Write every marker into every partition it names."""
    return at_once_or_later(_handle(request, context))


async def _handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    markers = [await _write_all(one, context) for one in request.markers]
    return WriteTxnMarkersResponse(markers=markers)


async def _write_all(wanted: WritableTxnMarker, context: RequestContext) -> WritableTxnMarkerResult:
    marker = EndMarker(
        wanted.producer_id,
        wanted.producer_epoch,
        wanted.coordinator_epoch,
        wanted.transaction_result,
        wanted.transaction_version,
    )
    work = context.work
    result = WritableTxnMarkerResult(producer_id=wanted.producer_id, topics=[])
    if work.spend(UNITS_PER_TOPIC):
        await later(work.next_slice)
    for topic in wanted.topics:
        answer = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
        result.topics.append(answer)
        if work.spend(UNITS_PER_TOPIC):
            await later(work.next_slice)
        for index in topic.partition_indexes:
            if work.spend(UNITS_PER_MARKER):
                await later(work.next_slice)
            code = _write(marker, topic.name, index, context)
            answer.partitions.append(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            )
    return result


def _write(marker: EndMarker, topic: str, index: int, context: RequestContext) -> ErrorCode:
    try:
        write_marker(context.broker, marker, topic, index)
    except KafkaError as error:
        # A coordinator on another broker takes these errors for a leader that isn't ready.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
    return ErrorCode.NONE
