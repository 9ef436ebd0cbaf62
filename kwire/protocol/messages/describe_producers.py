"""DescribeProducers (API key 61): shows the producers that are active in partitions.

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
)


class TopicRequest(Nested):
    """An element of ``topics`` in ``DescribeProducersRequest``."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class DescribeProducersRequest(Request, key=61, versions=(0, 0), flexible=0):
    """Shows the producers that are active in partitions."""

    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Nested):
    """An element of ``active_producers`` in ``PartitionResponse``."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Nested):
    """An element of ``partitions`` in ``TopicResponse``."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Nested):
    """An element of ``topics`` in ``DescribeProducersResponse``."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, key=61, versions=(0, 0), flexible=0):
    """The answer to ``DescribeProducersRequest``."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
