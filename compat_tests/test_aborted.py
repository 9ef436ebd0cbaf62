"""What a read_committed fetch is told of aborted transactions, and where it ends."""

import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from compat_tests.raw_batches import TRANSACTIONAL, batch, record
from compat_tests.raw_client import RawClient
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.record.batch import RecordBatch, complete_batches
from kwire.testing.waiting import wait_until
from tests.support.requests import create_topics_request, fetch_request, produce_request

SETTINGS = {"segment.bytes": "1048576", "index.interval.bytes": "0"}
VALUE = bytes(30_000)
ROUNDS = 30
COMMITTED_ROUND = 10
A_FEW = 3
"""So far behind the answer the broker's indexes may let it name transactions."""


class Transaction(NamedTuple):
    """One that was ended: its producer, its first offset, and whether it was committed."""

    producer_id: int
    first_offset: int
    is_committed: bool


class Producer:
    """A transactional producer that writes one batch at a time to one topic."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.name = f"tx-{uuid.uuid4().hex[:10]}"
        self.sequence = 0
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.name])
        wait_until(lambda: ok(client.ask(request, 4).coordinators[0]), what="a coordinator")
        wait_until(self._begin, what="a producer id")

    def _begin(self) -> bool:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = self.client.ask(request, 4)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ok(answer)

    def write(self) -> int:
        """Add a batch to the transaction; its offset."""
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )

        def added() -> bool:
            answer = self.client.ask(request, 3)
            return ok(answer.results_by_topic_v3_and_below[0].results_by_partition[0], "partition_")

        wait_until(added, what="the partition in the transaction")
        data = batch(
            [record(0, b"k", VALUE)],
            attributes=TRANSACTIONAL,
            timestamp=int(time.time() * 1000),
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        self.sequence += 1
        produce = produce_request(self.topic, data, transactional_id=self.name)
        answer = self.client.ask(produce, 11).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return int(answer.base_offset)

    def end(self, *, commit: bool) -> None:
        """End the transaction."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        wait_until(lambda: ok(self.client.ask(request, 3)), what="the end of the transaction")


def ok(answer: Any, prefix: str = "") -> bool:
    """Whether an answer says no error."""
    return bool(getattr(answer, f"{prefix}error_code") == 0)


class Read(NamedTuple):
    """What one fetch gave."""

    batches: list[RecordBatch]
    aborted: list[tuple[int, int]]
    last_stable_offset: int
    high_watermark: int


def fetch(client: RawClient, topic: str, offset: int, max_bytes: int) -> Read:
    """Read committed records."""
    limits = {"max_bytes": max_bytes, "partition_max_bytes": max_bytes}
    request = fetch_request(topic, offset, max_wait_ms=100, isolation_level=1, **limits)
    answer = client.ask(request, 12).responses[0].partitions[0]
    assert answer.error_code == 0
    aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
    batches = list(complete_batches(bytes(answer.records)))
    return Read(batches, aborted, answer.last_stable_offset, answer.high_watermark)


@pytest.fixture
def topic(bootstrap: str) -> Iterator[str]:
    """A topic of one partition and small segments."""
    name = f"aborted-{uuid.uuid4().hex[:10]}"
    with RawClient(bootstrap) as client:
        client.ask(create_topics_request(name, **SETTINGS), 5)
        yield name
        client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)


def test_aborted_transactions_of_what_was_read(bootstrap: str, topic: str) -> None:
    """Each one that has records in the answer, and none from far behind it.

    Three producers write in turns over several segments; each ends its transactions at another
    time, so that they overlap and end in another order than they began.
    """
    with RawClient(bootstrap) as client:
        ended = write_in_turns(client, topic)
        wait_until(lambda: is_stable(client, topic), what="the markers")
        batches = read_all(client, topic)
        aborted = []
        for producer_id in {transaction.producer_id for transaction in ended}:
            own = [transaction for transaction in ended if transaction.producer_id == producer_id]
            markers = [b for b in batches if b.is_control and b.producer_id == producer_id]
            aborted += [
                (transaction, marker.base_offset)
                for transaction, marker in zip(own, markers, strict=True)
                if not transaction.is_committed
            ]
        assert len(aborted) > ROUNDS / 2
        for offset in range(0, ROUNDS * 3, 7):
            for max_bytes in (1, 100_000, 1 << 22):
                read = fetch(client, topic, offset, max_bytes)
                last = read.batches[-1].last_offset
                assert about(aborted, offset, last) <= set(read.aborted)
                assert set(read.aborted) <= about(aborted, offset, last + A_FEW)


def about(
    aborted: list[tuple[Transaction, int]], offset: int, last_offset: int
) -> set[tuple[int, int]]:
    """The aborted transactions with records between the offsets, as an answer names them."""
    return {
        (transaction.producer_id, transaction.first_offset)
        for transaction, marker in aborted
        if transaction.first_offset <= last_offset and marker >= offset
    }


def write_in_turns(client: RawClient, topic: str) -> list[Transaction]:
    """Transactions that overlap, all ended; for each producer in their order."""
    producers = [Producer(client, topic) for _ in range(3)]
    first: dict[int, int] = {}
    ended = []
    for n in range(ROUNDS):
        for place, producer in enumerate(producers):
            offset = producer.write()
            first.setdefault(producer.id, offset)
            if n % (place + 2) == place or n == ROUNDS - 1:
                is_committed = n == COMMITTED_ROUND
                producer.end(commit=is_committed)
                ended.append(Transaction(producer.id, first.pop(producer.id), is_committed))
    return ended


def is_stable(client: RawClient, topic: str) -> bool:
    """Whether every transaction has its marker."""
    read = fetch(client, topic, 0, 1)
    return read.last_stable_offset == read.high_watermark


def read_all(client: RawClient, topic: str) -> list[RecordBatch]:
    """Every batch."""
    found: list[RecordBatch] = []
    while True:
        offset = found[-1].next_offset if found else 0
        some = fetch(client, topic, offset, 1 << 22).batches
        if not some:
            return found
        found += some
