"""Many connections that are ready at once: none writes over what another one has read, and each
has all of its answers.
"""

import socket
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import trio

from kwire.budget.work import PASS_S
from kwire.connection.connection import REQUESTS_PER_TURN, Connection
from kwire.connection.inbox import SCRATCH_BYTES
from kwire.handlers.lib.context import ConnectionInfo
from kwire.log.inline_limits import SLOW_RECORDS
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.record.records import BatchBuilder
from tests.support.in_process import RunningServer, running_server
from tests.support.passes import Passes
from tests.support.records import batch
from tests.support.requests import produce_request

TOPIC = "t"
CLIENTS = 40
NOW_MS = 1_700_000_000_000

LOOKS_A_PASS = 100
LOOKS_OF_FEW = 20
"""How often the time is looked at for the last requests of a pass."""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with a topic that wants its batches compressed."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC, compression_type="lz4")
        await server.hang_up()
        yield server


def connect(running: RunningServer, number: int, buffer_bytes: int = 4096) -> socket.socket:
    """A client at a connection that sends little at a time, unless more is asked for."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    for side in (near, far):
        side.setblocking(False)
    poller = running.server.poller
    info = ConnectionInfo(number, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
    poller.add(Connection(near, info, running.broker, poller, 10**8))
    return far


async def receive(far: socket.socket) -> bytes:
    """The next answer without its size."""
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4]):
        await trio.lowlevel.wait_readable(far)
        wanted = 4 + int.from_bytes(answer[:4]) if len(answer) >= 4 else 4
        received = far.recv(wanted - len(answer))
        assert received, "the server closed the connection"
        answer += received
    return answer[4:]


def version_requests(numbers: range) -> bytes:
    """One request for each number."""
    return b"".join(encode_request(ApiVersionsRequest(), 0, number, "me") for number in numbers)


async def test_what_has_not_come_whole_is_not_written_over(running: RunningServer) -> None:
    clients = [connect(running, number) for number in range(CLIENTS)]
    rows = [version_requests(range(3 * n, 3 * n + 3)) for n in range(CLIENTS)]
    cuts = [len(row) - 1 - n % 11 for n, row in enumerate(rows)]
    for far, row, cut in zip(clients, rows, cuts, strict=True):
        assert far.send(row[:cut]) == cut
    with trio.fail_after(10):
        for n, far in enumerate(clients):
            for place in range(2):
                assert int.from_bytes((await receive(far))[:4]) == 3 * n + place
        for far, row, cut in zip(clients, rows, cuts, strict=True):
            far.send(row[cut:])
        for n, far in enumerate(clients):
            assert int.from_bytes((await receive(far))[:4]) == 3 * n + 2
            far.close()


async def test_pipelines_on_many_connections_make_no_long_pass(running: RunningServer) -> None:
    """The requests of a pass take no longer than the pass, beside the last ones."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks * PASS_S / LOOKS_A_PASS

    counts = [0]
    running.server.poller.turns.clock = clock
    clients = [connect(running, number, 1 << 20) for number in range(CLIENTS)]
    row = version_requests(range(REQUESTS_PER_TURN))
    for far in clients:
        assert far.send(row) == len(row)
    with trio.fail_after(10), Passes(lambda: counts.append(looks)):
        for far in clients:
            for _ in range(REQUESTS_PER_TURN):
                await receive(far)
            far.close()
    assert looks >= CLIENTS * REQUESTS_PER_TURN > 10 * LOOKS_A_PASS
    assert max(after - before for before, after in pairwise(counts)) <= LOOKS_A_PASS + LOOKS_OF_FEW


@pytest.mark.parametrize(
    ("requests", "buffer_bytes"),
    [
        (REQUESTS_PER_TURN // 2, 4096),
        (REQUESTS_PER_TURN * 2, 1 << 20),
        (REQUESTS_PER_TURN * 2, 4096),
    ],
)
async def test_answers_that_do_not_go_at_once_come_later(
    running: RunningServer, requests: int, buffer_bytes: int
) -> None:
    """And so do those to requests that were left for another turn."""
    clients = [connect(running, number, buffer_bytes) for number in range(CLIENTS)]
    row = version_requests(range(requests))
    for far in clients:
        assert far.send(row) == len(row)
    with trio.fail_after(10):
        for far in clients:
            for number in range(requests):
                assert int.from_bytes((await receive(far))[:4]) == number
            far.close()


async def test_what_a_thread_looks_at_is_not_written_over(running: RunningServer) -> None:
    """The request lies in the buffer into which all connections are read."""
    records = batch(*[b"v"] * (SLOW_RECORDS + 1), timestamp=NOW_MS)
    produce = encode_request(produce_request(TOPIC, records), 11, 1, "me")
    assert len(produce) < SCRATCH_BYTES
    other = encode_request(ApiVersionsRequest(), 0, 2, "x" * 30_000)
    first, second = connect(running, 1), connect(running, 2)
    assert first.send(produce) == len(produce)
    assert second.send(other) == len(other)
    with trio.fail_after(10):
        found = memoryview(await receive(first))
        _, position = decode_response_header(found, ProduceResponse, 11)
        answer = decode(ProduceResponse, 11, found[position:])
        assert answer.responses[0].partition_responses[0].error_code == 0
        await receive(second)
    first.close()
    second.close()


async def test_many_together_are_told_what_each_is_told_alone(running: RunningServer) -> None:
    """Their answers are gathered and sent in a row; alone each is sent its own at once."""
    random = Random(5)
    partition = running.broker.partition(TOPIC, 0)
    for size_bytes in (10, 100, 60_000, 500_000):
        builder = BatchBuilder()
        builder.add(NOW_MS, None, random.randbytes(size_bytes))
        partition.append(builder.build(), now_ms=NOW_MS)
    requests = [version_requests(range(number, number + 1)) for number in range(4)]
    for offset in range(4):
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        requests.append(encode_request(FetchRequest(session_epoch=-1, topics=topics), 12, 9, "me"))
    rows = [random.choices(requests, k=random.randint(1, 5)) for _ in range(CLIENTS)]

    async def answers(far: socket.socket, count: int) -> list[bytes]:
        return [await receive(far) for _ in range(count)]

    with trio.fail_after(20):
        alone = []
        for number, row in enumerate(rows):
            with connect(running, number) as far:
                far.send(b"".join(row))
                alone.append(await answers(far, len(row)))
        clients = [connect(running, number) for number in range(CLIENTS)]
        for far, row in zip(clients, rows, strict=True):
            far.send(b"".join(row))
        for far, row, expected in zip(clients, rows, alone, strict=True):
            assert await answers(far, len(row)) == expected
            far.close()
