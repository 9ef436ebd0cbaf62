"""Whatever bytes come in: Kafka's answer or a closed connection, and nobody else notices.

Each test speaks to a real server over a socket, and asks it something sensible afterwards.
"""

import errno
import os
import resource
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from crc32c import crc32c

from kwire.connection.acceptor import Acceptor
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
)
from kwire.record.records import BatchBuilder
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import until, wait_until
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.requests import fetch_request, produce_request

TOPIC = "orders"
VERSION = 11
DEADLINE_S = 20


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with one topic."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await client.topic(TOPIC)
        await client.aclose()
        yield server


async def answers(server: RunningServer) -> None:
    """The server still answers a new client."""
    with trio.fail_after(DEADLINE_S):
        client = await server.connect()
        response = await client.request(MetadataRequest(), 5, MetadataResponse)
        assert response.controller_id == 1
        await client.aclose()


def batch(value: bytes = b"value", count: int = 1) -> bytearray:
    """A batch of equal records."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(1_700_000_000_000, b"key", value)
    return builder.build()


async def produce(
    client: RawClient, records: bytes, topic: str = TOPIC, partition: int = 0
) -> PartitionProduceResponse:
    """Produce a batch; the partition's answer."""
    request = produce_request(topic, {partition: records})
    response = await client.request(request, VERSION, ProduceResponse)
    return response.responses[0].partition_responses[0]


def frame(body: bytes) -> bytes:
    """A body with its size before it."""
    return len(body).to_bytes(4, "big") + body


