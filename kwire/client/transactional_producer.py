"""Writing records in transactions: all of one transaction's records are read, or none.

Rules:

- ``open_producer`` takes the transactional id's next epoch. It aborts the open transaction of an
  earlier producer with the same id, and fences that producer.
- AddPartitionsToTxn adds partitions to a transaction (version 3, the last for clients). EndTxn is
  sent in version 4 at the most, because then brokers of every version keep the epoch.
- After any error the transaction is aborted and the producer is no longer used. A new producer
  begins with the coordinator's state.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.client.cluster import TRANSACTION, Cluster, check
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import by_topic
from kwire.client.producer import produce
from kwire.errors import KafkaError
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.record.records import BatchBuilder, Headers, ProducerState

_TIMEOUT_MS = 60_000
_NEWEST_WITHOUT_2PC = 5
_NEWEST_FOR_CLIENTS = 3
_NEWEST_WITH_ONE_EPOCH = 4
_BATCH_BYTES = 512 * 1024
_MAX_SEQUENCE = 1 << 31


class NewRecord(NamedTuple):
    """A record to write; ``timestamp`` in ms since the epoch."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class TransactionalProducer:
    """Writes transactions one after the other; made by ``open_producer``."""

    def __init__(self, cluster: Cluster, transactional_id: str, producer: int, epoch: int) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._producer = producer
        self._epoch = epoch
        self._sequences: dict[TopicPartition, int] = {}

    async def write(self, records: Mapping[TopicPartition, Iterable[NewRecord]]) -> None:
        """Write and commit one transaction; KafkaError, and then no consumer reads its records."""
        try:
            await self._add(records)
            left = {partition: _batches(mine) for partition, mine in records.items()}
            while left:
                await self._produce({partition: mine.pop(0) for partition, mine in left.items()})
                left = {partition: mine for partition, mine in left.items() if mine}
        except KafkaError:
            await self._end_transaction(commits=False)
            raise
        await self._end_transaction(commits=True)

    async def _add(self, partitions: Iterable[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[one.partition for one in mine])
                for topic, mine in by_topic(partitions)
            ],
        )

        async def attempt() -> None:
            answer = await self._cluster.ask_coordinator(
                self._id,
                request,
                AddPartitionsToTxnResponse,
                _codes,
                key_type=TRANSACTION,
                at_most=_NEWEST_FOR_CLIENTS,
            )
            for code in _codes(answer):
                check(code, f"transactional id {self._id}")

        await self._cluster.retrying(attempt)

    async def _produce(self, builders: Mapping[TopicPartition, tuple[BatchBuilder, int]]) -> None:
        batches = {}
        for partition, (builder, count) in builders.items():
            sequence = self._sequences.get(partition, 0)
            state = ProducerState(self._producer, self._epoch, sequence)
            batches[partition] = bytes(builder.build(producer=state, transactional=True))
            self._sequences[partition] = (sequence + count) % _MAX_SEQUENCE
        answer = await produce(self._cluster, batches, transactional_id=self._id)
        for outcome in answer.values():
            if isinstance(outcome, KafkaError):
                raise outcome

    async def _end_transaction(self, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer,
            producer_epoch=self._epoch,
            committed=commits,
        )

        async def attempt() -> None:
            answer = await self._cluster.ask_coordinator(
                self._id,
                request,
                EndTxnResponse,
                lambda answer: [answer.error_code],
                key_type=TRANSACTION,
                at_most=_NEWEST_WITH_ONE_EPOCH,
            )
            check(answer.error_code, f"transactional id {self._id}")

        await self._cluster.retrying(attempt)


async def open_producer(cluster: Cluster, transactional_id: str) -> TransactionalProducer:
    """The only producer of a transactional id from now on; KafkaError."""
    answer = await init_producer_id(cluster, transactional_id, _TIMEOUT_MS)
    return TransactionalProducer(
        cluster, transactional_id, answer.producer_id, answer.producer_epoch
    )


async def init_producer_id(
    cluster: Cluster, transactional_id: str, timeout_ms: int
) -> InitProducerIdResponse:
    """Get a transactional id's producer id and a new epoch, which fences its earlier producer.

    Its open transaction is aborted. ``timeout_ms`` is the timeout of the next. Raises KafkaError.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )

    async def attempt() -> InitProducerIdResponse:
        answer = await cluster.ask_coordinator(
            transactional_id,
            request,
            InitProducerIdResponse,
            lambda answer: [answer.error_code],
            key_type=TRANSACTION,
            at_most=_NEWEST_WITHOUT_2PC,
        )
        check(answer.error_code, f"transactional id {transactional_id}")
        return answer

    return await cluster.retrying(attempt)


def _codes(answer: AddPartitionsToTxnResponse) -> list[int]:
    return [
        row.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    ]


def _batches(records: Iterable[NewRecord]) -> list[tuple[BatchBuilder, int]]:
    """Batches of bounded size, each with its number of records; a record is never cut."""
    found: list[tuple[BatchBuilder, int]] = []
    size = _BATCH_BYTES
    for one in records:
        if size >= _BATCH_BYTES:
            found.append((BatchBuilder(), 0))
            size = 0
        builder, count = found[-1]
        builder.add(one.timestamp, one.key, one.value, one.headers)
        found[-1] = (builder, count + 1)
        size += len(one.key or b"") + len(one.value or b"")
    return found
