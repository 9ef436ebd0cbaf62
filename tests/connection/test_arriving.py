"""Large requests that arrive in part, on many connections: together they hold a bounded memory."""

import logging
import struct

from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.in_process import running_server
from kwire.testing.waiting import until

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
