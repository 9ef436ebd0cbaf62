"""InitializeShareGroupState (API key 83): creates the persistent state of share partitions.

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


class PartitionData(Nested):
    """An element of ``partitions`` in ``InitializeStateData``."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Nested):
    """An element of ``topics`` in ``InitializeShareGroupStateRequest``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Request, key=83, versions=(0, 0), flexible=0):
    """Creates the persistent state of share partitions."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Nested):
    """An element of ``partitions`` in ``InitializeStateResult``."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class InitializeStateResult(Nested):
    """An element of ``results`` in ``InitializeShareGroupStateResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, key=83, versions=(0, 0), flexible=0):
    """The answer to ``InitializeShareGroupStateRequest``."""

    results: list[InitializeStateResult] = array(InitializeStateResult)
