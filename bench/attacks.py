"""The requests of a hostile client: a few kilobytes or megabytes that cause much work.

An attack has a name, a function that prepares the broker and returns the frames, and a number of
connections that send them. All requests are valid: Apache Kafka answers them too.
"""

import gzip
import time
from collections.abc import Callable
from typing import NamedTuple

import zstandard

from bench.load import ask, frame_of
from bench.rows.common import create_topic
from bench.worst_requests import WORST, offset_commit, version_of
from bench.worst_topic_requests import OF_TOPICS, PARTITIONS
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.batch import build_header
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder, ProducerState

ELEMENTS = 60_000
"""How many elements each API's worst request has."""

MANY = 200_000
EXISTING = 500
COMMITTED = 1000
GROUP, TOPIC = "hostile", "hostile"
RECORDS = 6_000_000
FAR_MS = 1 << 40
EMPTY_RECORD = bytes((12, 0, 0, 0, 1, 1, 0))
"""A record without key and value, the smallest possible one."""


class Attack(NamedTuple):
    """``frames`` prepares the broker and returns what ``connections`` connections send."""

    name: str
    frames: Callable[[str], list[bytes]]
    connections: int = 1


def offset_fetch(bootstrap: str) -> list[bytes]:
    """One group with a thousand committed offsets, fetched 300 times in one request."""
    create_topic(bootstrap, TOPIC, COMMITTED)
    partitions = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=1)
        for n in range(COMMITTED)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
    commit = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=topics)
    limit = time.monotonic() + 30
    ask(bootstrap, FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
    while ask(bootstrap, commit, 7).topics[0].partitions[0].error_code:
        if time.monotonic() > limit:
            raise RuntimeError("the offsets can't be committed")
        time.sleep(0.05)
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=None) for _ in range(300)]
    return [frame_of(OffsetFetchRequest(groups=groups), 8)]


def describe_groups(bootstrap: str) -> list[bytes]:
    """Names of unknown groups."""
    return [frame_of(DescribeGroupsRequest(groups=[f"{n:x}" for n in range(MANY)]), 5)]


def find_coordinator(bootstrap: str) -> list[bytes]:
    """Keys without a group."""
    keys = [f"{n:x}" for n in range(MANY)]
    return [frame_of(FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4)]


def list_offsets(bootstrap: str) -> list[bytes]:
    """The same partition again and again."""
    create_topic(bootstrap, "hostile-one")
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1) for _ in range(MANY)]
    topics = [ListOffsetsTopic(name="hostile-one", partitions=partitions)]
    return [frame_of(ListOffsetsRequest(replica_id=-1, topics=topics), 7)]


def fetch_unknown(bootstrap: str) -> list[bytes]:
    """A new fetch session with unknown partitions."""
    partitions = [FetchPartition(partition=n, partition_max_bytes=1) for n in range(MANY)]
    topics = [FetchTopic(topic="nobody", partitions=partitions)]
    return [frame_of(FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics), 11)]


def metadata_unknown(bootstrap: str) -> list[bytes]:
    """Names of unknown topics, which the broker must not create."""
    topics = [MetadataRequestTopic(name=f"{n:x}") for n in range(MANY)]
    return [frame_of(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)]


def create_topics(bootstrap: str) -> list[bytes]:
    """As many topics as one request may create, only validated."""
    topics = [
        CreatableTopic(name=f"t-{n}", num_partitions=1, replication_factor=1) for n in range(9900)
    ]
    return [frame_of(CreateTopicsRequest(topics=topics, validate_only=True), 5)]


def describe_configs(bootstrap: str) -> list[bytes]:
    """The settings of one topic, again and again."""
    create_topic(bootstrap, "hostile-one")
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="hostile-one") for _ in range(5000)
    ]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    return [frame_of(request, 4)]


