"""What clients do in a simulated cluster, and what has to be true of it in the end.

Each workload runs until ``stops`` is set, whatever happens to the brokers, and remembers what it
was answered. ``check`` is called when all faults are over. It raises AssertionError.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import trio

from kwire.client.cluster import Cluster, check
from kwire.client.errors import ClientError
from kwire.client.fetcher import Fetcher
from kwire.client.group_offsets import commit_offsets, committed_offsets
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import ends_of
from kwire.client.producer import produce
from kwire.client.topics import create_topics, delete_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.record.records import BatchBuilder, ProducerState
from tests.simulation.virtual_time import pass_s
from tests.simulation.world import DATE_MS, World

FAILURES = (KafkaError, ClientError)
PARTITIONS = 6
LOST = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
"""What a producer is told if the broker has forgotten its batches: here, always a bug."""


class Workload:
    """What one client does."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.random.__class__(world.random.getrandbits(32))
        self.cluster: Cluster = world.client(name)
        self.done = 0
        self.pause_s = 0.8
        self.stops = False
        self.has_ended = trio.Event()

    async def run(self) -> None:
        """Work until ``stops``."""
        while not self.stops:
            await pass_s(self.random.uniform(0.02, self.pause_s))
            await self.step()
        self.has_ended.set()

    async def step(self) -> None:
        """Do one piece of work."""

    async def check(self) -> None:
        """Compare what was answered with what there is."""


class IdempotentProducer(Workload):
    """Writes numbered records, each until it is acknowledged: all are there, once, in order."""

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self._producer_id = -1
        self._sent = [0] * PARTITIONS

    def value(self, number: int) -> str:
        """What a record says, the name first."""
        return f"{self.name}:{number}"

    async def step(self) -> None:
        """Write one batch; a failure means that the same batch is tried again."""
        if self._producer_id < 0:
            self._producer_id = await new_producer_id(self)
            return
        index = self.random.randrange(PARTITIONS)
        partition, sequence = TopicPartition(self.topic, index), self._sent[index]
        builder = BatchBuilder()
        count = self.random.randint(1, 3)
        for number in range(sequence, sequence + count):
            builder.add(DATE_MS, None, self.value(number).encode())
        batch = bytes(builder.build(producer=ProducerState(self._producer_id, 0, sequence)))
        while True:
            try:
                sent = await produce(self.cluster, {partition: batch}, timeout_ms=3000)
                [outcome] = sent.values()
            except ClientError as error:
                outcome = KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
            if isinstance(outcome, int):
                if self.world.replicated:
                    self.world.checks.acknowledged(self.topic, index, outcome + count - 1)
                break
            assert outcome.code not in LOST, f"{partition} has forgotten {self.name}: {outcome}"
            await pass_s(0.2)
        self._sent[index] += count
        self.done += count

    async def check(self) -> None:
        """Each acknowledged record is there once, in the order in which it was written."""
        found = await read_all(self.cluster, self.topic)
        for partition, values in found.items():
            own = [value for value in values if value.startswith(f"{self.name}:")]
            wanted = [self.value(number) for number in range(self._sent[partition.partition])]
            assert own == wanted, f"{partition}: {difference(own, wanted)}"


class OffsetCommitter(Workload):
    """Commits offsets of a group, and reads them meanwhile: none goes back, nor one that was read.

    S23: a read while a commit isn't replicated yet waits for it, as it may vanish with its broker.
    """

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name)
        self._partition = TopicPartition(topic, 0)
        self._reader = world.client(name)  # on connections that no commit keeps
        self._known = self._tried = 0
        self._reads_until_s = 0.0

    async def step(self) -> None:
        """Commit the next offset; now and then, and after giving a commit up, read for a while.

        A client that went on to commit would bring back what a dead broker has lost.
        """
        if trio.current_time() < self._reads_until_s:
            await self._read()
            return
        with trio.move_on_after(self.random.choice((0.1, 0.3, 2.0))) as scope:
            await self._commit()
        if scope.cancelled_caught or self.random.random() < 0.06:
            self._reads_until_s = trio.current_time() + self.random.random() * 3

    async def _commit(self) -> None:
        self._tried += 1
        offset = self._tried
        with suppress(*FAILURES):
            await commit_offsets(self.cluster, self.name, {self._partition: offset})
            self._known = max(self._known, offset)
            self.done += 1

    async def _read(self) -> None:
        with suppress(*FAILURES):
            await self.check()

    async def check(self) -> None:
        """What was acknowledged or read is there, or something newer."""
        known = self._known
        found = await committed_offsets(self._reader, self.name)
        offset = found.get(self._partition, 0)
        assert known <= offset <= self._tried, f"{self.name}: {known}, {offset}"
        self._known = max(self._known, offset)


