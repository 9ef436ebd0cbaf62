"""WriteShareGroupState (API key 85): writes the persistent state of share partitions.

Versions 0 to 1, flexible. Changes by version:

- 1: the request gains ``PartitionData.delivery_complete_count``; KIP-1226.
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


class StateBatch(Nested):
    """An element of ``state_batches`` in ``PartitionData``."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Nested):
    """An element of ``partitions`` in ``WriteStateData``."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(since=1, default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Nested):
    """An element of ``topics`` in ``WriteShareGroupStateRequest``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Request, key=85, versions=(0, 1), flexible=0):
    """Writes the persistent state of share partitions."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Nested):
    """An element of ``partitions`` in ``WriteStateResult``."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class WriteStateResult(Nested):
    """An element of ``results`` in ``WriteShareGroupStateResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Response, key=85, versions=(0, 1), flexible=0):
    """The answer to ``WriteShareGroupStateRequest``."""

    results: list[WriteStateResult] = array(WriteStateResult)
