"""DeleteShareGroupState (API key 86): deletes the persistent state of share partitions.

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


class PartitionData(Nested):
    """An element of ``partitions`` in ``DeleteStateData``."""

    partition: int = int32()


class DeleteStateData(Nested):
    """An element of ``topics`` in ``DeleteShareGroupStateRequest``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Request, key=86, versions=(0, 0), flexible=0):
    """Deletes the persistent state of share partitions."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Nested):
    """An element of ``partitions`` in ``DeleteStateResult``."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class DeleteStateResult(Nested):
    """An element of ``results`` in ``DeleteShareGroupStateResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, key=86, versions=(0, 0), flexible=0):
    """The answer to ``DeleteShareGroupStateRequest``."""

    results: list[DeleteStateResult] = array(DeleteStateResult)
