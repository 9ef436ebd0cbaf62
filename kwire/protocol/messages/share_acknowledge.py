"""ShareAcknowledge (API key 79): acknowledges records that a share group has acquired (KIP-932).

Versions 1 to 2, flexible. Changes by version:

- 2: the request gains ``is_renew_ack``; the response gains ``acquisition_lock_timeout_ms``;
  KIP-1222.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Nested):
    """An element of ``acknowledgement_batches`` in ``AcknowledgePartition``."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class AcknowledgePartition(Nested):
    """An element of ``partitions`` in ``AcknowledgeTopic``."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Nested):
    """An element of ``topics`` in ``ShareAcknowledgeRequest``."""

    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Request, key=79, versions=(1, 2), flexible=0):
    """Acknowledges records that a share group has acquired (KIP-932)."""

    group_id: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True)
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(since=2)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Nested):
    """The ``current_leader`` in ``PartitionData``."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Nested):
    """An element of ``partitions`` in ``ShareAcknowledgeTopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Nested):
    """An element of ``responses`` in ``ShareAcknowledgeResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``ShareAcknowledgeResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class ShareAcknowledgeResponse(Response, key=79, versions=(1, 2), flexible=0):
    """The answer to ``ShareAcknowledgeRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    acquisition_lock_timeout_ms: int = int32(since=2, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
