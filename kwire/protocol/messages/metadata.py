"""Metadata (API key 3): lists the brokers and topics of the cluster, and the leaders of the
partitions.

Versions 0 to 13, flexible from 9. Changes by version:

- 1: the request may have null ``topics``; the response gains ``MetadataResponseBroker.rack``,
  ``controller_id`` and ``MetadataResponseTopic.is_internal``; null asks for all topics, an empty
  list for none.
- 2: the response gains ``cluster_id``.
- 3: the response gains ``throttle_time_ms``.
- 4: the request gains ``allow_auto_topic_creation``.
- 5: the response gains ``MetadataResponsePartition.offline_replicas``; KIP-112.
- 6: the broker sends the response before it throttles the client (KIP-219).
- 7: the response gains ``MetadataResponsePartition.leader_epoch``; KIP-320.
- 8: the request gains ``include_cluster_authorized_operations`` and
  ``include_topic_authorized_operations``; the response gains
  ``MetadataResponseTopic.topic_authorized_operations`` and ``cluster_authorized_operations``;
  KIP-430.
- 9: flexible encoding.
- 10: the request gains ``MetadataRequestTopic.topic_id``; the request may have null
  ``MetadataRequestTopic.name``; the response gains ``MetadataResponseTopic.topic_id``; KIP-516.
- 11: the request loses ``include_cluster_authorized_operations``; the response loses
  ``cluster_authorized_operations``; DescribeCluster has the cluster's operations instead
  (KIP-700).
- 12: the response may have null ``MetadataResponseTopic.name``; a request may look up topics by
  id.
- 13: the response gains ``error_code``; KIP-1102.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    string,
    uuid,
)


class MetadataRequestTopic(Nested):
    """An element of ``topics`` in ``MetadataRequest``."""

    topic_id: bytes = uuid(since=10, ignorable=True)
    name: str | None = string(nullable_since=10)


class MetadataRequest(Request, key=3, versions=(0, 13), flexible=9):
    """Lists the brokers and topics of the cluster, and the leaders of the partitions."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


class MetadataResponseBroker(Nested):
    """An element of ``brokers`` in ``MetadataResponse``."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=True, default=None, ignorable=True)


class MetadataResponsePartition(Nested):
    """An element of ``partitions`` in ``MetadataResponseTopic``."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5, ignorable=True)


class MetadataResponseTopic(Nested):
    """An element of ``topics`` in ``MetadataResponse``."""

    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: bytes = uuid(since=10, ignorable=True)
    is_internal: bool = boolean(since=1, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


class MetadataResponse(Response, key=3, versions=(0, 13), flexible=9):
    """The answer to ``MetadataRequest``."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=True, default=None, ignorable=True)
    controller_id: int = int32(since=1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13, ignorable=True)
