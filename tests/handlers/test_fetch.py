"""Fetch: long polls, sessions, limits and errors, over a socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import base_offsets

TOPIC = "orders"
VERSION = 12
BATCH_VALUE = bytes(1000)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with a topic of two partitions."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC, 2)
        await server.hang_up()
        yield server


async def produce(client: RawClient, count: int, partition: int = 0) -> None:
    """Append batches of one record."""
    for _ in range(count):
        await client.produce(TOPIC, BATCH_VALUE, partition=partition, acks=1)


def wanted(*offsets: tuple[int, int], max_bytes: int = 1_000_000) -> list[FetchTopic]:
    """Partitions and where to read from."""
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        for partition, offset in offsets
    ]
    return [FetchTopic(topic=TOPIC, partitions=partitions)] if partitions else []


def told(response: FetchResponse) -> dict[int, PartitionData]:
    """The partitions of an answer."""
    return {p.partition_index: p for topic in response.responses for p in topic.partitions}


async def test_it_waits_for_an_append(running: RunningServer) -> None:
    """A fetch at the end is answered by the append, long before its time is up."""
    reader, writer = await running.connect(), await running.connect()
    with trio.fail_after(20):
        request = FetchRequest(min_bytes=1, max_wait_ms=60_000, topics=wanted((0, 0), (1, 0)))
        await reader.send(request, VERSION)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await produce(writer, 1, partition=1)
        assert await reader.receive_frame() is not None
    await reader.aclose()
    await writer.aclose()


async def test_it_gives_up_after_max_wait(running: RunningServer) -> None:
    """Nothing came: empty partitions, and no error."""
    client = await running.connect()
    request = FetchRequest(min_bytes=1, max_wait_ms=20, topics=wanted((0, 0)))
    data = told(await client.request(request, VERSION, FetchResponse))[0]
    assert (data.error_code, base_offsets(data.records), data.high_watermark) == (0, [], 0)
    await client.aclose()


async def test_limits_are_soft_for_the_first_batch(running: RunningServer) -> None:
    """One whole batch comes even if it is larger than everything that is allowed."""
    client = await running.connect()
    await produce(client, 3, partition=0)
    await produce(client, 3, partition=1)
    tiny = wanted((0, 1), (1, 0), max_bytes=10)
    response = await client.request(
        FetchRequest(min_bytes=1, max_bytes=10, topics=tiny), VERSION, FetchResponse
    )
    assert base_offsets(told(response)[0].records) == [1]
    assert base_offsets(told(response)[1].records) == []
    all_of_it = FetchRequest(min_bytes=1, topics=wanted((0, 0), (1, 1)))
    response = await client.request(all_of_it, VERSION, FetchResponse)
    assert base_offsets(told(response)[0].records) == [0, 1, 2]
    assert base_offsets(told(response)[1].records) == [1, 2]
    await client.aclose()


async def test_an_offset_out_of_range(running: RunningServer) -> None:
    """It is told at once, with where the log starts."""
    client = await running.connect()
    request = FetchRequest(min_bytes=1, max_wait_ms=60_000, topics=wanted((0, 5)))
    with trio.fail_after(20):
        data = told(await client.request(request, VERSION, FetchResponse))[0]
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    await client.aclose()


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, 0)])
async def test_leader_epochs(running: RunningServer, epoch: int, code: int) -> None:
    """A client that knows another leader is told so."""
    client = await running.connect()
    topics = wanted((0, 0))
    topics[0].partitions[0].current_leader_epoch = epoch
    request = FetchRequest(min_bytes=0, topics=topics)
    data = told(await client.request(request, VERSION, FetchResponse))[0]
    assert data.error_code == code
    await client.aclose()


async def test_sessions_tell_only_news(running: RunningServer) -> None:
    """After the first fetch only partitions with something new are answered (KIP-227)."""
    client = await running.connect()
    await produce(client, 1, partition=0)
    first = FetchRequest(session_epoch=0, topics=wanted((0, 0), (1, 0)))
    response = await client.request(first, VERSION, FetchResponse)
    session = response.session_id
    assert session > 0
    assert sorted(told(response)) == [0, 1]
    moved = FetchRequest(session_id=session, session_epoch=1, topics=wanted((0, 1)))
    assert told(await client.request(moved, VERSION, FetchResponse)) == {}
    await produce(client, 1, partition=1)
    same = FetchRequest(session_id=session, session_epoch=2)
    assert list(told(await client.request(same, VERSION, FetchResponse))) == [1]
    forget = FetchRequest(
        session_id=session,
        session_epoch=3,
        forgotten_topics_data=[ForgottenTopic(topic=TOPIC, partitions=[1])],
    )
    assert told(await client.request(forget, VERSION, FetchResponse)) == {}
    await client.aclose()


async def test_sessions_that_are_wrong(running: RunningServer) -> None:
    """An unknown id, a wrong epoch, and a session that was ended."""
    client = await running.connect()

    async def error(session_id: int, epoch: int) -> int:
        request = FetchRequest(session_id=session_id, session_epoch=epoch)
        return (await client.request(request, VERSION, FetchResponse)).error_code

    assert await error(12345, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    first = FetchRequest(session_epoch=0, topics=wanted((0, 0)))
    session = (await client.request(first, VERSION, FetchResponse)).session_id
    assert await error(session, 7) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert await error(session, 1) == 0
    assert await error(session, -1) == 0
    assert await error(session, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await client.aclose()


async def test_a_topic_deleted_while_somebody_waits(running: RunningServer) -> None:
    """The fetch that waits is told at once that the topic is gone."""
    reader, admin = await running.connect(), await running.connect()
    with trio.fail_after(20):
        request = FetchRequest(min_bytes=1, max_wait_ms=60_000, topics=wanted((0, 0)))
        await reader.send(request, VERSION)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await admin.request(DeleteTopicsRequest(topic_names=[TOPIC]), 5, DeleteTopicsResponse)
        assert await reader.receive_frame() is not None
    await reader.aclose()
    await admin.aclose()


async def test_more_at_least_than_at_most(running: RunningServer) -> None:
    """min_bytes beyond max_bytes doesn't wait for what could never come."""
    client = await running.connect()
    await produce(client, 1)
    request = FetchRequest(
        min_bytes=1_000_000, max_bytes=100, max_wait_ms=60_000, topics=wanted((0, 0))
    )
    with trio.fail_after(20):
        data = told(await client.request(request, VERSION, FetchResponse))[0]
    assert base_offsets(data.records) == [0]
    await client.aclose()


