"""ElectLeaders (API key 43): makes partitions elect a leader.

Versions 0 to 2, flexible from 2. Changes by version:

- 1: the request gains ``election_type``; the response gains ``error_code``; a request may ask for
  unclean elections (KIP-460).
- 2: flexible encoding.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
)


class TopicPartitions(Nested):
    """An element of ``topic_partitions`` in ``ElectLeadersRequest``."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Request, key=43, versions=(0, 2), flexible=2):
    """Makes partitions elect a leader."""

    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable=True)
    timeout_ms: int = int32(default=60000)


class PartitionResult(Nested):
    """An element of ``partition_result`` in ``ReplicaElectionResult``."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class ReplicaElectionResult(Nested):
    """An element of ``replica_election_results`` in ``ElectLeadersResponse``."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, key=43, versions=(0, 2), flexible=2):
    """The answer to ``ElectLeadersRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
