"""ReadShareGroupState (API key 84): reads the persistent state of share partitions.

Version 0, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class PartitionData(Nested):
    """An element of ``partitions`` in ``ReadStateData``."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Nested):
    """An element of ``topics`` in ``ReadShareGroupStateRequest``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Request, key=84, versions=(0, 0), flexible=0):
    """Reads the persistent state of share partitions."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Nested):
    """An element of ``state_batches`` in ``PartitionResult``."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Nested):
    """An element of ``partitions`` in ``ReadStateResult``."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Nested):
    """An element of ``results`` in ``ReadShareGroupStateResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Response, key=84, versions=(0, 0), flexible=0):
    """The answer to ``ReadShareGroupStateRequest``."""

    results: list[ReadStateResult] = array(ReadStateResult)
