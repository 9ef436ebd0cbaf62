"""A reader that tests what replicas promise, and a writer that leaves unreplicated ends."""

from kwire.client.leaders import TopicPartition
from kwire.client.offsets import list_offsets
from kwire.client.producer import produce
from kwire.errors import KafkaError
from kwire.record.records import BatchBuilder
from tests.simulation.network import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, Workload
from tests.simulation.world import DATE_MS, World

LATEST = -1


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
