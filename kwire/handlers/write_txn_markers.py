"""WriteTxnMarkers: writes the markers that end transactions into this broker's partitions.

Behavior: the senders are coordinators of other brokers, and operators who abort a hanging
transaction (``kafka-transactions.sh abort``). From version 2 on, a marker names the version of the
protocol by which the partition checks its epoch (KIP-1228).
"""

from typing import TYPE_CHECKING, TypeAlias

from kwire.broker.flusher import Flush
from kwire.broker.markers import EndMarker, write_marker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, CLUSTER_ACTION, once
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from kwire.broker.delayed_response import Replication

_Written: TypeAlias = "tuple[WritableTxnMarkerPartitionResult, Replication]"

_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


RIGHTS = (once(ALTER, CLUSTER_ACTION, every=True),)


async def handle(
    request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    """Write every marker into every partition it names."""
    written: list[_Written] = []
    markers = [await _write_all(one, context, written) for one in request.markers]
    for row, replication in written:
        try:
            await later(replication.wait)
        except KafkaError as error:
            row.error_code = error.code
    return WriteTxnMarkersResponse(markers=markers)


async def _write_all(
    wanted: WritableTxnMarker, context: RequestContext, written: list[_Written]
) -> WritableTxnMarkerResult:
    """Write one marker to all partitions; ``written`` gets the replications to wait for."""
    marker = EndMarker(
        wanted.producer_id,
        wanted.producer_epoch,
        wanted.coordinator_epoch,
        wanted.transaction_result,
        wanted.transaction_version,
    )
    work = context.work
    result = WritableTxnMarkerResult(producer_id=wanted.producer_id, topics=[])
    await give_way(work)
    for topic in wanted.topics:
        answer = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
        result.topics.append(answer)
        await give_way(work)
        for index in topic.partition_indexes:
            await give_way(work)
            row = WritableTxnMarkerPartitionResult(partition_index=index)
            answer.partitions.append(row)
            try:
                awaited = write_marker(context.broker, marker, topic.name, index)
            except KafkaError as error:
                # For a coordinator on another broker, these errors mean that the leader isn't
                # ready.
                not_ready = error.code in _NOT_READY
                row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if not_ready else error.code
            else:
                if awaited is not None and not isinstance(awaited, Flush):
                    written.append((row, awaited))
    return result
