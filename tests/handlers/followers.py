"""A broker that leads a topic with followers, which are played by raw connections."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.metadata.changes import BrokerChanged, BrokerRegistered, PartitionsChanged
from kwire.metadata.image import BrokerImage, PartitionImage
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from kwire.record.batch import complete_batches
from kwire.record.records import BatchBuilder
from tests.support.in_process import RawClient, RunningServer, running_server

TOPIC = "orders"
VERSION = 18
BROKER_EPOCH = 5
LEADER_EPOCH = 1
NOW_MS = 1_700_000_000_000


class Leader:
    """The leader, and changes of the metadata that a controller would make."""

    def __init__(self, running: RunningServer) -> None:
        self.running = running
        self.broker = running.broker
        self.topic_id = self.broker.image.topics_by_name[TOPIC].topic_id

    async def register(
        self,
        node_id: int,
        epoch: int = BROKER_EPOCH,
        rack: str | None = None,
        endpoints: tuple[tuple[str, str, int], ...] = (),
    ) -> None:
        """Another broker starts."""
        registered = BrokerRegistered(BrokerImage(node_id, rack, endpoints, epoch=epoch))
        await self.broker.commit(lambda _image: [registered])

    async def fence(self, node_id: int) -> None:
        """Another broker is gone."""
        fenced = BrokerChanged(node_id, is_fenced=True, is_shutting_down=False)
        await self.broker.commit(lambda _image: [fenced])

    async def change(self, index: int = 0, **fields: object) -> None:
        """Change a partition."""

        def decide(image):
            before = image.topics_by_id[self.topic_id].partitions[index]
            after = before._replace(partition_epoch=before.partition_epoch + 1, **fields)
            return [PartitionsChanged(self.topic_id, ((index, after),))]

        await self.broker.commit(decide)

    def row(self, index: int = 0) -> PartitionImage:
        """What the metadata has of a partition."""
        return self.broker.image.topics_by_id[self.topic_id].partitions[index]

    def partition(self, index: int = 0) -> LeaderPartition:
        """A partition of the topic."""
        partition = self.broker.partition(TOPIC, index)
        assert isinstance(partition, LeaderPartition)
        return partition

    def append(self, count: int = 1, index: int = 0, size_bytes: int = 10) -> None:
        """Append batches of one record, as a producer with acks=1."""
        for _ in range(count):
            builder = BatchBuilder()
            builder.add(NOW_MS, None, bytes(size_bytes))
            self.partition(index).append(builder.build(), now_ms=NOW_MS, required_acks=1)

    async def follower(self, node_id: int = 2) -> "FollowerClient":
        """A connection of a follower."""
        return FollowerClient(await self.running.connect(), node_id, self.topic_id)


class FollowerClient:
    """A follower's fetches, with or without a session."""

    def __init__(self, raw: RawClient, node_id: int, topic_id: bytes) -> None:
        self.raw = raw
        self.node_id = node_id
        self.topic_id = topic_id
        self.epoch = BROKER_EPOCH
        self.session_id = 0
        self.session_epoch = -1
        self.wait_ms = 0
        self.min_bytes = 1
        self.max_bytes = 10_000_000

    def request(self, *wanted: FetchPartition, forgotten: tuple[int, ...] = ()) -> FetchRequest:
        """The next request of the session."""
        topics = [FetchTopic(topic_id=self.topic_id, partitions=list(wanted))] if wanted else []
        left_out = [ForgottenTopic(topic_id=self.topic_id, partitions=list(forgotten))]
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=self.epoch),
            max_wait_ms=self.wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=topics,
            forgotten_topics_data=left_out if forgotten else [],
        )

    async def fetch(
        self, *wanted: FetchPartition, forgotten: tuple[int, ...] = ()
    ) -> dict[int, PartitionData]:
        """The partitions of the answer."""
        request = self.request(*wanted, forgotten=forgotten)
        response = await self.raw.request(request, VERSION, FetchResponse)
        assert response.error_code == 0
        if self.session_epoch >= 0:
            self.session_id = response.session_id
            self.session_epoch += 1
        return {p.partition_index: p for topic in response.responses for p in topic.partitions}

    async def code(self, *wanted: FetchPartition) -> int:
        """The error of the only partition."""
        (data,) = (await self.fetch(*wanted)).values()
        return data.error_code


def at(offset: int, index: int = 0, **fields: int) -> FetchPartition:
    """A partition to fetch from an offset on."""
    values = {"current_leader_epoch": LEADER_EPOCH, "log_start_offset": 0}
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=fields.pop("max_bytes", 1_000_000),
        **(values | fields),
    )


def offsets(data: PartitionData) -> list[int]:
    """The base offsets of an answer's batches."""
    assert isinstance(data.records, memoryview)
    return [batch.base_offset for batch in complete_batches(data.records)]


@asynccontextmanager
async def leading(
    directory: Path, settings: Mapping[str, str] | None = None, partitions: int = 1, **row: object
) -> AsyncIterator[Leader]:
    """A leader of a topic whose followers are brokers 2 and 3, both in sync."""
    own = {"node.id": "1", "min.insync.replicas": "2"} | dict(settings or {})
    async with running_server(directory, own) as running:
        await running.topic(TOPIC, partitions)
        await running.hang_up()
        leader = Leader(running)
        for node_id in (2, 3):
            await leader.register(node_id)
        fields = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader_epoch": LEADER_EPOCH} | row
        for index in range(partitions):
            await leader.change(index, **fields)
        with trio.fail_after(30):
            yield leader
