"""OffsetForLeaderEpoch (API key 23): reads the end offset of a leader epoch in the leader's log.

Versions 2 to 4, flexible from 4. Changes by version:

- 2: the broker fences clients by ``current_leader_epoch`` (KIP-320).
- 3: the request gains ``replica_id``; KIP-320.
- 4: flexible encoding.
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
)


class OffsetForLeaderPartition(Nested):
    """An element of ``partitions`` in ``OffsetForLeaderTopic``."""

    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Nested):
    """An element of ``topics`` in ``OffsetForLeaderEpochRequest``."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request, key=23, versions=(2, 4), flexible=4):
    """Reads the end offset of a leader epoch in the leader's log."""

    replica_id: int = int32(since=3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Nested):
    """An element of ``partitions`` in ``OffsetForLeaderTopicResult``."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Nested):
    """An element of ``topics`` in ``OffsetForLeaderEpochResponse``."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response, key=23, versions=(2, 4), flexible=4):
    """The answer to ``OffsetForLeaderEpochRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
