"""Vote (API key 52): asks a voter of the quorum for its vote.

Versions 0 to 2, flexible. Changes by version:

- 1: the request gains ``voter_id``, ``VoteRequestPartitionData.replica_directory_id`` and
  ``VoteRequestPartitionData.voter_directory_id``; the response gains ``node_endpoints``; KIP-853.
- 2: the request gains ``VoteRequestPartitionData.pre_vote``; a request may ask for a pre-vote,
  which starts no election (KIP-996).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class VoteRequestPartitionData(Nested):
    """An element of ``partitions`` in ``VoteRequestTopicData``."""

    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=1, ignorable=True)
    voter_directory_id: bytes = uuid(since=1, ignorable=True)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(since=2)


class VoteRequestTopicData(Nested):
    """An element of ``topics`` in ``VoteRequest``."""

    topic_name: str = string()
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData)


class VoteRequest(Request, key=52, versions=(0, 2), flexible=0):
    """Asks a voter of the quorum for its vote."""

    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1, ignorable=True)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData)


class VoteResponsePartitionData(Nested):
    """An element of ``partitions`` in ``VoteResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class VoteResponseTopicData(Nested):
    """An element of ``topics`` in ``VoteResponse``."""

    topic_name: str = string()
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData)


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``VoteResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


class VoteResponse(Response, key=52, versions=(0, 2), flexible=0):
    """The answer to ``VoteRequest``."""

    error_code: int = int16()
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)
