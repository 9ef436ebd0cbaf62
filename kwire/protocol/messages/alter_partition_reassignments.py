"""AlterPartitionReassignments (API key 45): starts or cancels moving replicas to other brokers.

Versions 0 to 1, flexible. Changes by version:

- 1: the request and the response gain ``allow_replication_factor_change``.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    string,
)


class ReassignablePartition(Nested):
    """An element of ``partitions`` in ``ReassignableTopic``."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable=True, default=None)


class ReassignableTopic(Nested):
    """An element of ``topics`` in ``AlterPartitionReassignmentsRequest``."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, key=45, versions=(0, 1), flexible=0):
    """Starts or cancels moving replicas to other brokers."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Nested):
    """An element of ``partitions`` in ``ReassignableTopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


class ReassignableTopicResponse(Nested):
    """An element of ``responses`` in ``AlterPartitionReassignmentsResponse``."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, key=45, versions=(0, 1), flexible=0):
    """The answer to ``AlterPartitionReassignmentsRequest``."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(since=1, default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
