"""AlterShareGroupOffsets (API key 91): changes the start offsets of a share group.

Version 0, flexible.
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


class AlterShareGroupOffsetsRequestPartition(Nested):
    """An element of ``partitions`` in ``AlterShareGroupOffsetsRequestTopic``."""

    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Nested):
    """An element of ``topics`` in ``AlterShareGroupOffsetsRequest``."""

    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(Request, key=91, versions=(0, 0), flexible=0):
    """Changes the start offsets of a share group."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Nested):
    """An element of ``partitions`` in ``AlterShareGroupOffsetsResponseTopic``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class AlterShareGroupOffsetsResponseTopic(Nested):
    """An element of ``responses`` in ``AlterShareGroupOffsetsResponse``."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(Response, key=91, versions=(0, 0), flexible=0):
    """The answer to ``AlterShareGroupOffsetsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
