"""OffsetCommit (API key 8): stores the committed offsets of a group.

Versions 2 to 10, flexible from 8. Changes by version:

- 3: the response gains ``throttle_time_ms``.
- 4: the broker sends the response before it throttles the client (KIP-219).
- 5: the request loses ``retention_time_ms``; the broker's settings decide on retention (KIP-211).
- 6: the request gains ``OffsetCommitRequestPartition.committed_leader_epoch``; KIP-320.
- 7: the request gains ``group_instance_id``; groups may have static members (KIP-345).
- 8: flexible encoding.
- 9: members of KIP-848 consumer groups may commit, and the response may carry the error
  STALE_MEMBER_EPOCH (KIP-848).
- 10: the request loses ``OffsetCommitRequestTopic.name``; the request gains
  ``OffsetCommitRequestTopic.topic_id``; the response loses ``OffsetCommitResponseTopic.name``;
  the response gains ``OffsetCommitResponseTopic.topic_id``; the response may carry the error
  UNKNOWN_TOPIC_ID (KIP-848).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetCommitRequestPartition(Nested):
    """An element of ``partitions`` in ``OffsetCommitRequestTopic``."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable=True)


class OffsetCommitRequestTopic(Nested):
    """An element of ``topics`` in ``OffsetCommitRequest``."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, key=8, versions=(2, 10), flexible=8):
    """Stores the committed offsets of a group."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1, ignorable=True)
    member_id: str = string(ignorable=True)
    group_instance_id: str | None = string(since=7, nullable=True, default=None)
    retention_time_ms: int = int64(until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Nested):
    """An element of ``partitions`` in ``OffsetCommitResponseTopic``."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Nested):
    """An element of ``topics`` in ``OffsetCommitResponse``."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, key=8, versions=(2, 10), flexible=8):
    """The answer to ``OffsetCommitRequest``."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
