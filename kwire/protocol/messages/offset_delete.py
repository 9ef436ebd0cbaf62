"""OffsetDelete (API key 47): deletes the committed offsets of a group for some partitions.

Version 0, never flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
)


class OffsetDeleteRequestPartition(Nested):
    """An element of ``partitions`` in ``OffsetDeleteRequestTopic``."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Nested):
    """An element of ``topics`` in ``OffsetDeleteRequest``."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, key=47, versions=(0, 0), flexible=None):
    """Deletes the committed offsets of a group for some partitions."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Nested):
    """An element of ``partitions`` in ``OffsetDeleteResponseTopic``."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Nested):
    """An element of ``topics`` in ``OffsetDeleteResponse``."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, key=47, versions=(0, 0), flexible=None):
    """The answer to ``OffsetDeleteRequest``."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
