"""ReadShareGroupStateSummary (API key 87): reads the start offsets of share partitions.

Versions 0 to 1, flexible. Changes by version:

- 1: the response gains ``PartitionResult.delivery_complete_count``; KIP-1226.
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
    """An element of ``partitions`` in ``ReadStateSummaryData``."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Nested):
    """An element of ``topics`` in ``ReadShareGroupStateSummaryRequest``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Request, key=87, versions=(0, 1), flexible=0):
    """Reads the start offsets of share partitions."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Nested):
    """An element of ``partitions`` in ``ReadStateSummaryResult``."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(since=1, default=-1, ignorable=True)


class ReadStateSummaryResult(Nested):
    """An element of ``results`` in ``ReadShareGroupStateSummaryResponse``."""

    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Response, key=87, versions=(0, 1), flexible=0):
    """The answer to ``ReadShareGroupStateSummaryRequest``."""

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
