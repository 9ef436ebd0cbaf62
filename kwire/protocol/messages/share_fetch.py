"""ShareFetch (API key 78): acquires records for a member of a share group (KIP-932).

Versions 1 to 2, flexible. Changes by version:

- 2: the request gains ``share_acquire_mode`` and ``is_renew_ack``; KIP-1206 and KIP-1222.
"""

from kwire.protocol.file_slice import Records
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
    record_batches,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Nested):
    """An element of ``acknowledgement_batches`` in ``FetchPartition``."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


class FetchPartition(Nested):
    """An element of ``partitions`` in ``FetchTopic``."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Nested):
    """An element of ``topics`` in ``ShareFetchRequest``."""

    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Nested):
    """An element of ``forgotten_topics_data`` in ``ShareFetchRequest``."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ShareFetchRequest(Request, key=78, versions=(1, 2), flexible=0):
    """Acquires records for a member of a share group (KIP-932)."""

    group_id: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True)
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(since=2, ignorable=True)
    is_renew_ack: bool = boolean(since=2)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Nested):
    """The ``current_leader`` in ``PartitionData``."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Nested):
    """An element of ``acquired_records`` in ``PartitionData``."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Nested):
    """An element of ``partitions`` in ``ShareFetchableTopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Records = record_batches(default=b"")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Nested):
    """An element of ``responses`` in ``ShareFetchResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``ShareFetchResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class ShareFetchResponse(Response, key=78, versions=(1, 2), flexible=0):
    """The answer to ``ShareFetchRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
