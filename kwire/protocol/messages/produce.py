"""Produce (API key 0): appends record batches to partitions.

Versions 3 to 13, flexible from 9. Changes by version:

- 4: the response may carry the error KAFKA_STORAGE_ERROR.
- 5: the response gains ``PartitionProduceResponse.log_start_offset``.
- 6: the broker sends the response before it throttles the client (KIP-219).
- 7: records may be compressed with zstd (KIP-110).
- 8: the response gains ``PartitionProduceResponse.record_errors`` and
  ``PartitionProduceResponse.error_message``; KIP-467.
- 9: flexible encoding.
- 10: the response gains ``PartitionProduceResponse.current_leader`` and ``node_endpoints``;
  KIP-951.
- 11: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
- 12: a transactional Produce request adds its partitions to the transaction (KIP-890).
- 13: the request loses ``TopicProduceData.name``; the request gains
  ``TopicProduceData.topic_id``; the response loses ``TopicProduceResponse.name``; the response
  gains ``TopicProduceResponse.topic_id``; the response may carry the error UNKNOWN_TOPIC_ID
  (KIP-516).
"""

from kwire.protocol.file_slice import Records
from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class PartitionProduceData(Nested):
    """An element of ``partition_data`` in ``TopicProduceData``."""

    index: int = int32()
    records: Records = record_batches(nullable=True)


class TopicProduceData(Nested):
    """An element of ``topic_data`` in ``ProduceRequest``."""

    name: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Request, key=0, versions=(3, 13), flexible=9):
    """Appends record batches to partitions."""

    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Nested):
    """An element of ``record_errors`` in ``PartitionProduceResponse``."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable=True, default=None)


class LeaderIdAndEpoch(Nested):
    """The ``current_leader`` in ``PartitionProduceResponse``."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Nested):
    """An element of ``partition_responses`` in ``TopicProduceResponse``."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, since=8, ignorable=True
    )
    error_message: str | None = string(since=8, nullable=True, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Nested):
    """An element of ``responses`` in ``ProduceResponse``."""

    name: str = string(until=12, ignorable=True)
    topic_id: bytes = uuid(since=13, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Nested):
    """An element of ``node_endpoints`` in ``ProduceResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class ProduceResponse(Response, key=0, versions=(3, 13), flexible=9):
    """The answer to ``ProduceRequest``."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
