"""Large requests that arrive in part, on many connections: together they hold a bounded memory."""

import logging
import random
import struct
import threading
from contextlib import suppress

import pytest
import trio

from kwire.budget.buffered_bytes_limit import HALF_S
from kwire.budget.work import Work
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.fetch import ForgottenTopic
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.record.compression import Compression
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request
from tests.support.work import free_work

LIMIT = 8 << 20
ANNOUNCED_BYTES = 50 << 20
PART = bytes(3 << 20)
BUFFER_BYTES = 4 << 20
"""What a connection holds for that: buffers double."""


async def _send_part(server):
    client = await server.connect()
    await client.stream.send_all(struct.pack(">i", ANNOUNCED_BYTES) + PART)
    return client


async def test_clients_that_never_end_their_requests_hold_a_bounded_memory(tmp_path, caplog):
    """Those that have held the most for longest end; a client with a whole request is served."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        arriving = server.server.poller.arriving
        clients = []
        with caplog.at_level(logging.WARNING):
            for _ in range(5):
                clients.append(await _send_part(server))
                most = min(len(clients) * BUFFER_BYTES, LIMIT)
                await until(lambda most=most: arriving.held_bytes == most)
            await until(lambda: "of a request have arrived" in caplog.text)
        assert "kwire.arriving.max.bytes" in caplog.text
        assert arriving.held_bytes <= LIMIT
        other = await server.connect()
        await other.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        for client in [*clients, other]:
            await client.aclose()
        await until(lambda: not arriving.held_bytes)


WHOLE = bytes(encode_request(MetadataRequest(topics=[]), 9, 1, None))


@pytest.mark.parametrize("before", [b"", WHOLE])
@pytest.mark.parametrize("part_bytes", [20_000, 60_000, 300_000])
async def test_many_small_halves_hold_a_bounded_memory_too(tmp_path, before, part_bytes):
    """Whatever is announced, in one read or several, and also behind a whole request."""
    limit = 1 << 20
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(limit)}) as server:
        poller = server.server.poller
        clients = []
        half = before + struct.pack(">i", 1_000_000) + bytes(part_bytes)
        for _ in range(100):
            clients.append(await server.connect())
            with suppress(trio.BrokenResourceError):
                await clients[-1].stream.send_all(half)
        await until(lambda: poller.arriving.held_bytes > limit // 4)
        await until(lambda: len(poller.connections) < 60)
        held = sum(connection.held_bytes for connection in poller.connections)
        assert held == poller.arriving.held_bytes <= limit
        other = await server.connect()
        await other.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        for client in [*clients, other]:
            await client.aclose()
        await until(lambda: not poller.arriving.held_bytes)


async def test_half_a_request_that_gets_no_rest_ends_its_connection(tmp_path):
    """Not one that waits for its client's next request, however long."""
    async with running_server(tmp_path) as server:
        arriving = server.server.poller.arriving
        silent, quiet = await server.connect(), await server.connect()
        await silent.stream.send_all(struct.pack(">i", 1_000_000) + bytes(100_000))
        await quiet.request(_of_many_elements(), 9, MetadataResponse)
        await until(lambda: arriving.held_bytes)
        arriving.end_overdue(trio.current_time())
        assert arriving.held_bytes
        arriving.end_overdue(trio.current_time() + HALF_S)
        assert await silent.is_closed()
        assert not arriving.held_bytes
        await quiet.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        await quiet.aclose()


def _of_many_elements():
    topics = [MetadataRequestTopic(name="x" * 1000) for _ in range(3000)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


async def test_whole_requests_that_wait_for_their_turn_hold_a_bounded_memory(tmp_path, caplog):
    """Or each of a hundred clients would have one of 100 MB wait until the others are decoded."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        poller = server.server.poller
        first = Work(poller.turns, lambda: False)
        first.hold(1 << 40)
        await poller.turns.large.wait(first)
        with caplog.at_level(logging.WARNING):
            clients = [await server.connect() for _ in range(4)]
            for client in clients:
                await client.send(_of_many_elements(), 9)
            await until(lambda: caplog.text.count("of a request have arrived") == 2)
        await until(lambda: poller.arriving.held_bytes == LIMIT)
        poller.turns.large.leave(first)
        await until(lambda: not poller.arriving.held_bytes)
        for client in clients:
            await client.aclose()


async def test_requests_that_wait_for_a_thread_hold_a_bounded_memory(tmp_path, caplog):
    """One thread opens large batches: the requests of others wait for it, whole and in memory."""
    settings = {
        "kwire.arriving.max.bytes": str(LIMIT),
        "message.max.bytes": str(ANNOUNCED_BYTES),
        "log.cleanup.policy": "compact",
    }
    value = random.Random(7).randbytes(len(PART))
    request = produce_request("t", batch(value, key=b"key", compression=Compression.ZSTD), acks=1)
    busy = threading.Event()

    def is_busy(_: None, _between: object) -> None:
        busy.wait(60)

    async with running_server(tmp_path, settings) as server, trio.open_nursery() as nursery:
        arriving = server.server.poller.arriving
        await server.topic("t")
        nursery.start_soon(server.broker.threads.validation.large.run, free_work(), is_busy, None)
        with caplog.at_level(logging.WARNING):
            clients = [await server.connect() for _ in range(4)]
            for client in clients:
                await client.send(request, 9)
            await until(lambda: caplog.text.count("of a request have arrived") == 2)
        await until(lambda: arriving.held_bytes == LIMIT)
        busy.set()
        await until(lambda: not arriving.held_bytes)
        assert await server.end_offset("t") == 2
        for client in clients:
            await client.aclose()


async def test_a_request_that_waits_for_replicas_keeps_no_large_buffer(tmp_path):
    """Its records are in the log, and its client may have it wait for long."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        forgotten = [ForgottenTopic(topic="x" * 30_000, partitions=[]) for _ in range(100)]
        wait = fetch_request("t", max_wait_ms=60_000, forgotten_topics_data=forgotten)
        await server.topic("t")
        await server.hang_up()
        clients = [await server.connect() for _ in range(5)]
        partition = server.broker.partition("t", 0)
        for number, client in enumerate(clients, 1):
            await client.send(wait, 12)
            await until(lambda number=number: len(partition.waiters) == number)
        connections = [one for one in server.server.poller.connections if not one.info.is_gone()]
        assert [one.held_bytes for one in connections] == [0] * 5
        for client in clients:
            await client.aclose()


async def test_a_client_keeps_no_large_buffer_after_its_request(tmp_path):
    """Many clients could each fill one, and keep it until they are swept as idle."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        clients = [await server.connect() for _ in range(5)]
        for client in clients:
            await client.request(_of_many_elements(), 9, MetadataResponse)
        kept = [connection.held_bytes for connection in server.server.poller.connections]
        assert kept == [0] * 5
        for client in clients:
            await client.aclose()
