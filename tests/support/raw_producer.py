"""A transactional producer whose requests a test sends one by one, in an order of its own.

``bumps`` chooses the protocol. With it, Produce 12, TxnOffsetCommit 5 and EndTxn 5 add partitions
and groups to the transaction implicitly, and every transaction ends with a new epoch (KIP-890).
Without it, separate requests add partitions and groups.
"""

from typing import Any, Protocol, TypeVar

from kwire.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kwire.protocol.types import Request, Response
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.asking import TRANSACTION_KEY, check

_R = TypeVar("_R", bound=Response)


class RawClient(Protocol):
    """The client that sends the requests."""

    async def request(self, request: Request, version: int, answer: type[_R], /) -> _R:
        """Send a request and wait for its response."""


class RawProducer:
    """A producer with a transactional id on one connection; every error is a KafkaError."""

    def __init__(self, client: RawClient, transactional_id: str, *, bumps: bool = True) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.bumps = bumps
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def init(self, *, timeout_ms: int = 60_000, goes_on: bool = False) -> None:
        """Get a producer id and epoch; with ``goes_on`` the request has the current ones."""
        await self.client.request(
            FindCoordinatorRequest(
                key_type=TRANSACTION_KEY, coordinator_keys=[self.transactional_id]
            ),
            6,
            FindCoordinatorResponse,
        )
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if goes_on:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = await self.client.request(request, 5, InitProducerIdResponse)
        check(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def add(self, topic: str, index: int) -> None:
        """Add a partition to the transaction by a separate request."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        answer = await self.client.request(request, 3, AddPartitionsToTxnResponse)
        [result] = answer.results_by_topic_v3_and_below
        check(result.results_by_partition[0].partition_error_code)

    async def produce(
        self, topic: str, index: int, value: bytes, *, version: int | None = None
    ) -> int:
        """Write one record as part of the transaction; returns its offset."""
        sequence = self._sequences.get((topic, index), 0)
        builder = BatchBuilder()
        builder.add(0, None, value)
        batch = builder.build(
            producer=ProducerState(self.producer_id, self.epoch, sequence), transactional=True
        )
        data = PartitionProduceData(index=index, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        version = version or (12 if self.bumps else 11)
        answer = await self.client.request(request, version, ProduceResponse)
        [partition] = answer.responses[0].partition_responses
        check(partition.error_code)
        self._sequences[topic, index] = sequence + 1
        return partition.base_offset

    def skip(self, topic: str, index: int, count: int = 1) -> None:
        """Skip sequences of a partition, as if batches were in flight; negative to go back."""
        self._sequences[topic, index] = self._sequences.get((topic, index), 0) + count

    async def add_offsets(self, group_id: str) -> None:
        """Add a group to the transaction by a separate request."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        answer = await self.client.request(request, 4, AddOffsetsToTxnResponse)
        check(answer.error_code)

    async def commit_offset(
        self, group_id: str, topic: str, index: int, offset: int, **member: Any
    ) -> None:
        """Commit an offset as part of the transaction; ``member`` has the member's fields."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=None
        )
        fields: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": group_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "topics": [TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        }
        request = TxnOffsetCommitRequest(**(fields | member))
        version = 5 if self.bumps else 4
        answer = await self.client.request(request, version, TxnOffsetCommitResponse)
        check(answer.topics[0].partitions[0].error_code)

    async def end(self, *, committed: bool) -> None:
        """Commit or abort the transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = await self.client.request(request, 5 if self.bumps else 4, EndTxnResponse)
        check(answer.error_code)
        if self.bumps:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
