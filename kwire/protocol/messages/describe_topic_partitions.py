"""DescribeTopicPartitions (API key 75): describes topics and their partitions, page by page.

Version 0, flexible.
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
    struct,
    uuid,
)


class TopicRequest(Nested):
    """An element of ``topics`` in ``DescribeTopicPartitionsRequest``."""

    name: str = string()


class Cursor(Nested):
    """The ``cursor`` or ``next_cursor``."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request, key=75, versions=(0, 0), flexible=0):
    """Describes topics and their partitions, page by page."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable=True, default=None)


class DescribeTopicPartitionsResponsePartition(Nested):
    """An element of ``partitions`` in ``DescribeTopicPartitionsResponseTopic``."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable=True, default=None)
    last_known_elr: list[int] | None = array(int32, nullable=True, default=None)
    offline_replicas: list[int] = array(int32, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Nested):
    """An element of ``topics`` in ``DescribeTopicPartitionsResponse``."""

    error_code: int = int16()
    name: str | None = string(nullable=True)
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsResponse(Response, key=75, versions=(0, 0), flexible=0):
    """The answer to ``DescribeTopicPartitionsRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable=True, default=None)