async def test_a_session_hears_of_everything_that_happens_to_a_quiet_partition(
    running: RunningServer,
) -> None:
    """A moved log start offset, a wrong epoch, a deleted topic: not only of records."""
    client = await running.connect()
    await produce(client, 2)
    first = FetchRequest(session_epoch=0, topics=wanted((0, 2), (1, 0)))
    session = (await client.request(first, VERSION, FetchResponse)).session_id
    epoch = 0

    async def fetch(topics: list[FetchTopic]) -> dict[int, PartitionData]:
        nonlocal epoch
        epoch += 1
        request = FetchRequest(session_id=session, session_epoch=epoch, topics=topics)
        return told(await client.request(request, VERSION, FetchResponse))

    assert await fetch([]) == {}
    running.broker.partition(TOPIC, 0).delete_records(1)
    assert (await fetch([]))[0].log_start_offset == 1
    assert await fetch([]) == {}
    changed = wanted((0, 2))
    changed[0].partitions[0].current_leader_epoch = 7
    assert (await fetch(changed))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await fetch(wanted((0, 2))))[0].error_code == 0
    assert await fetch([]) == {}
    assert base_offsets((await fetch(wanted((0, 1))))[0].records) == [1]
    deletion = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
    await client.request(deletion, 5, DeleteTopicsResponse)
    gone = await fetch([])
    assert {data.error_code for data in gone.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(gone) == 2
    await client.aclose()
