"""What the broker holds for verify: markers, aborted records, compaction, deleted records."""

from pathlib import Path

import pytest

from kwire.client.cluster import open_cluster
from kwire.client.configs import Change, Resource, ResourceType, alter_configs
from kwire.client.deletion import delete_records
from kwire.client.leaders import TopicPartition
from kwire.client.producer import produce
from kwire.client.topics import create_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import BatchBuilder
from kwire.spark.broker_offsets import broker_offsets
from kwire.spark.offset_runs import OffsetRuns
from tests.spark.damaged_batches import damaged
from tests.support.in_process import running_server
from tests.support.raw_producer import RawProducer

PLACE = ("t", 0)


def batch(number: int) -> bytes:
    """A batch of small records."""
    builder = BatchBuilder()
    for _ in range(number):
        builder.add(0, b"k", b"v")
    return bytes(builder.build())


@pytest.fixture
async def server(tmp_path: Path):
    """A broker."""
    async with running_server(tmp_path) as found:
        yield found


@pytest.fixture
async def cluster(server):
    """A client of the broker, with topic t of two partitions."""
    async with open_cluster([(server.host, server.port)]) as found:
        await create_topics(found, ["t"], partitions=2)
        yield found


async def transaction(server, *, committed: bool, records: int) -> None:
    """A transaction of some records, and its marker."""
    producer = RawProducer(await server.connect(), "producer")
    await producer.init()
    for _ in range(records):
        await producer.produce("t", 0, b"x")
    await producer.end(committed=committed)
    await producer.client.aclose()


async def test_markers_and_aborted_records_are_no_records(server, cluster):
    """Offsets 2 to 4 are aborted, 5 and 8 are markers."""
    await produce(cluster, {TopicPartition(*PLACE): batch(2)})
    await transaction(server, committed=False, records=3)
    await transaction(server, committed=True, records=2)
    await produce(cluster, {TopicPartition(*PLACE): batch(4)})
    found = (await broker_offsets(cluster, {PLACE: (0, 13)}))[PLACE]
    assert list(found.records) == [(0, 2), (6, 8), (9, 13)]
    assert (found.start, found.end, found.is_compacted) == (0, 13, False)
    found = (await broker_offsets(cluster, {PLACE: (0, 13)}, read_committed=False))[PLACE]
    assert list(found.records) == [(0, 5), (6, 8), (9, 13)]


async def test_tombstones_are_apart_if_they_are_skipped(cluster):
    """By offset: the others are records as all are."""
    builder = BatchBuilder()
    for value in (b"v", None, b"", None):
        builder.add(0, b"k", value)
    await produce(cluster, {TopicPartition(*PLACE): bytes(builder.build())})
    found = (await broker_offsets(cluster, {PLACE: (0, 4)}))[PLACE]
    assert (list(found.records), list(found.skipped)) == ([(0, 4)], [])
    for skipped, records, apart in (
        ((0, 9), [(0, 1), (2, 3)], [(1, 2), (3, 4)]),
        ((0, 3), [(0, 1), (2, 4)], [(1, 2)]),
        ((2, 9), [(0, 3)], [(3, 4)]),
    ):
        runs = {PLACE: OffsetRuns([skipped])}
        found = (await broker_offsets(cluster, {PLACE: (0, 4)}, skipped=runs))[PLACE]
        assert (list(found.records), list(found.skipped)) == (records, apart)


async def test_records_that_cannot_be_read_are_one(cluster):
    """As in the table of dead letters; no tombstone, and what follows is read."""
    unreadable = damaged(8, 11)
    await produce(cluster, {TopicPartition(*PLACE): bytes(unreadable)})
    await produce(cluster, {TopicPartition(*PLACE): batch(4)})
    skipped = {PLACE: OffsetRuns([(0, 15)])}
    found = await broker_offsets(cluster, {PLACE: (0, 15)}, skipped=skipped)
    assert list(found[PLACE].records) == [(0, 9), (11, 15)]
    assert list(found[PLACE].skipped) == []


async def test_only_the_range_is_read(cluster):
    """A range within batches, one of nothing, and one beyond the end."""
    await produce(cluster, {TopicPartition("t", 0): batch(10), TopicPartition("t", 1): batch(10)})
    seen: list[tuple[str, int, int]] = []
    found = await broker_offsets(
        cluster, {("t", 0): (3, 7), ("t", 1): (10, 50)}, report=lambda *one: seen.append(one)
    )
    assert seen[-1] == ("reading the broker's offsets", 4, 4)
    assert list(found["t", 0].records) == [(3, 7)]
    assert list(found["t", 1].records) == []
    assert found["t", 1].end == 10


async def test_deleted_records_move_the_start(cluster):
    """What lies before the log start offset isn't read, and isn't waited for."""
    await produce(cluster, {TopicPartition(*PLACE): batch(10)})
    await delete_records(cluster, {TopicPartition(*PLACE): 6})
    found = (await broker_offsets(cluster, {PLACE: (0, 8)}))[PLACE]
    assert (found.start, list(found.records)) == (6, [(6, 8)])


async def test_a_compacted_topic_says_so(cluster):
    """Records that compaction removes later are no gaps, so verify has to know."""
    change = Change({"cleanup.policy": "compact,delete"}, [])
    await alter_configs(cluster, Resource(ResourceType.TOPIC, "t"), change)
    assert (await broker_offsets(cluster, {PLACE: (0, 0)}))[PLACE].is_compacted


async def test_a_topic_that_is_gone_is_an_error(cluster):
    """Nothing can be compared with a topic that doesn't exist."""
    with pytest.raises(KafkaError) as raised:
        await broker_offsets(cluster, {("gone", 0): (0, 1)})
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
