"""DescribeQuorum (API key 55): shows the voters and observers of the metadata quorum.

Versions 0 to 2, flexible. Changes by version:

- 1: the response gains ``ReplicaState.last_fetch_timestamp`` and
  ``ReplicaState.last_caught_up_timestamp``; KIP-836.
- 2: the response gains ``error_message``, ``DescribeQuorumResponsePartitionData.error_message``,
  ``ReplicaState.replica_directory_id`` and ``nodes``; KIP-853.
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
    uint16,
    uuid,
)


class DescribeQuorumRequestPartitionData(Nested):
    """An element of ``partitions`` in ``DescribeQuorumRequestTopicData``."""

    partition_index: int = int32()


class DescribeQuorumRequestTopicData(Nested):
    """An element of ``topics`` in ``DescribeQuorumRequest``."""

    topic_name: str = string()
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData)


class DescribeQuorumRequest(Request, key=55, versions=(0, 2), flexible=0):
    """Shows the voters and observers of the metadata quorum."""

    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData)


class ReplicaState(Nested):
    """An element of ``current_voters`` or ``observers``."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=2)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64(since=1, default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Nested):
    """An element of ``partitions`` in ``DescribeQuorumResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class DescribeQuorumResponseTopicData(Nested):
    """An element of ``topics`` in ``DescribeQuorumResponse``."""

    topic_name: str = string()
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData
    )


class Listener(Nested):
    """An element of ``listeners`` in ``Node``."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class Node(Nested):
    """An element of ``nodes`` in ``DescribeQuorumResponse``."""

    node_id: int = int32()
    listeners: list[Listener] = array(Listener)


class DescribeQuorumResponse(Response, key=55, versions=(0, 2), flexible=0):
    """The answer to ``DescribeQuorumRequest``."""

    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData)
    nodes: list[Node] = array(Node, since=2)
