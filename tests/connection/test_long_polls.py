"""Fetches that wait: woken once, in order, without a task, whoever goes away meanwhile."""

import errno
from pathlib import Path

import pytest
import trio

from kwire.broker.partition import Partition
from kwire.connection.connection import REQUESTS_PER_TURN
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
)
from kwire.record.batch import RecordBatch
from kwire.testing.waiting import until
from tests.connection.conftest import TOPIC
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request

NOW_MS = 1_700_000_000_000
VERSIONS = [11, 12]
"""Without and with the fast path."""

UNREAD = 3000

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def append(partition: Partition, value: bytes = b"v") -> None:
    """Append a record, outside of any turn of the poller."""
    partition.append(bytearray(batch(value)), now_ms=NOW_MS)


def fetch(offset: int = 0, *, max_wait_ms: int = 60_000, min_bytes: int = 1) -> FetchRequest:
    """A fetch without a session."""
    most = {"max_bytes": 100_000_000, "partition_max_bytes": 100_000_000}
    return fetch_request(TOPIC, offset, max_wait_ms=max_wait_ms, min_bytes=min_bytes, **most)


async def fetched(client: RawClient, version: int) -> list[int]:
    """The base offsets of the batches that the next answer brings."""
    code, offsets = await answered(client, version)
    assert code == ErrorCode.NONE
    return offsets


async def answered(client: RawClient, version: int) -> tuple[int, list[int]]:
    """The error code of the next answer, and the base offsets of the batches that it brings."""
    with trio.fail_after(20):
        frame = await client.receive_frame()
    assert frame is not None
    _, position = decode_response_header(frame, FetchResponse, version)
    response = decode(FetchResponse, version, memoryview(frame)[position:])
    [data] = response.responses[0].partitions
    records = data.records
    offsets, at = [], 0
    while at < len(records):
        found = RecordBatch(memoryview(records)[at:])
        offsets.append(found.base_offset)
        at += found.size_bytes
    return data.error_code, offsets


async def waiting(partition: Partition, count: int) -> None:
    """Until so many fetches wait for the partition."""
    await until(lambda: len(partition.waiters) == count)


