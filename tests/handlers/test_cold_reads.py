"""Reading what isn't in memory: the answers are the same, and others don't wait for it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from kwire.handlers.lib import lookups
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.page_cache import PageCache
from tests.support.records import base_offsets, batch

TOPIC = "old"
BATCHES = 40
VALUE = bytes(50_000)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageCache]:
    """Nothing is in memory until a thread has read it."""
    made = PageCache(monkeypatch)
    yield made
    made.gate.set()


@pytest.fixture
async def running(tmp_path: Path, cold: PageCache) -> AsyncIterator[RunningServer]:
    """A server with a topic of several segments."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC, segment_bytes=1048576)
        for n in range(BATCHES):
            await server.produce(TOPIC, VALUE, timestamp=1_700_000_000_000 + n, acks=1)
        await server.hang_up()
        yield server


def fetch_topic(name: str, offset: int) -> FetchTopic:
    """One partition, as much as there is in a segment."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
    return FetchTopic(topic=name, partitions=[partition])


def fetch_request(offset: int) -> FetchRequest:
    """The topic from an offset on."""
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[fetch_topic(TOPIC, offset)])


async def read_all(client: RawClient) -> list[int]:
    """The offsets of every batch."""
    found: list[int] = []
    while len(found) < BATCHES:
        response = await client.request(fetch_request(len(found)), 12, FetchResponse)
        some = base_offsets(response.responses[0].partitions[0].records)
        assert some
        found += some
    return found


async def test_everything_is_read(running: RunningServer, cold: PageCache) -> None:
    """Lookups and slices come from threads, and are whole."""
    client = await running.connect()
    with trio.fail_after(20):
        assert await read_all(client) == list(range(BATCHES))
    assert running.broker.cold_reads.count >= 4
    await client.aclose()


async def test_others_do_not_wait(running: RunningServer, cold: PageCache) -> None:
    """While one client's read waits for the disk, another is served; then the first one is."""
    reader, other = await running.connect(), await running.connect()
    cold.gate.clear()
    with trio.fail_after(20):
        await reader.send(fetch_request(0), 12)
        await trio.to_thread.run_sync(cold.waiting.wait, 20)
        for _ in range(3):
            await other.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
        cold.gate.set()
        assert await reader.receive_frame() is not None
    await reader.aclose()
    await other.aclose()


async def test_a_client_that_leaves_meanwhile(running: RunningServer, cold: PageCache) -> None:
    """It takes nothing with it."""
    reader, other = await running.connect(), await running.connect()
    cold.gate.clear()
    await reader.send(fetch_request(0), 12)
    await trio.to_thread.run_sync(cold.waiting.wait, 20)
    await reader.aclose()
    cold.gate.set()
    with trio.fail_after(20):
        assert await read_all(other) == list(range(BATCHES))
    await other.aclose()


async def test_times_are_looked_up(running: RunningServer, cold: PageCache) -> None:
    """ListOffsets doesn't wait where requests are served either."""
    client = await running.connect()
    wanted = ListOffsetsPartition(partition_index=0, timestamp=1_700_000_000_000 + 7)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
    with trio.fail_after(20):
        response = await client.request(request, 4, ListOffsetsResponse)
    assert response.topics[0].partitions[0].offset == 7
    assert running.broker.cold_reads.count > 0
    await client.aclose()


async def test_pages_that_never_stay(
    running: RunningServer, cold: PageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many tries the lookup waits, and is answered."""
    monkeypatch.setattr(lookups, "MANY_TRIES", 3)
    cold.keeps = False
    client = await running.connect()
    with trio.fail_after(20):
        assert await read_all(client) == list(range(BATCHES))
    await client.aclose()


async def test_what_comes_while_the_disk_is_waited_for_is_not_missed(
    running: RunningServer, cold: PageCache
) -> None:
    """A fetch that found too little looks again before it waits: what it saw first may be old."""
    client = await running.connect()
    await client.topic("new")
    found = await client.request(fetch_request(0), 12, FetchResponse)
    found_bytes = len(found.responses[0].partitions[0].records)
    running.broker.partition(TOPIC, 0).log.flush(1_700_000_000_000)  # or that would wake it later
    cold.forget()
    cold.waiting.clear()
    cold.gate.clear()
    request = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=found_bytes + 1,
        topics=[fetch_topic("new", 0), fetch_topic(TOPIC, 0)],
    )
    with trio.fail_after(20):
        await client.send(request, 12)
        await trio.to_thread.run_sync(cold.waiting.wait, 20)
        news = batch(b"v")
        size_bytes = len(news)
        running.broker.partition("new", 0).append(news, now_ms=1_700_000_000_000)
        cold.gate.set()
        answer = await client.receive_frame()
    assert answer is not None
    assert len(answer) > found_bytes + size_bytes
    await client.aclose()