CLOSING = {
    "garbage": b"@garbage" * 1000,
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506),
    "a frame of 2 GB": b"\x7f\xff\xff\xff" + bytes(1000),
    "a negative length": b"\xff\xff\xff\xfe" + bytes(1000),
    "a frame too small for a header": frame(b"\x00" * 5),
    "an unknown API": frame(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff"),
    "an unsupported version": frame(b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff"),
    "a client id that is too long": frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff"),
    "a truncated body": frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00\x00\x09"),
    "an array of billions": frame(b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff"),
}


@pytest.mark.parametrize("what", CLOSING)
async def test_broken_bytes_close_the_connection(running: RunningServer, what: str) -> None:
    """It costs that connection, and nothing else."""
    client = await running.connect()
    with trio.fail_after(DEADLINE_S):
        await client.stream.send_all(CLOSING[what])
        assert await client.is_closed()
    await client.aclose()
    await answers(running)


async def test_an_unknown_version_of_api_versions(running: RunningServer) -> None:
    """It is answered in version 0, with what there is (KIP-511)."""
    client = await running.connect()
    await client.stream.send_all(frame(b"\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff"))
    answer = await client.receive_frame()
    assert answer is not None
    assert answer[:4] == b"\x00\x00\x00\x07"
    response = decode(ApiVersionsResponse, 0, memoryview(answer)[4:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 18 in [api.api_key for api in response.api_keys]
    # The connection lives on.
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    assert (await client.request(request, 3, ApiVersionsResponse)).error_code == 0
    await client.aclose()


async def test_a_wrong_checksum(running: RunningServer) -> None:
    """CORRUPT_MESSAGE, and the log stays empty."""
    client = await running.connect()
    records = batch()
    records[-1] ^= 1
    assert (await produce(client, records)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert running.broker.partition(TOPIC, 0).log.log_end_offset == 0
    assert (await produce(client, batch())).error_code == 0
    await client.aclose()


@pytest.mark.parametrize("position", [23, 57])
async def test_a_wrong_count(running: RunningServer, position: int) -> None:
    """A last offset delta or a count of records that isn't true is INVALID_RECORD."""
    client = await running.connect()
    records = batch(count=3)
    records[position : position + 4] = (9).to_bytes(4, "big")
    records[17:21] = crc32c(bytes(records[21:])).to_bytes(4, "big")
    assert (await produce(client, records)).error_code == ErrorCode.INVALID_RECORD
    await client.aclose()


async def test_an_oversized_record(running: RunningServer) -> None:
    """MESSAGE_TOO_LARGE beyond max.message.bytes."""
    client = await running.connect()
    too_large = batch(bytes(1_100_000))
    assert (await produce(client, too_large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    await client.aclose()


@pytest.mark.parametrize(
    "records", [b"", b"\x00" * 61, bytes(12) + b"\xff" * 60, b"\x00" * 16 + b"\x01" + bytes(40)]
)
async def test_records_that_are_none(running: RunningServer, records: bytes) -> None:
    """Bytes that are no batch get an error code, not a crash."""
    client = await running.connect()
    assert (await produce(client, records)).error_code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    )
    await client.aclose()
    await answers(running)


async def test_unknown_topics_and_partitions(running: RunningServer) -> None:
    """UNKNOWN_TOPIC_OR_PARTITION for both, in produce and in fetch."""
    client = await running.connect()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await produce(client, batch(), topic="nothing")).error_code == unknown
    assert (await produce(client, batch(), partition=7)).error_code == unknown
    request = fetch_request("nothing", max_wait_ms=5000)
    response = await client.request(request, 11, FetchResponse)
    assert response.responses[0].partitions[0].error_code == unknown
    await client.aclose()


async def test_a_slow_drip(running: RunningServer) -> None:
    """A client that sends byte by byte is served, and others aren't slowed meanwhile."""
    client = await running.connect()
    request = encode_request(MetadataRequest(), 5, 1, "drip")
    for byte in request:
        await client.stream.send_all(bytes([byte]))
        await answers(running)
    assert await client.receive_frame() is not None
    await client.aclose()


async def test_two_thousand_idle_connections(running: RunningServer) -> None:
    """They are held, and cost others nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    clients = [await running.connect() for _ in range(2000)]
    await answers(running)
    for client in clients[::400]:
        assert (await client.request(MetadataRequest(), 5, MetadataResponse)).controller_id == 1
    for client in clients:
        await client.aclose()
    await answers(running)


def test_a_client_that_never_reads(tmp_path: Path) -> None:
    """Its requests pile up at its own end; the broker's memory stays bounded, others are served."""

    def memory_bytes(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return next(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line[:6] == "VmRSS:"
        )

    async def flood(host: str, port: int) -> None:
        client = RawClient(await trio.open_tcp_stream(host, port))
        await client.topic(TOPIC)
        for _ in range(20):
            assert (await produce(client, batch(bytes(900_000)))).error_code == 0
        silent = RawClient(await trio.open_tcp_stream(host, port))
        most = 20_000_000
        fetch = fetch_request(TOPIC, max_bytes=most, partition_max_bytes=most)
        many = bytes(encode_request(fetch, 11, 1, "silent")) * 1000
        with trio.move_on_after(0.5):
            while True:
                await silent.stream.send_all(many)
        response = await client.request(MetadataRequest(), 5, MetadataResponse)
        assert response.controller_id == 1
        await silent.aclose()
        await client.aclose()

    with BrokerProcess(tmp_path) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        before = memory_bytes(broker.pid)
        trio.run(flood, host, int(port))
        assert memory_bytes(broker.pid) - before < 60_000_000
        assert "bug" not in broker.log()


def test_acknowledged_records_survive_kill_9(tmp_path: Path) -> None:
    """Every record that was acknowledged is there, in order, after a crash at any moment."""

    async def write(host: str, port: int, acknowledged: list[int], limit: int) -> None:
        client = RawClient(await trio.open_tcp_stream(host, port))
        if not acknowledged:
            await client.topic(TOPIC, segment_bytes="1048576")
        while len(acknowledged) < limit:
            answer = await produce(client, batch(b"%d" % len(acknowledged)))
            assert answer.error_code == 0
            acknowledged.append(answer.base_offset)
        await client.aclose()

    acknowledged: list[int] = []
    broker = BrokerProcess(tmp_path)
    broker.start()
    for limit in (300, 900, 1500):
        host, _, port = broker.bootstrap.rpartition(":")
        trio.run(write, host, int(port), acknowledged, limit)
        broker.kill()
        broker.restart()
    assert acknowledged == list(range(1500))
    host, _, port = broker.bootstrap.rpartition(":")
    trio.run(write, host, int(port), acknowledged, 1501)
    assert acknowledged[-1] == 1500
    assert broker.stop() == 0
    wait_until(
        lambda: (tmp_path / ".kafka_cleanshutdown").exists(), what="the mark of a clean stop"
    )


async def test_a_topic_named_many_times_is_described_once(running: RunningServer) -> None:
    """An answer can't be made to outgrow the cluster."""
    client = await running.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC) for _ in range(10_000)])
    response = await client.request(request, 5, MetadataResponse)
    assert [topic.name for topic in response.topics] == [TOPIC]
    await client.aclose()


async def test_good_requests_before_a_bad_one_are_answered(running: RunningServer) -> None:
    """The connection closes after their answers."""
    client = await running.connect()
    good = bytes(encode_request(MetadataRequest(), 5, 1, "mixed"))
    await client.stream.send_all(good + CLOSING["an unknown API"])
    assert await client.receive_frame() is not None
    assert await client.is_closed()
    await client.aclose()


async def test_a_client_gone_in_a_long_poll_is_let_go(running: RunningServer) -> None:
    """An idle connection is ended even while a handler waits for it."""
    client = await running.connect()
    request = fetch_request(TOPIC, max_wait_ms=2_000_000_000)
    await client.send(request, 11)
    await trio.testing.wait_all_tasks_blocked(0.05)
    for connection in list(running.server.poller.connections):
        connection.abort_nowait()
    with trio.fail_after(DEADLINE_S):
        assert await client.is_closed()
    await client.aclose()


class FullListener:
    """A listener on which somebody waits, in a process without a descriptor for it."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.far.send(b"x")
        self.refused = 0

    def fileno(self) -> int:
        """Readable."""
        return self.near.fileno()

    def accept(self) -> None:
        """Out of descriptors."""
        self.refused += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_out_of_descriptors_is_said_once(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    """And not at every try, or the log would fill the disk."""
    listener: Any = FullListener()
    acceptor = Acceptor(listener, lambda *accepted: None, running.server.poller)
    acceptor.start_accepting()
    await until(lambda: listener.refused == 3)
    acceptor.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    listener.near.close()
    listener.far.close()
