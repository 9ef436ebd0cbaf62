"""A connection that ends leaves nothing for the collector of cyclic garbage.

The broker seldom looks for circles among old objects (``kwire.cli.collector``), because all clients
wait meanwhile. So a client must not be able to fill the memory with them.
"""

import gc
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.testing.in_process import RunningServer, running_server
from kwire.testing.waiting import until

MADE = 10
"""So many connections come and go."""


async def ends_at_once(running: RunningServer) -> None:
    client = await running.connect()
    await client.aclose()


async def ends_within_a_frame(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(running.host, running.port)
    await stream.send_all(struct.pack(">ihh", 50_000_000, 3, 12) + bytes(500_000))
    await stream.aclose()


async def sends_nonsense(running: RunningServer) -> None:
    stream = await trio.open_tcp_stream(running.host, running.port)
    await stream.send_all(b"\xff" * 1000)
    await stream.receive_some(1)
    await stream.aclose()


async def ends_before_its_answer(running: RunningServer) -> None:
    client = await running.connect()
    await client.send(DescribeGroupsRequest(groups=[f"{n:x}" for n in range(3000)]), 5)
    await client.aclose()


async def ends_after_its_answer(running: RunningServer) -> None:
    client = await running.connect()
    await client.request(DescribeGroupsRequest(groups=["one"]), 5, DescribeGroupsResponse)
    await client.aclose()


@pytest.mark.parametrize(
    "connect",
    [
        ends_at_once,
        ends_within_a_frame,
        sends_nonsense,
        ends_before_its_answer,
        ends_after_its_answer,
    ],
)
async def test_a_connection_leaves_no_circles(
    tmp_path: Path, connect: Callable[[RunningServer], Awaitable[None]]
) -> None:
    async with running_server(tmp_path) as running:

        async def come_and_go(times: int) -> None:
            for _ in range(times):
                await connect(running)
            await trio.testing.wait_all_tasks_blocked(0.01)  # all have been accepted
            await until(lambda: not running.server.poller.connections)
            await trio.testing.wait_all_tasks_blocked(0.01)

        await come_and_go(2)  # what is imported or made once
        gc.collect()
        gc.disable()
        try:
            await come_and_go(MADE)
            found = gc.collect()
        finally:
            gc.enable()
    assert found < MADE
