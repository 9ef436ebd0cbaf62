"""What a fetch tells of each partition, also of those without news, and how it waits for them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.broker.partition import Partition
from kwire.dispatch.routes import route
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Unfinished
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.in_process import RunningServer, running_server
from tests.support.work import free_work

INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
TOPIC = "orders"
VERSION = 12
NOW_MS = 1_700_000_000_000
READ_COMMITTED = 1


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with a topic of three partitions."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC, 3)
        yield server


def begin(server: RunningServer, request: FetchRequest) -> Any:
    """The response of the handler, or ``Unfinished``."""
    context = RequestContext(server.broker, INFO, VERSION, "test", free_work())
    return route(1, VERSION).handle(request, context)


def request_for(*partitions: int, offset: int = 0, **values: Any) -> FetchRequest:
    """A fetch of partitions of the topic, without a session."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000_000)
        for index in partitions
    ]
    return FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=wanted)], **values)


def told(server: RunningServer, request: FetchRequest) -> list[PartitionData]:
    """What a fetch that needn't wait is told."""
    [topic] = begin(server, request).responses
    found: list[PartitionData] = topic.partitions
    return found


def append(partition: Partition, *, transaction: ProducerState | None = None) -> None:
    """Append one record, perhaps in a transaction."""
    builder = BatchBuilder()
    builder.add(NOW_MS, None, b"value")
    if transaction is None:
        batch = builder.build()
    else:
        batch = builder.build(producer=transaction, transactional=True)
    partition.append(bytes(batch), now_ms=NOW_MS)


def offsets(data: PartitionData) -> tuple[int, int, int]:
    """High watermark, last stable offset and log start offset."""
    return data.high_watermark, data.last_stable_offset, data.log_start_offset


async def test_a_partition_without_news_tells_its_offsets_as_they_are_now(
    running: RunningServer,
) -> None:
    """The answer is kept from one fetch to the next, but not beyond a change."""
    partition = running.broker.partition(TOPIC, 0)
    [before] = told(running, request_for(0))
    assert (offsets(before), before.records) == ((0, 0, 0), b"")
    assert told(running, request_for(0)) == [before]
    append(partition)
    [at_end] = told(running, request_for(0, offset=1))
    assert (offsets(at_end), at_end.records) == ((1, 1, 0), b"")
    append(partition, transaction=ProducerState(1, 0, 0))
    [in_transaction] = told(running, request_for(0, offset=2))
    assert offsets(in_transaction) == (2, 1, 0)
    partition.delete_records(1)
    [deleted] = told(running, request_for(0, offset=2))
    assert offsets(deleted) == (2, 1, 1)
    assert offsets(before) == (0, 0, 0), "an answer that may still be sent was changed"


async def test_what_is_kept_is_right_for_both_isolation_levels(running: RunningServer) -> None:
    """Only read_committed has a list of aborted transactions, which is empty here."""
    for level in (READ_COMMITTED, 0, READ_COMMITTED, 0):
        [data] = told(running, request_for(0, isolation_level=level))
        assert data.aborted_transactions == ([] if level else None)
    partition = running.broker.partition(TOPIC, 0)
    append(partition, transaction=ProducerState(1, 0, 0))
    [committed] = told(running, request_for(0, isolation_level=READ_COMMITTED))
    [all_of_it] = told(running, request_for(0))
    assert (committed.records, committed.aborted_transactions) == (b"", [])
    assert all_of_it.records


async def test_each_topic_is_told_once_in_a_row(running: RunningServer) -> None:
    """Entries of a request that name the same topic in a row share one entry of the answer."""
    await running.topic("bills")
    request = request_for(0)
    for name, index in [(TOPIC, 1), ("bills", 0), (TOPIC, 2)]:
        request.topics.append(FetchTopic(topic=name, partitions=[FetchPartition(partition=index)]))
    answers = begin(running, request).responses
    assert [
        (topic.topic, [data.partition_index for data in topic.partitions]) for topic in answers
    ] == [(TOPIC, [0, 1]), ("bills", [0]), (TOPIC, [2])]


async def test_one_that_waits_follows_a_partition_to_its_new_role(running: RunningServer) -> None:
    """The broker begins to lead the partition again: records in its new role answer the fetch."""
    request = request_for(0, 1, min_bytes=1, max_wait_ms=60_000)
    waits = begin(running, request)
    assert isinstance(waits, Unfinished)
    old = running.broker.partition(TOPIC, 0)
    new = Partition(TOPIC, 0, old.topic_id, old.log, old.leader_epoch + 1, running.broker.flusher)
    running.broker.replica_manager.host(new)
    assert waits.go_on() is waits, "nothing has come yet"
    assert not old.waiters or not new.waiters.isdisjoint(old.waiters)
    append(new)
    response = waits.go_on()
    assert response.responses[0].partitions[0].records
    for partition in (old, new, running.broker.partition(TOPIC, 1)):
        assert not partition.waiters
