"""Readers that test what replicas promise, and a writer that leaves unreplicated ends."""

from kwire.client.leaders import TopicPartition
from kwire.client.offsets import list_offsets
from kwire.client.producer import produce
from kwire.errors import KafkaError
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.record.batch import complete_batches
from kwire.record.records import BatchBuilder
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, Workload
from tests.simulation.world import DATE_MS, World

LATEST = -1
NEWEST_WITH_NAMES = 12


class Careless(Workload):
    """Writes with acks=1: what only a leader has is lost with it, and never comes back."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._number = 0

    async def step(self) -> None:
        """Write one record, once."""
        self._number += 1
        builder = BatchBuilder()
        builder.add(DATE_MS, None, f"{self.name}:{self._number}".encode())
        batch = bytes(builder.build())
        partition = TopicPartition(self.topic, self.random.randrange(PARTITIONS))
        try:
            await produce(self.cluster, {partition: batch}, acks=1, repeats_lost=False)
            self.done += 1
        except FAILURES:
            await pass_s(0.1)


class EndWatcher(Workload):
    """Asks for the ends of partitions: S15, whoever leads, no consumer is told a smaller one."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._ends: dict[TopicPartition, int] = {}

    async def step(self) -> None:
        """Ask for the end of one partition."""
        asked = TopicPartition(self.topic, self.random.randrange(PARTITIONS))
        try:
            found = await list_offsets(self.cluster, {asked: LATEST})
        except FAILURES:
            return
        for partition, end in found.items():
            if isinstance(end, KafkaError):
                continue
            before = self._ends.get(partition, 0)
            assert end >= before, f"the end of {partition} falls from {before} to {end}"
            self._ends[partition] = end
        self.done += 1


class ReplicaReader(Workload):
    """Reads partitions from any of their replicas, as a consumer in the same rack does (KIP-392).

    S16: it sees only what is replicated, and no replica ever shows it another record in its place.
    """

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._seen: dict[tuple[int, int], bytes] = {}

    async def step(self) -> None:
        """Read from a random replica, from a random place on."""
        index, node = self.random.randrange(PARTITIONS), self.random.choice(list(self.world.nodes))
        known = [offset for where, offset in self._seen if where == index]
        first = self.random.choice((0, max(known, default=0), max(0, max(known, default=0) - 5)))
        await self._read(index, node, first)

    async def _read(self, index: int, node: int, first: int) -> None:
        partition = FetchPartition(partition=index, fetch_offset=first, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topic, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
        try:
            answer = await self.cluster.ask(
                request, FetchResponse, node=node, at_most=NEWEST_WITH_NAMES
            )
        except FAILURES:
            return
        for found in answer.responses:
            for data in found.partitions:
                self._take(index, node, data)

    def _take(self, index: int, node: int, data: PartitionData) -> None:
        topic = self.world.checks.image.topics_by_name[self.topic]
        replicated = self.world.checks.truths[topic.topic_id, index].end_offset
        for batch in complete_batches(data.records or b""):
            where = f"{self.topic}-{index} on {node}"
            assert batch.next_offset <= replicated, (
                f"{where} shows {batch.next_offset}, replicated is {replicated}"
            )
            before = self._seen.setdefault((index, batch.base_offset), bytes(batch.data))
            assert before == batch.data, f"{where} shows another batch at {batch.base_offset}"
            self.done += 1

    async def check(self) -> None:
        """What was seen is there in the end, on every replica."""
        for index in range(PARTITIONS):
            for node in self.world.nodes:
                await self._read(index, node, 0)