async def test_many_wait_without_a_task(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """And all of them are woken by one append."""
    clients = [await running.connect() for _ in range(40)]
    tasks = trio.lowlevel.current_statistics().tasks_living
    for client in clients:
        await client.send(fetch(), version)
    await waiting(partition, len(clients))
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    append(partition)
    for client in clients:
        assert await fetched(client, version) == [0]
        await client.aclose()
    assert not partition.waiters


async def test_appends_of_one_turn_are_one_answer(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """A producer's requests are served before the fetch that they wake."""
    reader, writer = await running.connect(), await running.connect()
    await reader.send(fetch(), version)
    await waiting(partition, 1)
    frame = bytes(encode_request(produce_request(TOPIC, batch(b"v")), 9, 1, None))
    await writer.stream.send_all(frame * 3)
    assert await fetched(reader, version) == [0, 1, 2]
    await reader.aclose()
    await writer.aclose()


async def test_it_waits_until_there_is_enough(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """Every append wakes it, and it goes on to wait."""
    client = await running.connect()
    await client.send(fetch(min_bytes=3 * len(batch(b"v"))), version)
    await waiting(partition, 1)
    for _ in range(3):
        assert len(partition.waiters) == 1
        append(partition)
        await trio.testing.wait_all_tasks_blocked()
    assert await fetched(client, version) == [0, 1, 2]
    await client.aclose()


async def test_time_is_up(running: RunningServer, partition: Partition, version: int) -> None:
    """It is answered with what there is, even if that isn't enough."""
    client = await running.connect()
    await client.send(fetch(max_wait_ms=50, min_bytes=1000), version)
    await waiting(partition, 1)
    append(partition)
    assert await fetched(client, version) == [0]
    assert not partition.waiters
    await client.aclose()


async def test_what_comes_behind_it_is_served_behind_it(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """Whether it came with it or while it waited; another that waits too."""
    client = await running.connect()
    frames = [
        encode_request(fetch(), version, 1, None),
        encode_request(fetch(1), version, 2, None),
        encode_request(ApiVersionsRequest(), 0, 3, None),
    ]
    await client.stream.send_all(b"".join(frames))
    await waiting(partition, 1)
    await client.stream.send_all(bytes(encode_request(fetch(0), version, 4, None)))
    await trio.testing.wait_all_tasks_blocked()
    append(partition)
    assert await fetched(client, version) == [0]
    await waiting(partition, 1)
    append(partition)
    assert await fetched(client, version) == [1]
    with trio.fail_after(10):
        frame = await client.receive_frame()
    assert frame is not None
    assert int.from_bytes(frame[:4]) == 3
    assert await fetched(client, version) == [0, 1]
    await client.aclose()


async def test_more_behind_it_than_one_turn_serves(running: RunningServer, version: int) -> None:
    """All of it is served after a fetch whose time is up, though nothing more comes to read."""
    client = await running.connect()
    first = encode_request(fetch(max_wait_ms=20), version, 0, None)
    count = 3 * REQUESTS_PER_TURN
    others = (encode_request(ApiVersionsRequest(), 0, n, None) for n in range(1, count))
    await client.stream.send_all(b"".join((first, *others)))
    for number in range(count):
        with trio.fail_after(10):
            frame = await client.receive_frame()
        assert frame is not None
        assert int.from_bytes(frame[:4]) == number
    await client.aclose()


async def test_a_client_that_goes_away_while_it_waits(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """Nothing is left of it when the wait is over."""
    clients = [await running.connect() for _ in range(5)]
    for client in clients:
        await client.send(fetch(), version)
    await waiting(partition, len(clients))
    for client in clients:
        await client.aclose()
    await trio.testing.wait_all_tasks_blocked()
    append(partition)
    await until(lambda: not running.server.poller.connections)
    assert not partition.waiters


async def test_a_connection_that_is_aborted_while_it_waits(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """Its fetch is forgotten at once."""
    client = await running.connect()
    await client.send(fetch(), version)
    await waiting(partition, 1)
    for connection in list(running.server.poller.connections):
        connection.abort_nowait()
    assert not partition.waiters
    assert await client.is_closed()
    append(partition)
    await client.aclose()


async def test_an_answer_behind_what_the_client_does_not_read(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """A fetch begins to wait when what was asked before it is sent; both come, in order."""
    for _ in range(20):
        append(partition, bytes(900_000))
    client = await running.connect()
    await client.send(fetch(), version)
    await client.send(fetch(20), version)
    await trio.testing.wait_all_tasks_blocked()
    assert not partition.waiters
    assert await fetched(client, version) == list(range(20))
    await waiting(partition, 1)
    append(partition)
    assert await fetched(client, version) == [20]
    await client.aclose()


async def wait_behind_what_is_not_read(client: RawClient, version: int) -> None:
    """Have a fetch wait behind UNREAD answers, more than the socket takes."""
    frames = [encode_request(ApiVersionsRequest(), 0, number, None) for number in range(UNREAD)]
    frames.append(encode_request(fetch(), version, UNREAD, None))
    await client.stream.send_all(b"".join(frames))
    await trio.testing.wait_all_tasks_blocked()


async def read_what_was_not_read(client: RawClient) -> None:
    """Those answers, all of them in order."""
    for number in range(UNREAD):
        with trio.fail_after(10):
            frame = await client.receive_frame()
        assert frame is not None
        assert int.from_bytes(frame[:4]) == number


async def test_what_is_told_late_does_not_keep_it_from_sending(
    running: RunningServer, partition: Partition, version: int, all_in_one_turn: None
) -> None:
    """A fetch waits behind what isn't sent yet; that there is more to read was seen before that."""
    client = await running.connect()
    await wait_behind_what_is_not_read(client, version)
    (connection,) = running.server.poller.connections
    connection.on_readable()
    await read_what_was_not_read(client)
    await waiting(partition, 1)
    append(partition)
    assert await fetched(client, version) == [0]
    await client.aclose()


async def test_what_comes_while_it_can_not_be_told_is_told_later(
    running: RunningServer, partition: Partition, version: int, all_in_one_turn: None
) -> None:
    """An append wakes no fetch that waits behind what isn't sent yet, but is not lost on it."""
    client = await running.connect()
    await wait_behind_what_is_not_read(client, version)
    await waiting(partition, 1)
    append(partition)
    await read_what_was_not_read(client)
    assert await fetched(client, version) == [0]
    await client.aclose()


async def test_deadlines_of_what_is_answered_are_forgotten(
    running: RunningServer,
    partition: Partition,
    version: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fetches that might have waited for a minute leave nothing behind that does."""
    monkeypatch.setattr("kwire.connection.deadlines.KEPT", 5)
    client = await running.connect()
    for offset in range(20):
        await client.send(fetch(offset), version)
        await waiting(partition, 1)
        append(partition)
        assert await fetched(client, version) == [offset]
    assert len(running.server.poller.deadlines) <= 10
    await client.aclose()


async def test_an_error_of_the_disk_answers_those_that_wait(
    running: RunningServer, partition: Partition, version: int
) -> None:
    """With KAFKA_STORAGE_ERROR, at once, whoever in whatever thread has noticed it."""
    client = await running.connect()
    await client.send(fetch(), version)
    await waiting(partition, 1)
    error = OSError(errno.EIO, "broken")
    await trio.to_thread.run_sync(partition.log.health.fail, "cannot read", error)
    assert await answered(client, version) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert not partition.waiters
    await client.aclose()


async def test_a_server_that_stops_answers_those_that_wait(tmp_path: Path, version: int) -> None:
    """With nothing, at once."""
    async with running_server(tmp_path) as running:
        await running.topic(TOPIC)
        await running.hang_up()
        client = await running.connect()
        await client.send(fetch(), version)
        await waiting(running.broker.partition(TOPIC, 0), 1)
        running.server.stop()
        assert await fetched(client, version) == []
        assert await client.is_closed()
        await client.aclose()