def alter_group_configs(bootstrap: str) -> list[bytes]:
    """A setting for each of many groups, only validated."""
    resources = [
        AlterConfigsResource(
            resource_type=32,
            resource_name=f"g-{n}",
            configs=[AlterableConfig(name="consumer.session.timeout.ms", value="50000")],
        )
        for n in range(10_000)
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    return [frame_of(request, 1)]


def _batch(payload: bytes, codec: Compression, records: int) -> bytes:
    """A batch with this compressed payload and this count of records."""
    return bytes(
        build_header(
            payload,
            base_offset=0,
            leader_epoch=-1,
            attributes=codec,
            last_offset_delta=records - 1,
            base_timestamp=1,
            max_timestamp=FAR_MS,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=records,
        )
    )


def _empty_records(count: int) -> bytes:
    return zstandard.ZstdCompressor(level=9).compress(EMPTY_RECORD * count)


def _produce(topic: str, batch: bytes) -> bytes:
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return frame_of(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)


def bomb_to_compacted(bootstrap: str) -> list[bytes]:
    """Empty records, highly compressed, to a topic whose records are checked for keys."""
    create_topic(bootstrap, "hostile-compacted", 1, {"cleanup.policy": "compact"})
    return [
        _produce("hostile-compacted", _batch(_empty_records(RECORDS), Compression.ZSTD, RECORDS))
    ]


def bomb_to_gzip(bootstrap: str) -> list[bytes]:
    """The same batch to a topic that recompresses with gzip."""
    create_topic(bootstrap, "hostile-gzip", 1, {"compression.type": "gzip"})
    return [_produce("hostile-gzip", _batch(_empty_records(RECORDS), Compression.ZSTD, RECORDS))]


def forty_bombs(bootstrap: str) -> list[bytes]:
    """Small batches whose check takes long, on forty connections."""
    create_topic(bootstrap, "hostile-gzip", 1, {"compression.type": "gzip"})
    payload = gzip.compress(EMPTY_RECORD * (RECORDS // 10), 9)
    return [_produce("hostile-gzip", _batch(payload, Compression.GZIP, RECORDS // 10))]


def lookup_by_time(bootstrap: str) -> list[bytes]:
    """A timestamp that no record has, in batches whose headers say otherwise."""
    create_topic(bootstrap, "hostile-time")
    batch = _batch(_empty_records(RECORDS), Compression.ZSTD, RECORDS)
    for _ in range(2):
        data = PartitionProduceData(index=0, records=batch)
        topics = [TopicProduceData(name="hostile-time", partition_data=[data])]
        ask(bootstrap, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)
    partition = ListOffsetsPartition(partition_index=0, timestamp=FAR_MS - 1)
    topics = [ListOffsetsTopic(name="hostile-time", partitions=[partition])]
    return [frame_of(ListOffsetsRequest(replica_id=-1, topics=topics), 7)]


def new_producer_ids(bootstrap: str) -> list[bytes]:
    """Batches that each have a new producer id."""
    create_topic(bootstrap, "hostile-ids")
    frames = []
    now_ms = int(time.time() * 1000)
    for producer_id in range(1_000_000, 1_020_000):
        builder = BatchBuilder()
        builder.add(now_ms, None, b"x")
        batch = builder.build(producer=ProducerState(producer_id, 0, 0))
        frames.append(_produce("hostile-ids", bytes(batch)))
    return frames


def wide_fetch(bootstrap: str) -> list[bytes]:
    """A long poll over many unknown partitions: it needs no small request's memory."""
    partitions = [FetchPartition(partition=n, partition_max_bytes=1) for n in range(MANY)]
    topics = [FetchTopic(topic="nobody", partitions=partitions)]
    return [frame_of(FetchRequest(max_wait_ms=60_000, session_epoch=-1, topics=topics), 11)]


def wide_topic(bootstrap: str) -> list[bytes]:
    """One topic of 10,000 partitions more, and of one more than a request may create, checked."""
    create_topic(bootstrap, "hostile-wide")
    frames = []
    for count in (10_001, 10_002):
        topic = CreatePartitionsTopic(name="hostile-wide", count=count)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=True)
        frames.append(frame_of(request, 3))
    return frames


def topics_in_turn(bootstrap: str) -> list[bytes]:
    """Topics that are created and deleted again."""
    names = [f"hostile-turn-{n}" for n in range(200)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return [
        frame_of(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5),
        frame_of(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5),
    ]


def log_flood(bootstrap: str) -> list[bytes]:
    """Members with long ids join groups with long names, and leave: each is a line of the log."""
    frames = []
    for n in range(100):
        for epoch in (0, -1):
            request = ConsumerGroupHeartbeatRequest(
                group_id=f"hostile-{n}-" + "g" * 10_000,
                member_id="m" * 10_000,
                member_epoch=epoch,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=["hostile-one"],
                topic_partitions=[],
            )
            frames.append(frame_of(request, 1))
    return frames


def auto_creation(bootstrap: str) -> list[bytes]:
    """Metadata of new topics, which the broker creates; they stay."""
    return [
        frame_of(
            MetadataRequest(
                topics=[MetadataRequestTopic(name=f"hostile-auto-{at}-{n}") for n in range(20)],
                allow_auto_topic_creation=True,
            ),
            9,
        )
        for at in range(200)
    ]


def worst_of(name: str) -> Attack:
    """The worst request of an API, which a test in ``make check`` counts too."""

    def frames(bootstrap: str) -> list[bytes]:
        create_topic(bootstrap, "t", PARTITIONS)
        if name in OF_TOPICS:
            topics = [
                CreatableTopic(name=f"name-{n}", num_partitions=1, replication_factor=1)
                for n in range(EXISTING)
            ]
            ask(bootstrap, CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
        ask(bootstrap, offset_commit(PARTITIONS), version_of("OffsetCommit"))
        return [frame_of(WORST[name](ELEMENTS), version_of(name))]

    return Attack(f"{name}: {ELEMENTS:,} elements", frames)


SPECIAL = (
    Attack("OffsetFetch: one group 300 times", offset_fetch),
    Attack("DescribeGroups: 200,000 names", describe_groups),
    Attack("FindCoordinator: 200,000 keys", find_coordinator),
    Attack("ListOffsets: one partition 200,000 times", list_offsets),
    Attack("ListOffsets: a time, in batches that lie", lookup_by_time),
    Attack("Fetch: a session of 200,000 unknown partitions", fetch_unknown),
    Attack("Metadata: 200,000 unknown topics", metadata_unknown),
    Attack("CreateTopics: 9,900 topics, checked", create_topics),
    Attack("DescribeConfigs: a topic 5,000 times", describe_configs),
    Attack("IncrementalAlterConfigs: 10,000 groups, checked", alter_group_configs),
    Attack("Produce: a bomb to a compacted topic", bomb_to_compacted),
    Attack("Produce: a bomb to a topic with gzip", bomb_to_gzip),
    Attack("Produce: small bombs on 40 connections", forty_bombs, 40),
    Attack("Produce: a new producer id in each batch", new_producer_ids),
    Attack("CreatePartitions: 10,000 and 10,001 for a topic, checked", wide_topic),
    Attack("CreateTopics and DeleteTopics: 200 topics in turn", topics_in_turn),
    Attack("ConsumerGroupHeartbeat: long names in the log", log_flood),
)

CROWDS = (
    Attack("DescribeConfigs: a topic 5,000 times, 40 connections", describe_configs, 40),
    Attack("OffsetFetch: one group 300 times, 200 connections", offset_fetch, 200),
    Attack("CreateTopics: 9,900 topics, checked, 30 connections", create_topics, 30),
    Attack("Fetch: 200,000 unknown partitions, 30 connections", wide_fetch, 30),
)
"""Attacks on the memory: a limit for each connection alone would not bound them."""

LASTING = (Attack("Metadata: 4,000 topics are created by themselves", auto_creation),)
"""What such an attack leaves would be a part of later ones."""

ATTACKS = (
    *SPECIAL,
    *CROWDS,
    *(worst_of(name) for name in WORST if name != "CreateTopics"),
    *LASTING,
)