class IdTaker(Workload):
    """Takes producer ids, which are given once for all time."""

    async def step(self) -> None:
        """Take one."""
        if await new_producer_id(self) >= 0:
            self.done += 1


class Admin(Workload):
    """Creates and deletes topics; what was acknowledged is so."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._exist: list[str] = []
        self._gone: list[str] = []
        self._count = 0

    async def step(self) -> None:
        """Create a topic, or delete one."""
        await pass_s(self.random.uniform(0, 2))
        try:
            if self._exist and self.random.random() < 0.4:
                name = self._exist.pop(self.random.randrange(len(self._exist)))
                [outcome] = (await delete_topics(self.cluster, [name])).values()
                if outcome is None:
                    self._gone.append(name)
            else:
                self._count += 1
                name = f"{self.name}-{self._count}"
                made = (await create_topics(self.cluster, [name], partitions=3))[name]
                if not isinstance(made, KafkaError):
                    self._exist.append(name)
            self.done += 1
        except FAILURES:
            pass

    async def check(self) -> None:
        """All brokers know what was acknowledged, and soon their disks too."""
        for node in self.world.nodes.values():
            topics = node.broker.image.topics_by_name
            for name in self._exist:
                assert name in topics, f"broker {node.node_id} doesn't know {name}"
            for name in self._gone:
                assert name not in topics, f"broker {node.node_id} knows {name}, which is deleted"
        await self.world.until(self._have_logs, 1, "each replica has a log, and nobody else")

    def _have_logs(self) -> bool:
        return all(
            ((name, index) in node.broker.log_manager.logs) == (node.node_id in row.replicas)
            for node in self.world.nodes.values()
            for name in self._exist
            for index, row in enumerate(node.broker.image.topics_by_name[name].partitions)
        )


async def new_producer_id(workload: Workload) -> int:
    """A producer id from any broker, -1 without an answer; it was never given before."""
    world, random = workload.world, workload.random
    try:
        node = random.choice(sorted(await workload.cluster.nodes()))
        answer = await workload.cluster.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
            InitProducerIdResponse,
            node=node,
            at_most=5,
        )
        check(answer.error_code, "a producer id")
    except FAILURES:
        return -1
    assert answer.producer_id not in world.producer_ids, f"{answer.producer_id} is given twice"
    world.producer_ids.add(answer.producer_id)
    return answer.producer_id


async def read_all(
    cluster: Cluster, topic: str, *, read_committed: bool = False
) -> dict[TopicPartition, list[str]]:
    """The values of all records of a topic."""
    wanted = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    ends: dict[TopicPartition, Any] = await ends_of(cluster, wanted)
    found: dict[TopicPartition, list[str]] = {partition: [] for partition in wanted}
    positions = dict.fromkeys(wanted, 0)
    fetcher = Fetcher(cluster, dict(positions), read_committed=read_committed, max_wait_ms=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        with trio.fail_after(60):
            while any(positions[partition] < ends[partition] for partition in wanted):
                read = await fetcher.next()
                positions[read.partition] = read.next_offset
                found[read.partition] += [record.value.decode() for record in read.records]
        nursery.cancel_scope.cancel()
    twice = [value for values in found.values() for value, n in Counter(values).items() if n > 1]
    assert not twice, f"records are there twice: {twice[:5]}"
    return found


def difference(found: list[str], wanted: list[str]) -> str:
    """Where two lists begin to differ."""
    place = next(
        (i for i, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other),
        min(len(found), len(wanted)),
    )
    return f"at {place} {found[place : place + 5]}, not {wanted[place : place + 5]}"
