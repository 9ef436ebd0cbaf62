"""DeleteShareGroupOffsets (API key 92): deletes the start offsets of a share group.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
    uuid,
)


class DeleteShareGroupOffsetsRequestTopic(Nested):
    """An element of ``topics`` in ``DeleteShareGroupOffsetsRequest``."""

    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(Request, key=92, versions=(0, 0), flexible=0):
    """Deletes the start offsets of a share group."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Nested):
    """An element of ``responses`` in ``DeleteShareGroupOffsetsResponse``."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DeleteShareGroupOffsetsResponse(Response, key=92, versions=(0, 0), flexible=0):
    """The answer to ``DeleteShareGroupOffsetsRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
