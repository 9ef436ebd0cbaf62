"""ListOffsets (API key 2): finds offsets by timestamp, and the ends of a partition.

Versions 1 to 11, flexible from 6. Changes by version:

- 2: the request gains ``isolation_level``; the response gains ``throttle_time_ms``; a request may
  name an isolation level (KIP-98).
- 3: the broker sends the response before it throttles the client (KIP-219).
- 4: the request gains ``ListOffsetsPartition.current_leader_epoch``; the response gains
  ``ListOffsetsPartitionResponse.leader_epoch``; KIP-320.
- 5: the response may carry the error OFFSET_NOT_AVAILABLE (KIP-207).
- 6: flexible encoding.
- 7: timestamp -3 asks for the greatest timestamp (KIP-734).
- 8: timestamp -4 asks for the earliest local offset (KIP-405).
- 9: timestamp -5 asks for the last tiered offset (KIP-1005).
- 10: the request gains ``timeout_ms``; KIP-1075.
- 11: timestamp -6 asks for the earliest offset waiting for upload (KIP-1023).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ListOffsetsPartition(Nested):
    """An element of ``partitions`` in ``ListOffsetsTopic``."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsTopic(Nested):
    """An element of ``topics`` in ``ListOffsetsRequest``."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, key=2, versions=(1, 11), flexible=6):
    """Finds offsets by timestamp, and the ends of a partition."""

    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10, ignorable=True)


class ListOffsetsPartitionResponse(Nested):
    """An element of ``partitions`` in ``ListOffsetsTopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


class ListOffsetsTopicResponse(Nested):
    """An element of ``topics`` in ``ListOffsetsResponse``."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, key=2, versions=(1, 11), flexible=6):
    """The answer to ``ListOffsetsRequest``."""

    throttle_time_ms: int = int32(since=2, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
