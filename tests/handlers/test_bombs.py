"""Small batches that decompress to much: refused or believed, and nobody else waits for them."""

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import zstandard

from kwire.errors import ErrorCode
from kwire.handlers import produce as produce_handler
from kwire.handlers.lib.opening import SMALL_LIMITS
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.batch import build_header
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder
from tests.support.in_process import RawClient, RunningServer, running_server

LIMITS = {"kwire.decompressed.max.bytes": "8000000", "kwire.decompressed.max.records": "30000"}
TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "gzip": {"compression.type": "gzip"},
    "flushed": {"flush.messages": "1"},
}
KEYLESS = b"\x0c\0\0\0\1\1\0"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with topics of several kinds, which opens up to 8 MB and 30,000 records."""
    async with running_server(tmp_path, LIMITS) as server:
        client = await server.connect()
        for name, settings in TOPICS.items():
            await client.topic(name, **settings)
        await client.aclose()
        yield server


def raw_batch(records: bytes, count: int, max_timestamp: int = 1) -> bytes:
    """A zstd batch of these bytes; the first record is of 1 ms after the epoch."""
    return bytes(
        build_header(
            zstandard.ZstdCompressor().compress(records),
            base_offset=0,
            leader_epoch=-1,
            attributes=Compression.ZSTD,
            last_offset_delta=count - 1,
            base_timestamp=1,
            max_timestamp=max_timestamp,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=count,
        )
    )


def good_batch(count: int = 1, value: bytes = b"value") -> bytes:
    """A zstd batch that every topic takes."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(1, b"key", value)
    return bytes(builder.build(compression=Compression.ZSTD))


def produce_request(topic: str, *batches: bytes) -> ProduceRequest:
    """A request that brings these to partition 0, one after the other."""
    data = [PartitionProduceData(index=0, records=batch) for batch in batches]
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=data)])


async def produce(client: RawClient, topic: str, batch: bytes) -> PartitionProduceResponse:
    """Produce one batch; the partition's answer."""
    response = await client.request(produce_request(topic, batch), 11, ProduceResponse)
    return response.responses[0].partition_responses[0]


async def lookup(client: RawClient, timestamp: int) -> tuple[int, int]:
    """Look up a time in the plain topic: offset and timestamp."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="plain", partitions=[wanted])]
    )
    answer = await client.request(request, 7, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0
    return found.offset, found.timestamp


@pytest.mark.parametrize("topic", ["compacted", "gzip"])
@pytest.mark.parametrize("is_many", [True, False])
async def test_a_bomb_is_refused_with_the_name_of_the_setting(
    running: RunningServer, topic: str, is_many: bool
) -> None:
    """MESSAGE_TOO_LARGE: stock clients split the batch or give it up, and don't send it again."""
    client = await running.connect()
    many, long = raw_batch(KEYLESS * 30_001, 30_001), good_batch(1, bytes(9_000_000))
    answer = await produce(client, topic, many if is_many else long)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "kwire.decompressed.max.bytes=8000000" in (answer.error_message or "")
    assert (await produce(client, topic, good_batch())).base_offset == 0


@pytest.mark.parametrize("count", [90, 1000, 25_000])
async def test_the_answer_does_not_grow_with_the_records(
    running: RunningServer, count: int
) -> None:
    """On the event loop and in both threads: the first hundred wrong records are named."""
    client = await running.connect()
    answer = await produce(client, "compacted", raw_batch(KEYLESS * count, count))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [wrong.batch_index for wrong in answer.record_errors] == list(range(min(count, 100)))


@pytest.mark.parametrize(("count", "size"), [(50, 10), (50, 10_000), (2, 3_500_000), (29_000, 200)])
async def test_batches_of_every_size_are_taken(
    running: RunningServer, count: int, size: int
) -> None:
    """Those that are opened at once, and those that turn out to be more than that."""
    client = await running.connect()
    batch = good_batch(count, b"v" * size)
    for topic in ("compacted", "gzip"):
        assert (await produce(client, topic, batch)).error_code == 0
        assert (await produce(client, topic, batch)).base_offset == count


@pytest.mark.parametrize("count", [10, 1000, 25_000, 60_000])
async def test_a_lookup_by_time_looks_into_what_it_may(running: RunningServer, count: int) -> None:
    """A batch that can't be opened counts by its header, which says more than is true."""
    client = await running.connect()
    bomb = raw_batch(KEYLESS * count, count, max_timestamp=1000)
    for _ in range(2):
        assert (await produce(client, "plain", bomb)).error_code == 0
    builder = BatchBuilder()
    builder.add(700, b"key", b"value")
    await produce(client, "plain", bytes(builder.build()))
    believed = count > 30_000
    assert await lookup(client, 500) == ((0, 1000) if believed else (2 * count, 700))
    assert await lookup(client, 1) == ((0, 1000) if believed else (0, 1))
    assert await lookup(client, -3) == (0, 1000)


class BlockedThread:
    """Checks of large batches don't come to their end until the gate is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.has_begun = threading.Event()
        self._check: Callable[..., Any] = produce_handler.checked_batch
        monkeypatch.setattr(produce_handler, "checked_batch", self.checked_batch)

    def checked_batch(self, *given: Any) -> Any:
        """Check, or wait."""
        if len(given) == 5 and given[3].max_bytes > SMALL_LIMITS.max_bytes:
            self.has_begun.set()
            while not self.gate.wait(0.001):
                given[4]()
        return self._check(*given)


async def test_nobody_waits_for_large_batches(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty clients with batches that take long: the others' small ones, syncs and topics go on."""
    blocked = BlockedThread(monkeypatch)
    large = good_batch(3, bytes(1_000_000))
    clients = [await running.connect() for _ in range(40)]
    for client in clients:
        await client.send(produce_request("compacted", large), 11)
    await trio.to_thread.run_sync(blocked.has_begun.wait)
    client = await running.connect()
    assert (await produce(client, "compacted", good_batch(500, bytes(100)))).error_code == 0
    assert (await produce(client, "flushed", good_batch(500, bytes(100)))).error_code == 0
    await client.topic("another")
    blocked.gate.set()
    for client in clients:
        assert await client.receive_frame() is not None


async def test_a_stop_does_not_wait_for_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked while the broker stops was not acknowledged: its connection ends."""
    blocked = BlockedThread(monkeypatch)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await client.topic("compacted", **TOPICS["compacted"])
        clients = [await server.connect() for _ in range(5)]
        for one in clients:
            await one.send(produce_request("compacted", good_batch(3, bytes(1_000_000))), 11)
        await trio.to_thread.run_sync(blocked.has_begun.wait)
    for one in clients:
        assert await one.is_closed()
    assert not blocked.gate.is_set()


async def test_a_client_that_is_gone_leaves_the_thread(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch is given up, and the next one's turn comes."""
    blocked = BlockedThread(monkeypatch)
    gone = await running.connect()
    await gone.send(produce_request("compacted", good_batch(3, bytes(1_000_000))), 11)
    await trio.to_thread.run_sync(blocked.has_begun.wait)
    await gone.aclose()
    blocked.has_begun.clear()
    client = await running.connect()
    await client.send(produce_request("compacted", good_batch(3, bytes(1_000_000))), 11)
    await trio.to_thread.run_sync(blocked.has_begun.wait)
    blocked.gate.set()
    assert await client.receive_frame() is not None
