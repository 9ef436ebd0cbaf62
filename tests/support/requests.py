"""Typed requests with what a test wants to say; all else is as a client has it by default."""

from collections.abc import Mapping
from typing import Any

from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ENOUGH_BYTES = 1 << 20
NO_ID = bytes(16)
LATEST = -1
EARLIEST = -2


def create_topics_request(
    *names: str, partitions: int = 1, replicas: int = 1, validate_only: bool = False, **configs: Any
) -> CreateTopicsRequest:
    """A request for topics that are alike; ``cleanup_policy="compact"`` is a setting of theirs."""
    settings = [
        CreatableTopicConfig(name=name.replace("_", "."), value=str(value))
        for name, value in configs.items()
    ]
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=settings,
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)


def produce_request(
    topic: str,
    batches: bytes | Mapping[int, bytes],
    *,
    topic_id: bytes = NO_ID,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request that brings a batch to partition 0, or to each partition its own.

    Version 13 names the topic by its id, older ones by its name.
    """
    if not isinstance(batches, Mapping):
        batches = {0: batches}
    data = [PartitionProduceData(index=index, records=one) for index, one in batches.items()]
    named = TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[named]
    )


def fetch_request(
    topic: str,
    offsets: int | Mapping[int, int] = 0,
    *,
    topic_id: bytes = NO_ID,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = ENOUGH_BYTES,
    partition_max_bytes: int = ENOUGH_BYTES,
    **fields: Any,
) -> FetchRequest:
    """A request for what partition 0 has from an offset on, or each partition from its own on.

    Version 13 and newer name the topic by its id, older ones by its name.
    """
    if not isinstance(offsets, Mapping):
        offsets = {0: offsets}
    wanted = [
        FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=wanted)],
        **fields,
    )


def list_offsets_request(
    topic: str, *partitions: int, timestamp: int = LATEST, **fields: Any
) -> ListOffsetsRequest:
    """A request for the offset of a time, of partition 0 or of each of these."""
    wanted = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index in partitions or (0,)
    ]
    named = ListOffsetsTopic(name=topic, partitions=wanted)
    return ListOffsetsRequest(**{"replica_id": -1, "topics": [named]} | fields)


def commit_request(
    group: str,
    topic: str,
    offsets: int | Mapping[int, int],
    *,
    topic_id: bytes = NO_ID,
    metadata: str | None = "",
    **member: Any,
) -> OffsetCommitRequest:
    """A request to commit the offset of partition 0, or of each partition; ``member`` is who asks.

    Version 10 names the topic by its id, older ones by its name.
    """
    if not isinstance(offsets, Mapping):
        offsets = {0: offsets}
    committed = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset in offsets.items()
    ]
    named = OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=committed)
    return OffsetCommitRequest(group_id=group, topics=[named], **member)


def offset_fetch_request(
    group: str, topic: str | None = None, *partitions: int, require_stable: bool = False
) -> OffsetFetchRequest:
    """A request for a group's offsets: of all topics, of partition 0 of one, or of these."""
    wanted = None
    if topic is not None:
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions or (0,)))]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=wanted)]
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)
