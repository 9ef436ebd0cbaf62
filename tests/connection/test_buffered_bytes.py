"""Many connections whose clients don't read: together they hold a bounded memory."""

import logging

import trio

from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kwire.testing.waiting import until
from tests.support.in_process import running_server

BROKER = 4
LIMIT = 8 << 20


def _broker_configs(times):
    resources = [DescribeConfigsResource(resource_type=BROKER, resource_name="1")] * times
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )


async def test_clients_that_do_not_read_hold_a_bounded_memory(tmp_path, caplog):
    """Those that have held the most for longest end; a client that reads gets its response."""
    settings = {"kwire.resting.max.bytes": str(LIMIT), "socket.send.buffer.bytes": "4096"}
    async with running_server(tmp_path, settings) as server:
        resting = server.server.poller.buffered
        most, clients = 0, []
        with caplog.at_level(logging.WARNING):
            for number in range(6):  # each response has another size
                client = await server.connect()
                clients.append(client)
                before = resting.held_bytes
                await client.send(_broker_configs(60 + number), 4)
                await until(lambda before=before: resting.held_bytes != before)
                most = max(most, resting.held_bytes)
            reader = await server.connect()
            answer = await reader.request(_broker_configs(60), 4, DescribeConfigsResponse)
        assert len(answer.results) == 60
        assert "kwire.resting.max.bytes" in caplog.text
        assert most <= LIMIT
        for client in [*clients, reader]:
            await client.aclose()


async def test_the_memory_is_counted_until_the_response_is_made(tmp_path):
    """After large responses nothing is held, nor after connections that ended within one."""
    async with running_server(tmp_path) as server:
        for _ in range(3):
            client = await server.connect()
            await client.request(_broker_configs(20), 4, DescribeConfigsResponse)
            with trio.move_on_after(0):
                await client.request(_broker_configs(20), 4, DescribeConfigsResponse)
            await client.aclose()
        poller = server.server.poller
        await until(lambda: not poller.connections)
        assert (poller.turns.large.held_bytes, poller.buffered.held_bytes) == (0, 0)
