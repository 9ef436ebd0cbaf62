"""Consumers read from followers, and leaders name the nearest one (KIP-392)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.record.records import ProducerState, Record, build_batch
from kwire.testing.waiting import until
from tests.broker.following import batch_at
from tests.handlers.followers import BROKER_EPOCH, TOPIC, Leader, at, leading, offsets
from tests.support.in_process import RawClient

SELECTOR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.rack": "here",
}
VERSION = 12


class Consumer:
    """Fetches of a consumer in a rack, at most one partition each."""

    def __init__(self, raw: RawClient, rack: str = "") -> None:
        self.raw = raw
        self.rack = rack
        self.version = VERSION
        self.wait_ms = 0
        self.session_id, self.session_epoch = 0, -1

    async def fetch(self, offset: int, epoch: int = -1) -> PartitionData | None:
        """The answer for the only partition; None if it has no news in a session."""
        wanted = FetchPartition(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            partition_max_bytes=1_000_000,
        )
        request = FetchRequest(
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
            rack_id=self.rack,
        )
        response = await self.raw.request(request, self.version, FetchResponse)
        if self.session_epoch >= 0:
            self.session_id = response.session_id
            self.session_epoch += 1
        return response.responses[0].partitions[0] if response.responses else None

    async def code(self, offset: int, epoch: int = -1) -> int:
        """The error of a fetch."""
        told = await self.fetch(offset, epoch)
        assert told is not None
        return told.error_code


@asynccontextmanager
async def in_racks(tmp_path: Path, selector: dict[str, str]) -> AsyncIterator[Leader]:
    """A leader whose followers are in racks of their own; both have the first two records."""
    async with leading(tmp_path, selector) as leader:
        for node_id in (2, 3):
            await leader.register(node_id, rack=f"rack-{node_id}")
        leader.append(2)
        for node_id in (2, 3):
            follower = await leader.follower(node_id)
            follower.epoch = BROKER_EPOCH
            await follower.fetch(at(2))
        yield leader


@pytest.mark.parametrize(
    ("rack", "preferred"), [("rack-2", 2), ("rack-3", 3), ("here", -1), ("far", -1), ("", -1)]
)
async def test_a_leader_names_the_replica_in_the_clients_rack(
    tmp_path: Path, rack: str, preferred: int
) -> None:
    """In place of records, and at once; itself it never names."""
    async with in_racks(tmp_path, SELECTOR) as leader:
        consumer = Consumer(await leader.running.connect(), rack)
        consumer.wait_ms = 60_000 if preferred > 0 else 0
        told = await consumer.fetch(0)
        assert told is not None
        assert told.preferred_read_replica == preferred
        assert (told.high_watermark, told.error_code) == (2, 0)
        assert len(offsets(told)) == (0 if preferred > 0 else 2)
        consumer.version = 10
        told = await consumer.fetch(0)
        assert told is not None
        assert len(offsets(told)) == 2, "it doesn't know of this"


async def test_only_replicas_that_have_the_offset_and_are_in_sync_are_named(
    tmp_path: Path,
) -> None:
    """Others would answer OFFSET_OUT_OF_RANGE, or nothing new."""
    async with in_racks(tmp_path, SELECTOR) as leader:
        consumer = Consumer(await leader.running.connect(), "rack-2")
        leader.append(1)
        told = await consumer.fetch(3)
        assert told is not None
        assert told.preferred_read_replica == -1
        await leader.change(isr=(1, 3))
        told = await consumer.fetch(0)
        assert told is not None
        assert told.preferred_read_replica == -1


async def test_without_a_selector_the_leader_answers(tmp_path: Path) -> None:
    """As Kafka's default."""
    async with in_racks(tmp_path, {"broker.rack": "here"}) as leader:
        told = await Consumer(await leader.running.connect(), "rack-2").fetch(0)
        assert told is not None
        assert (told.preferred_read_replica, len(offsets(told))) == (-1, 2)


@asynccontextmanager
async def followed(tmp_path: Path) -> AsyncIterator[tuple[Leader, FollowerPartition, Consumer]]:
    """This broker follows; it has three records, two of which are below its high watermark."""
    async with leading(tmp_path, leader=2) as broker:
        partition = broker.broker.replica(TOPIC, 0)
        assert isinstance(partition, FollowerPartition)
        for base in range(3):
            partition.append(batch_at(base, b"v", epoch=1), 0)
        partition.advance(2, 0)
        yield broker, partition, Consumer(await broker.running.connect())


async def test_a_follower_answers_up_to_its_high_watermark(tmp_path: Path) -> None:
    """Whatever the selector is; records behind that may be cut. Old clients want the leader."""
    async with followed(tmp_path) as (_, partition, consumer):
        told = await consumer.fetch(0)
        assert told is not None
        assert (offsets(told), told.high_watermark) == ([0, 1], 2)
        told = await consumer.fetch(3)
        assert told is not None
        assert (told.error_code, offsets(told)) == (0, [])
        assert await consumer.code(4) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await consumer.code(0, epoch=0) == ErrorCode.FENCED_LEADER_EPOCH
        assert await consumer.code(0, epoch=2) == ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.begin_cut()
        assert await consumer.code(0) == ErrorCode.OFFSET_NOT_AVAILABLE
        partition.end_cut()
        assert await consumer.code(0, epoch=1) == 0
        consumer.version = 10
        assert await consumer.code(0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_fetch_waits_at_a_follower(tmp_path: Path) -> None:
    """For the high watermark, and for the end of the role."""
    async with followed(tmp_path) as (broker, partition, consumer), trio.open_nursery() as nursery:
        consumer.wait_ms = 60_000
        consumer.session_epoch = 0
        told: list[PartitionData | None] = []

        async def fetch(offset: int) -> None:
            told.append(await consumer.fetch(offset))

        nursery.start_soon(fetch, 2)
        await until(lambda: bool(partition.waiters))
        partition.advance(3, 0)
        await until(lambda: bool(told))
        assert told[0] is not None
        assert offsets(told[0]) == [2]
        nursery.start_soon(fetch, 3)
        await until(lambda: bool(partition.waiters))
        await broker.change(replicas=(2, 3), isr=(2, 3))
        await until(lambda: len(told) == 2)
        assert told[1] is not None
        assert told[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_tells_its_producers(tmp_path: Path) -> None:
    """As each replica of Kafka does; a broker without a replica doesn't."""
    async with followed(tmp_path) as (broker, partition, consumer):
        written = [Record(3, 0, None, b"v")]
        producer = ProducerState(7, 2, 0)
        partition.append(
            build_batch(
                written, base_offset=3, producer=producer, transactional=True, leader_epoch=1
            ),
            0,
        )
        request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])])

        async def ask() -> PartitionResponse:
            answer = await consumer.raw.request(request, 0, DescribeProducersResponse)
            return answer.topics[0].partitions[0]

        [told] = (await ask()).active_producers
        assert (told.producer_id, told.producer_epoch) == (7, 2)
        assert (told.last_sequence, told.current_txn_start_offset) == (0, 3)
        await broker.change(replicas=(2, 3), isr=(2, 3))
        assert (await ask()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
