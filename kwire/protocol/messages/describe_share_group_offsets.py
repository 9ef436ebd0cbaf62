"""DescribeShareGroupOffsets (API key 90): reads the start offsets of share groups.

Versions 0 to 1, flexible. Changes by version:

- 1: the response gains ``DescribeShareGroupOffsetsResponsePartition.lag``; KIP-1226.
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


class DescribeShareGroupOffsetsRequestTopic(Nested):
    """An element of ``topics`` in ``DescribeShareGroupOffsetsRequestGroup``."""

    topic_name: str = string()
    partitions: list[int] = array(int32)


class DescribeShareGroupOffsetsRequestGroup(Nested):
    """An element of ``groups`` in ``DescribeShareGroupOffsetsRequest``."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable=True
    )


class DescribeShareGroupOffsetsRequest(Request, key=90, versions=(0, 1), flexible=0):
    """Reads the start offsets of share groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


class DescribeShareGroupOffsetsResponsePartition(Nested):
    """An element of ``partitions`` in ``DescribeShareGroupOffsetsResponseTopic``."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64(since=1, default=-1, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DescribeShareGroupOffsetsResponseTopic(Nested):
    """An element of ``topics`` in ``DescribeShareGroupOffsetsResponseGroup``."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Nested):
    """An element of ``groups`` in ``DescribeShareGroupOffsetsResponse``."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DescribeShareGroupOffsetsResponse(Response, key=90, versions=(0, 1), flexible=0):
    """The answer to ``DescribeShareGroupOffsetsRequest``."""

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )
