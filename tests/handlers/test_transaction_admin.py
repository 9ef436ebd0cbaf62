"""What operators see of transactions, and how they end one that hangs."""

import threading

import pytest
import re2

from kwire.errors import ErrorCode
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kwire.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support.in_process import RawClient
from tests.support.raw_producer import RawProducer
from tests.support.threads import threads_that_call

TOPIC = "orders"


@pytest.fixture
async def client(server) -> RawClient:
    """A connection."""
    return await server.connect()


@pytest.fixture
async def producer(server) -> RawProducer:
    """A producer with an open transaction in partition 0."""
    begun = RawProducer(await server.connect(), "ledger")
    await begun.init()
    await begun.produce(TOPIC, 0, b"v")
    return begun


async def producers(client, *partitions: int, topic: str = TOPIC):
    """What DescribeProducers tells of partitions."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(partitions))]
    )
    answer = await client.request(request, 0, DescribeProducersResponse)
    return answer.topics[0].partitions


async def describe(client, transactional_id: str):
    """What DescribeTransactions tells of one id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    answer = await client.request(request, 0, DescribeTransactionsResponse)
    return answer.transaction_states[0]


async def test_producers_of_a_partition(producer, client):
    """Who wrote there, and since where a transaction is open."""
    [found, empty] = await producers(client, 0, 1)
    [one] = found.active_producers
    assert (one.producer_id, one.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (one.last_sequence, one.current_txn_start_offset, one.coordinator_epoch) == (0, 0, -1)
    assert not empty.active_producers
    await producer.end(committed=True)
    [[one]] = [p.active_producers for p in await producers(client, 0)]
    assert (one.last_sequence, one.current_txn_start_offset, one.coordinator_epoch) == (-1, -1, 0)


async def test_producers_of_what_is_not_there(client):
    """Each partition has its error."""
    [unknown] = await producers(client, 9)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    [illegal] = await producers(client, 0, topic="bad name")
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_transaction_is_described(producer, client):
    """State, timeout, start and partitions."""
    await producer.produce(TOPIC, 1, b"v")
    found = await describe(client, "ledger")
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(t.topic, t.partitions) for t in found.topics] == [(TOPIC, [0, 1])]
    assert found.transaction_start_time_ms > 0
    await producer.end(committed=False)
    assert (await describe(client, "ledger")).transaction_state == "CompleteAbort"


async def test_an_id_that_cannot_be_described(producer, client):
    """Nobody knows it, or it is none."""
    unknown = await describe(client, "unknown")
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await describe(client, "")).error_code == ErrorCode.INVALID_REQUEST


async def test_a_list_is_filtered(producer, client):
    """By state, producer id, duration and pattern; states that nobody knows are named."""
    await RawProducer(client, "idle").init()

    async def listed(version: int = 1, **filters: object) -> list[str]:
        request = ListTransactionsRequest(**filters)
        answer = await client.request(request, version, ListTransactionsResponse)
        assert answer.error_code == 0
        names = [state.transactional_id for state in answer.transaction_states]
        return sorted(names) + answer.unknown_state_filters

    assert await listed() == ["idle", "ledger"]
    assert await listed(version=0, state_filters=["Ongoing"]) == ["ledger"]
    assert await listed(state_filters=["Empty", "Busy"]) == ["idle", "Busy"]
    assert await listed(producer_id_filters=[producer.producer_id, 99]) == ["ledger"]
    assert await listed(duration_filter=3_600_000) == ["idle"]
    assert await listed(version=2, transactional_id_pattern="l.*r") == ["ledger"]
    assert await listed(version=2, transactional_id_pattern="edge") == []
    request = ListTransactionsRequest(transactional_id_pattern="(")
    answer = await client.request(request, 2, ListTransactionsResponse)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_transaction_that_hangs_is_aborted(producer, client):
    """kafka-transactions.sh abort writes the marker by itself."""

    async def abort(epoch: int, *, coordinator_epoch: int = 0, version: int = 0) -> list[int]:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
            topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 9])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = await client.request(request, 2, WriteTxnMarkersResponse)
        assert answer.markers[0].producer_id == producer.producer_id
        return [p.error_code for p in answer.markers[0].topics[0].partitions]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await abort(0, version=2) == [ErrorCode.INVALID_PRODUCER_EPOCH, unknown]
    assert await abort(0, coordinator_epoch=3) == [0, unknown]
    [found] = await producers(client, 0)
    assert found.active_producers[0].current_txn_start_offset == -1
    assert await abort(0, coordinator_epoch=2) == [
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        unknown,
    ]
    assert await abort(-1, coordinator_epoch=3) == [ErrorCode.INVALID_PRODUCER_EPOCH, unknown]
    assert await abort(0, coordinator_epoch=3, version=2) == [0, unknown]


async def test_a_pattern_is_compiled_and_matched_in_a_thread(producer, client, monkeypatch):
    """Some patterns take milliseconds, and the first one loads the library."""
    threads = threads_that_call(monkeypatch, re2, "compile")
    request = ListTransactionsRequest(transactional_id_pattern="led[a-z]*")
    answer = await client.request(request, 2, ListTransactionsResponse)
    assert [one.transactional_id for one in answer.transaction_states] == ["ledger"]
    assert threads
    assert threading.main_thread() not in threads
