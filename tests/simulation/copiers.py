"""Transactions over partitions of several brokers: each is whole or absent, and none hangs."""

from collections.abc import Sequence
from contextlib import suppress

import trio

from kwire.client.cluster import TRANSACTION, Cluster, check
from kwire.client.leaders import TopicPartition, ask_leaders
from kwire.client.transactions import open_transactions
from kwire.errors import KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.records import BatchBuilder, ProducerState
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, Workload, read_all
from tests.simulation.world import DATE_MS, World

TIMEOUT_MS = 20_000


class Copier(Workload):
    """Writes transactions; ``bumps`` chooses the protocol of KIP-890."""

    def __init__(self, world: World, name: str, topic: str, *, bumps: bool) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.bumps = bumps
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._written: dict[int, Sequence[int]] = {}
        self._committed: set[int] = set()
        self._may_be: set[int] = set()

    async def step(self) -> None:
        """Write one transaction, and end it; after a failure nothing is known of its end."""
        try:
            if self._producer is None:
                await self._init()
            number = len(self._written)
            indexes = self.random.sample(range(PARTITIONS), self.random.randint(1, 4))
            self._written[number] = indexes
            commits, races = self.random.random() < 0.7, self.random.random() < 0.25
            await self._write(number, indexes, races=races)
            if commits and not races:
                self._may_be.add(number)
            await self._end(commits=commits and not races)
            if races and not self.bumps:
                self._producer = None  # writes that are late may have used sequences
            if commits and not races:
                self._committed.add(number)
            self.done += 1
        except FAILURES:
            self._producer = None

    async def _init(self) -> None:
        answer = await self.cluster.ask_coordinator(
            self.name,
            InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS),
            InitProducerIdResponse,
            lambda answer: [answer.error_code],
            key_type=TRANSACTION,
            at_most=5,
        )
        check(answer.error_code, self.name)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def _write(self, number: int, indexes: Sequence[int], *, races: bool) -> None:
        """Write to every partition; with ``races`` some writes are still on their way."""
        if not self.bumps:
            await self._add(indexes)
        batches = {index: self._batch(number, index) for index in indexes}
        for index, batch in batches.items():
            if races:
                self.world.nursery.start_soon(self._produce_late, index, batch)
            else:
                await self._produce(index, batch)
                await self._has_begun()
        if races:
            await pass_s(self.random.random() * 0.01)

    async def _has_begun(self) -> None:
        """A write of the transaction is acknowledged, so its coordinator knows that it is open."""

    async def _produce_late(self, index: int, batch: bytes) -> None:
        """Write without looking at the answer; the transaction is aborted meanwhile."""
        await pass_s(self.random.choice((0, 0.5)) * self.random.random())
        with suppress(*FAILURES):
            await self._produce(index, batch)

    def _batch(self, number: int, index: int) -> bytes:
        assert self._producer is not None
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = sequence + 1
        builder = BatchBuilder()
        builder.add(DATE_MS, None, f"{self.name}:{number}".encode())
        producer = ProducerState(*self._producer, sequence)
        return bytes(builder.build(producer=producer, transactional=True))

    async def _produce(self, index: int, batch: bytes) -> None:
        data = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )
        partition = TopicPartition(self.topic, index)

        async def ask(
            node: int, mine: dict[TopicPartition, None]
        ) -> dict[TopicPartition, tuple[int, None]]:
            newest = 12 if self.bumps else 11
            answer = await self.cluster.ask(request, ProduceResponse, node=node, at_most=newest)
            [row] = answer.responses[0].partition_responses
            return {partition: (row.error_code, None)}

        outcome = (await ask_leaders(self.cluster, {partition: None}, ask))[partition]
        if isinstance(outcome, KafkaError):
            raise outcome

    async def _add(self, indexes: Sequence[int]) -> None:
        assert self._producer is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=self.topic, partitions=list(indexes))
            ],
        )

        async def attempt() -> None:
            answer = await self.cluster.ask_coordinator(
                self.name,
                request,
                AddPartitionsToTxnResponse,
                _codes,
                key_type=TRANSACTION,
                at_most=3,
            )
            for code in _codes(answer):
                check(code, self.name)

        await self.cluster.retrying(attempt)

    async def _end(self, *, commits: bool) -> None:
        producer = self._producer
        assert producer is not None
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commits,
        )

        async def attempt() -> EndTxnResponse:
            answer = await self.cluster.ask_coordinator(
                self.name,
                request,
                EndTxnResponse,
                lambda answer: [answer.error_code],
                key_type=TRANSACTION,
                at_most=5 if self.bumps else 4,
            )
            check(answer.error_code, self.name)
            return answer

        answer = await self.cluster.retrying(attempt)
        if self.bumps:
            self._producer = answer.producer_id, answer.producer_epoch
            self._sequences.clear()

    async def check(self) -> None:
        """Committed transactions are whole, aborted ones absent, unknown ones either."""
        if self._producer is None:
            await self.cluster.retrying(self._init)  # aborts what the last one left open
        await self._wait_closed(self.cluster)
        found = await read_all(self.cluster, self.topic, read_committed=True)
        for number, indexes in self._written.items():
            value = f"{self.name}:{number}"
            there = [one.partition for one, values in found.items() if value in values]
            whole = sorted(indexes)
            allowed = [whole] if number in self._committed else [[]]
            if number in self._may_be - self._committed:
                allowed = [whole, []]
            assert there in allowed, f"transaction {value} is in {there}, not in {allowed}"

    async def _wait_closed(self, cluster: Cluster) -> None:
        """Wait until no partition has an open transaction of this or another workload."""
        wanted = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        deadline_s = trio.current_time() + 3 * TIMEOUT_MS / 1000
        while left := await open_transactions(cluster, wanted):
            assert trio.current_time() < deadline_s, f"transactions hang: {left}"
            await pass_s(0.5)


class LateEnds(Copier):
    """A copier whose ends arrive once more, when its next transaction has begun.

    S21: with the protocol of KIP-890 they are refused; they would tear the next transaction. Before
    it begins, the same end may be repeated, and is answered as it was.
    """

    def __init__(self, world: World, name: str, topic: str) -> None:
        super().__init__(world, name, topic, bumps=True)
        self.late = 0
        self._old: tuple[int, int] | None = None

    async def _end(self, *, commits: bool) -> None:
        producer = self._producer
        await super()._end(commits=commits)
        self._old = producer

    async def _has_begun(self) -> None:
        old, self._old = self._old, None
        if old is None:
            return
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=old[0],
            producer_epoch=old[1],
            committed=self.random.random() < 0.5,
        )
        answer = await self.cluster.ask_coordinator(
            self.name,
            request,
            EndTxnResponse,
            lambda answer: [answer.error_code],
            key_type=TRANSACTION,
            at_most=5,
        )
        assert answer.error_code, f"{self.name}: a late end of a transaction is taken"
        self.late += 1


def _codes(answer: AddPartitionsToTxnResponse) -> list[int]:
    return [
        row.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    ]
