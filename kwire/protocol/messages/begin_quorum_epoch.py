"""BeginQuorumEpoch (API key 53): tells the voters of the quorum which voter leads a new epoch.

Versions 0 to 1, flexible from 1. Changes by version:

- 1: flexible encoding; the request gains ``voter_id``,
  ``BeginQuorumEpochRequestPartitionData.voter_directory_id`` and ``leader_endpoints``; the
  response gains ``node_endpoints``; KIP-853.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
    uint16,
    uuid,
)


class BeginQuorumEpochRequestPartitionData(Nested):
    """An element of ``partitions`` in ``BeginQuorumEpochRequestTopicData``."""

    partition_index: int = int32()
    voter_directory_id: bytes = uuid(since=1, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochRequestTopicData(Nested):
    """An element of ``topics`` in ``BeginQuorumEpochRequest``."""

    topic_name: str = string()
    partitions: list[BeginQuorumEpochRequestPartitionData] = array(
        BeginQuorumEpochRequestPartitionData
    )


class LeaderEndpoint(Nested):
    """An element of ``leader_endpoints`` in ``BeginQuorumEpochRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochRequest(Request, key=53, versions=(0, 1), flexible=1):
    """Tells the voters of the quorum which voter leads a new epoch."""

    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData] = array(BeginQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, since=1, ignorable=True)


class BeginQuorumEpochResponsePartitionData(Nested):
    """An element of ``partitions`` in ``BeginQuorumEpochResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class BeginQuorumEpochResponseTopicData(Nested):
    """An element of ``topics`` in ``BeginQuorumEpochResponse``."""

    topic_name: str = string()
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(
        BeginQuorumEpochResponsePartitionData
    )


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``BeginQuorumEpochResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class BeginQuorumEpochResponse(Response, key=53, versions=(0, 1), flexible=1):
    """The answer to ``BeginQuorumEpochRequest``."""

    error_code: int = int16()
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)
