"""Fetch (API key 1): reads record batches from partitions, for consumers and for followers.

Versions 4 to 18, flexible from 12. Changes by version:

- 4: records come in batches of version 2, and a request may ask for read_committed (KIP-98).
- 5: the request gains ``FetchPartition.log_start_offset``; the response gains
  ``PartitionData.log_start_offset``.
- 6: the format of version 5.
- 7: the request and the response gain ``session_id``; the request gains ``session_epoch`` and
  ``forgotten_topics_data``; the response gains ``error_code``; clients may use fetch sessions
  (KIP-227).
- 8: the broker sends the response before it throttles the client (KIP-219).
- 9: the request gains ``FetchPartition.current_leader_epoch``; the broker fences clients by
  leader epoch (KIP-320).
- 10: records may be compressed with zstd (KIP-110).
- 11: the request gains ``rack_id``; the response gains ``PartitionData.preferred_read_replica``;
  consumers may fetch from followers (KIP-392).
- 12: flexible encoding; the request gains ``cluster_id`` and
  ``FetchPartition.last_fetched_epoch``; the response gains ``PartitionData.diverging_epoch``,
  ``PartitionData.current_leader`` and ``PartitionData.snapshot_id``; the response tells a
  follower where its log diverges (KIP-595).
- 13: the request loses ``FetchTopic.topic`` and ``ForgottenTopic.topic``; the request gains
  ``FetchTopic.topic_id`` and ``ForgottenTopic.topic_id``; the response loses
  ``FetchableTopicResponse.topic``; the response gains ``FetchableTopicResponse.topic_id``;
  KIP-516.
- 14: the response may carry the error OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
- 15: the request loses ``replica_id``; the request gains ``replica_state``; KIP-903.
- 16: the response gains ``node_endpoints``; KIP-951.
- 17: the request gains ``FetchPartition.replica_directory_id``; KIP-853.
- 18: the request gains ``FetchPartition.high_watermark``; KIP-1166.
"""

from kwire.protocol.file_slice import Records
from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class ReplicaState(Nested):
    """The ``replica_state`` in ``FetchRequest``."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Nested):
    """An element of ``partitions`` in ``FetchTopic``."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0, ignorable=True)
    high_watermark: int = int64(since=18, default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Nested):
    """An element of ``topics`` in ``FetchRequest``."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Nested):
    """An element of ``forgotten_topics_data`` in ``FetchRequest``."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[int] = array(int32)


class FetchRequest(Request, key=1, versions=(4, 18), flexible=12):
    """Reads record batches from partitions, for consumers and for followers."""

    cluster_id: str | None = string(since=12, nullable=True, default=None, tag=0, ignorable=True)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8(ignorable=True)
    session_id: int = int32(since=7, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11, ignorable=True)


class EpochEndOffset(Nested):
    """The ``diverging_epoch`` in ``PartitionData``."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Nested):
    """The ``current_leader`` in ``PartitionData``."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Nested):
    """The ``snapshot_id`` in ``PartitionData``."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Nested):
    """An element of ``aborted_transactions`` in ``PartitionData``."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Nested):
    """An element of ``partitions`` in ``FetchableTopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable=True, ignorable=True
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Records = record_batches(nullable=True)


class FetchableTopicResponse(Nested):
    """An element of ``responses`` in ``FetchResponse``."""

    topic: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``FetchResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class FetchResponse(Response, key=1, versions=(4, 18), flexible=12):
    """The answer to ``FetchRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(since=7, ignorable=True)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
