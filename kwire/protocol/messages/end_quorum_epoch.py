"""EndQuorumEpoch (API key 54): tells the voters of the quorum that its leader resigns.

Versions 0 to 1, flexible from 1. Changes by version:

- 1: flexible encoding; the request loses
  ``EndQuorumEpochRequestPartitionData.preferred_successors``; the request gains
  ``EndQuorumEpochRequestPartitionData.preferred_candidates`` and ``leader_endpoints``; the
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


class ReplicaInfo(Nested):
    """An element of ``preferred_candidates`` in ``EndQuorumEpochRequestPartitionData``."""

    candidate_id: int = int32()
    candidate_directory_id: bytes = uuid()


class EndQuorumEpochRequestPartitionData(Nested):
    """An element of ``partitions`` in ``EndQuorumEpochRequestTopicData``."""

    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, until=0, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, since=1, ignorable=True)


class EndQuorumEpochRequestTopicData(Nested):
    """An element of ``topics`` in ``EndQuorumEpochRequest``."""

    topic_name: str = string()
    partitions: list[EndQuorumEpochRequestPartitionData] = array(EndQuorumEpochRequestPartitionData)


class LeaderEndpoint(Nested):
    """An element of ``leader_endpoints`` in ``EndQuorumEpochRequest``."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class EndQuorumEpochRequest(Request, key=54, versions=(0, 1), flexible=1):
    """Tells the voters of the quorum that its leader resigns."""

    cluster_id: str | None = string(nullable=True, default=None)
    topics: list[EndQuorumEpochRequestTopicData] = array(EndQuorumEpochRequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, since=1, ignorable=True)


class EndQuorumEpochResponsePartitionData(Nested):
    """An element of ``partitions`` in ``EndQuorumEpochResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class EndQuorumEpochResponseTopicData(Nested):
    """An element of ``topics`` in ``EndQuorumEpochResponse``."""

    topic_name: str = string()
    partitions: list[EndQuorumEpochResponsePartitionData] = array(
        EndQuorumEpochResponsePartitionData
    )


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``EndQuorumEpochResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class EndQuorumEpochResponse(Response, key=54, versions=(0, 1), flexible=1):
    """The answer to ``EndQuorumEpochRequest``."""

    error_code: int = int16()
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)
