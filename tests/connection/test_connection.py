"""Requests that come in a long row, clients that go away in the middle, a poller that ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from kwire.protocol.frame import encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing.waiting import until
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request

TOPIC = "t"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with one topic of one partition."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC)
        await server.hang_up()
        yield server


def fetch(max_wait_ms: int, offset: int = 0) -> FetchRequest:
    """A fetch of the topic's end, or from an offset on."""
    return fetch_request(TOPIC, offset, max_wait_ms=max_wait_ms, partition_max_bytes=1000)


async def correlation_ids(client: RawClient, count: int) -> list[int]:
    """Of so many answers."""
    found = []
    for _ in range(count):
        frame = await client.receive_frame()
        assert frame is not None
        found.append(int.from_bytes(frame[:4], "big"))
    return found


@pytest.mark.parametrize("place", [10, 70, 100, 140, 170, 210, 240])
async def test_one_that_waits_in_a_long_row_of_requests(running: RunningServer, place: int) -> None:
    """All are answered, in order, wherever in the row it is and however much follows."""
    client = await running.connect()
    requests = [encode_request(ApiVersionsRequest(), 0, number, None) for number in range(1200)]
    requests[place] = encode_request(fetch(20), 4, place, None)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, b"".join(requests))
            assert await correlation_ids(client, len(requests)) == list(range(len(requests)))
    await client.aclose()


async def test_many_at_once_have_their_answers_in_order(running: RunningServer) -> None:
    """Though some of them are gone before they are answered, and some wait for an append."""
    clients = [await running.connect() for _ in range(100)]
    row = [encode_request(ApiVersionsRequest(), 0, number, None) for number in range(3)]
    waiting = encode_request(fetch(20), 4, 3, None)
    for number, client in enumerate(clients):  # all of it has come before the server looks
        assert await client.stream.socket.send(b"".join([*row, waiting][: 3 + number % 2])) > 0
    for gone in clients[::5]:
        gone.stream.socket.close()
    with trio.fail_after(20):
        for number, client in enumerate(clients):
            if number % 5:
                ids = list(range(3 + number % 2))
                assert await correlation_ids(client, len(ids)) == ids
                await client.aclose()
    assert not running.broker.bugs


async def test_a_server_that_breaks_ends_connections_that_are_being_served(tmp_path: Path) -> None:
    """What broke it is what it ends with, nothing that goes wrong on the way down."""
    with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
        async with running_server(tmp_path) as running:
            await running.topic(TOPIC)
            await running.hang_up()
            clients = [await running.connect() for _ in range(20)]
            for client in clients:
                await client.send(fetch(60_000), 4)
            partition = running.broker.partition(TOPIC, 0)
            await until(lambda: len(partition.waiters) == len(clients))
            raise ZeroDivisionError


async def test_a_fetch_that_begins_to_wait_misses_no_append(running: RunningServer) -> None:
    """Also one that is served in the same turn of the poller, before its task has begun."""
    reader, writer = await running.connect(), await running.connect()
    records = batch((b"k", b"v"))
    produce = produce_request(TOPIC, records)
    for offset in range(20):
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader.send, fetch(60_000, offset), 4)
                nursery.start_soon(writer.send, produce, 9)
            answer = await reader.receive_frame()
            assert answer is not None
            assert len(answer) > len(records)
            assert await writer.receive_frame()
    await reader.aclose()
    await writer.aclose()
