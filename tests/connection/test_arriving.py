"""Large requests that arrive in part, on many connections: together they hold a bounded memory."""

import logging
import random
import struct

from kwire.budget.work import Work
from kwire.metadata.controller import NewTopic, create_topic
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder
from kwire.testing.waiting import until
from tests.support.in_process import running_server

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
    builder = BatchBuilder()
    builder.add(1, b"key", random.Random(7).randbytes(len(PART)))
    batch = bytes(builder.build(compression=Compression.ZSTD))
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    async with running_server(tmp_path, settings) as server:
        broker, arriving = server.broker, server.server.poller.arriving
        await broker.commit(lambda image: create_topic(image, NewTopic("t", 1, 1), broker.random))
        line = broker.threads.checking.large._line
        await line.enter(0)  # the thread is busy
        with caplog.at_level(logging.WARNING):
            clients = [await server.connect() for _ in range(4)]
            for client in clients:
                await client.send(request, 9)
            await until(lambda: caplog.text.count("of a request have arrived") == 2)
        await until(lambda: arriving.held_bytes == LIMIT)
        line.leave()
        await until(lambda: not arriving.held_bytes)
        assert broker.partition("t", 0).log.log_end_offset == 2
        for client in clients:
            await client.aclose()


async def test_a_request_that_waits_for_replicas_keeps_no_large_buffer(tmp_path):
    """Its records are in the log, and its client may have it wait for long."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        wait = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition()])],
            rack_id="x" * 30_000,
        )
        broker, poller = server.broker, server.server.poller
        await broker.commit(lambda image: create_topic(image, NewTopic("t", 1, 1), broker.random))
        clients = [await server.connect() for _ in range(5)]
        for client in clients:
            await client.request(MetadataRequest(topics=[]), 9, MetadataResponse)
        for connection in poller.connections:
            connection._inbox.is_large = True
            connection._inbox._own = connection._inbox._view = memoryview(bytearray(3 << 20))
        for client in clients:
            await client.send(wait, 12)
        partition = broker.partition("t", 0)
        await until(lambda: len(partition.waiters) == len(clients))
        assert [one._inbox.size_bytes for one in poller.connections] == [0] * 5
        for client in clients:
            await client.aclose()


async def test_a_client_keeps_no_large_buffer_after_its_request(tmp_path):
    """Many clients could each fill one, and keep it until they are swept as idle."""
    async with running_server(tmp_path, {"kwire.arriving.max.bytes": str(LIMIT)}) as server:
        clients = [await server.connect() for _ in range(5)]
        for client in clients:
            await client.request(_of_many_elements(), 9, MetadataResponse)
        kept = [connection._inbox.size_bytes for connection in server.server.poller.connections]
        assert kept == [0] * 5
        for client in clients:
            await client.aclose()
