"""OffsetFetch (API key 9): reads the committed offsets of groups.

Versions 1 to 10, flexible from 6. Changes by version:

- 1: offsets come from ``__consumer_offsets`` instead of ZooKeeper.
- 2: the request may have null ``topics``; the response gains ``error_code``; null asks for all
  topics.
- 3: the response gains ``throttle_time_ms``.
- 4: the broker sends the response before it throttles the client (KIP-219).
- 5: the response gains ``OffsetFetchResponsePartition.committed_leader_epoch``; KIP-320.
- 6: flexible encoding.
- 7: the request gains ``require_stable``; KIP-447.
- 8: the request loses ``group_id``; the request and the response lose ``topics``; the request and
  the response gain ``groups``; the response loses ``error_code``; a request may name several
  groups (KIP-709).
- 9: the request gains ``OffsetFetchRequestGroup.member_id`` and
  ``OffsetFetchRequestGroup.member_epoch``; members of KIP-848 consumer groups may ask too
  (KIP-848).
- 10: the request loses ``OffsetFetchRequestTopics.name``; the request gains
  ``OffsetFetchRequestTopics.topic_id``; the response loses ``OffsetFetchResponseTopics.name``;
  the response gains ``OffsetFetchResponseTopics.topic_id``; KIP-848.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequestTopic(Nested):
    """An element of ``topics`` in ``OffsetFetchRequest``."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestTopics(Nested):
    """An element of ``topics`` in ``OffsetFetchRequestGroup``."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestGroup(Nested):
    """An element of ``groups`` in ``OffsetFetchRequest``."""

    group_id: str = string()
    member_id: str | None = string(since=9, nullable=True, default=None, ignorable=True)
    member_epoch: int = int32(since=9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable=True)


class OffsetFetchRequest(Request, key=9, versions=(1, 10), flexible=6):
    """Reads the committed offsets of groups."""

    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, until=7, nullable_since=2
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


class OffsetFetchResponsePartition(Nested):
    """An element of ``partitions`` in ``OffsetFetchResponseTopic``."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1, ignorable=True)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()


class OffsetFetchResponseTopic(Nested):
    """An element of ``topics`` in ``OffsetFetchResponse``."""

    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Nested):
    """An element of ``partitions`` in ``OffsetFetchResponseTopics``."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, ignorable=True)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()


class OffsetFetchResponseTopics(Nested):
    """An element of ``topics`` in ``OffsetFetchResponseGroup``."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Nested):
    """An element of ``groups`` in ``OffsetFetchResponse``."""

    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(Response, key=9, versions=(1, 10), flexible=6):
    """The answer to ``OffsetFetchRequest``."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
