"""DeleteRecords (API key 21): moves the log start offset of partitions forward.

Versions 0 to 2, flexible from 2. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: flexible encoding.
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


class DeleteRecordsPartition(Nested):
    """An element of ``partitions`` in ``DeleteRecordsTopic``."""

    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Nested):
    """An element of ``topics`` in ``DeleteRecordsRequest``."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, key=21, versions=(0, 2), flexible=2):
    """Moves the log start offset of partitions forward."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Nested):
    """An element of ``partitions`` in ``DeleteRecordsTopicResult``."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Nested):
    """An element of ``topics`` in ``DeleteRecordsResponse``."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, key=21, versions=(0, 2), flexible=2):
    """The answer to ``DeleteRecordsRequest``."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
