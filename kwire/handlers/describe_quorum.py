"""DescribeQuorum: the brokers that keep the metadata of the cluster.

Behavior: in Kafka, a quorum of controllers replicates a log of metadata. kwire keeps this log in a
store, and one broker is the controller. So the leader is the controller, the epoch is the number of
elections, and log end and high watermark are the revision of the metadata. All brokers are voters,
because each of them may become the controller. A broker that isn't fenced has all commits, so it
counts as caught up. A voter's directory id is that of the broker's first data directory.

A broker that doesn't reach its store answers REQUEST_TIMED_OUT, as a broker of Kafka that doesn't
reach a controller.
"""

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, once
from kwire.handlers.lib.slices import give_way, pieces
from kwire.metadata.image import BrokerImage
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from kwire.protocol.types import ZERO_UUID, uuid_from_str

METADATA_TOPIC = "__cluster_metadata"
NODES_SINCE = 2
STORE_IS_SILENT = "the metadata store (kwire.metadata.store) doesn't answer"


RIGHTS = (once(DESCRIBE),)


async def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Describe the quorum; a request about another topic gets an error."""
    asked = [
        (topic.topic_name, [p.partition_index for p in topic.partitions[:2]])
        for topic in request.topics[:2]
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return await _refused(request, context)
    broker = context.broker
    if broker.lease is not None and broker.lease.is_cut_off:
        return DescribeQuorumResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=STORE_IS_SILENT
        )
    image, now_ms = broker.image, broker.now_ms()
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=broker.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=image.revision,
        current_voters=[
            ReplicaState(
                replica_id=node_id,
                replica_directory_id=_directory_id(voter, context.api_version),
                log_end_offset=-1 if voter.is_fenced else image.revision,
                last_fetch_timestamp=-1 if voter.is_fenced else now_ms,
                last_caught_up_timestamp=-1 if voter.is_fenced else now_ms,
            )
            for node_id, voter in sorted(image.brokers.items())
        ],
    )
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    response = DescribeQuorumResponse(topics=[topic])
    if context.api_version >= NODES_SINCE:
        response.nodes = [
            Node(
                node_id=node_id,
                listeners=[
                    Listener(name=name, host=host, port=port)
                    for name, host, port in voter.told_endpoints
                ],
            )
            for node_id, voter in sorted(image.brokers.items())
        ]
    return response


def _directory_id(voter: BrokerImage, version: int) -> bytes:
    is_told = voter.directories and version >= NODES_SINCE
    return uuid_from_str(voter.directories[0]) if is_told else ZERO_UUID


async def _refused(
    request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    work = context.work
    response = DescribeQuorumResponse()
    for topic in request.topics:
        await give_way(work)
        refused = DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=[])
        response.topics.append(refused)
        for piece in pieces(topic.partitions):
            await give_way(work)
            refused.partitions += [
                DescribeQuorumResponsePartitionData(
                    partition_index=one.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for one in piece
            ]
    return response
