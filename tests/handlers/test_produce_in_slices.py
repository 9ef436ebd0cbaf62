"""What a produce request leaves to threads and to later slices, and the times of its batches."""

import threading
from pathlib import Path

import pytest
import trio

from kwire.budget.work import FIRST_S, Turns, Work
from kwire.connection.connection import Connection
from kwire.log.disk import Disk
from kwire.log.write_ahead import PIECE_BYTES
from kwire.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from kwire.record.batch import Buffer
from kwire.record.compression import Compression
from tests.support.clock import FakeClock, step_clock
from tests.support.in_process import RawClient, running_server
from tests.support.records import batch
from tests.support.requests import produce_request

PARTITIONS = 5


def request(
    partitions: int, timestamp_ms: int, records: int = 1, codec: int = 0, value: bytes = b"v"
) -> ProduceRequest:
    """A batch for each of several partitions."""
    made = batch(*[value] * records, key=b"k", timestamp=timestamp_ms, compression=codec)
    return produce_request("t", dict.fromkeys(range(partitions), made), acks=1)


@pytest.mark.parametrize(
    ("level", "old", "value_bytes", "in_thread"),
    [
        (9, Compression.NONE, 500, False),
        (9, Compression.ZSTD, 500, False),
        (9, Compression.NONE, 3000, True),
        (9, Compression.ZSTD, 3000, True),
        (12, Compression.NONE, 500, True),
    ],
)
async def test_slow_compression_is_left_to_a_thread(
    tmp_path: Path, level: int, old: int, value_bytes: int, in_thread: bool
) -> None:
    """A topic of another codec than its producer's doesn't stop the event loop."""
    async with running_server(tmp_path) as server:
        settings = {"compression.type": "lz4", "compression.lz4.level": str(level)}
        await server.topic("t", **settings)
        await server.hang_up()
        client = await server.connect()
        asked = request(1, server.broker.now_ms(), codec=old, value=b"v" * value_bytes)
        response = await client.request(asked, 9, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0
        (connection,) = server.server.poller.connections
        assert isinstance(connection, Connection)
        assert (connection._work.in_threads_s > 0) == in_thread
        await client.aclose()


async def test_the_append_time_does_not_include_the_wait_for_a_thread(tmp_path: Path) -> None:
    """A batch that is checked in a thread gets the time at which its check begins."""
    clock = FakeClock()
    gate, begun = threading.Event(), threading.Event()

    def block(_argument: None, _between: object) -> None:
        begun.set()
        gate.wait()

    async with running_server(tmp_path, clock=clock) as server:
        settings = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
        await server.topic("t", **settings)
        client = await server.connect()
        thread = server.broker.threads.validation.small
        async with trio.open_nursery() as nursery:
            other = Work(Turns(), lambda: False)
            nursery.start_soon(thread.run, other, block, None)
            await trio.to_thread.run_sync(begun.wait)
            sent_ms = clock.now_ms()
            asked = request(1, sent_ms, records=5000, codec=Compression.GZIP)
            await client.send(asked, 9)
            while not thread._lock._waiting:
                await trio.lowlevel.checkpoint()
            clock.pass_time(60_000)
            gate.set()
        frame = await client.receive_frame()
        assert frame is not None
        assert (sent_ms + 60_000).to_bytes(8, "big") in frame
        await client.aclose()


async def test_the_append_time_does_not_include_the_wait_for_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that others append meanwhile have earlier times: times of appends never fall."""
    step_clock(monkeypatch, "kwire.budget.work", FIRST_S / 10)
    clock = FakeClock()
    async with running_server(tmp_path, clock=clock) as server:
        settings = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
        await server.topic("t", PARTITIONS, **settings)
        client = await server.connect()
        lock = server.server.poller.turns._lock
        await lock.enter(0)  # nobody gets a second slice
        sent_ms = clock.now_ms()
        answers: list[ProduceResponse] = []
        logs = [server.broker.partition("t", index).log for index in range(PARTITIONS)]

        async def ask() -> None:
            asked = request(PARTITIONS, sent_ms, records=100)
            answers.append(await client.request(asked, 9, ProduceResponse))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not lock._waiting:
                await trio.lowlevel.checkpoint()
            appended = sum(log.log_end_offset > 0 for log in logs)
            clock.pass_time(60_000)
            lock.leave()
        times = [p.log_append_time_ms for p in answers[0].responses[0].partition_responses]
        assert 0 < appended < PARTITIONS
        assert times == [sent_ms] * appended + [sent_ms + 60_000] * (PARTITIONS - appended)
        await client.aclose()


class WatchedWrites(Disk):
    """Knows how large the largest write was, and when there was one of a whole piece."""

    def __init__(self) -> None:
        self.largest_bytes = 0
        self.has_piece = trio.Event()

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write."""
        if len(data) == PIECE_BYTES:
            self.has_piece.set()
        self.largest_bytes = max(self.largest_bytes, len(data))
        super().pwrite_all(fd, data, position)


@pytest.mark.parametrize(("version", "settings"), [(8, {"cleanup.policy": "compact"}), (9, {})])
async def test_a_large_batch_is_written_in_pieces(
    tmp_path: Path, settings: dict[str, str], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turns between two of them; producers of its partition follow it."""
    step_clock(monkeypatch, "kwire.budget.work", FIRST_S / 4)
    disk = WatchedWrites()
    async with running_server(tmp_path, disk=disk) as server:
        await server.topic("t", **{"max.message.bytes": "50000000", **settings})
        partition = server.broker.partition("t", 0)
        assert partition is not None
        large, small = await server.connect(), await server.connect()
        now_ms = server.broker.now_ms()
        asked = request(1, now_ms, value=b"v" * 40_000_000)
        offsets: dict[RawClient, int] = {}

        async def produce(client: RawClient, request: ProduceRequest) -> None:
            response = await client.request(request, version, ProduceResponse)
            one = response.responses[0].partition_responses[0]
            assert one.error_code == 0
            offsets[client] = one.base_offset

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, large, asked)
            await disk.has_piece.wait()
            assert partition.writing is not None
            nursery.start_soon(produce, small, request(1, now_ms))
        assert offsets == {large: 0, small: 1}
        assert disk.largest_bytes <= PIECE_BYTES
        for client in (large, small):
            await client.aclose()
