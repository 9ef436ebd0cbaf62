"""A server with an HTTP port, and a client for it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from kwire.clock import Clock
from kwire.server import Server
from tests.support.in_process import RunningServer, running_server

HTTP = {"kwire.http.listen": "127.0.0.1:0", "offsets.topic.num.partitions": "1"}


def http_url(server: Server) -> str:
    """The address of a server's HTTP port."""
    assert server.http is not None
    host, port = server.http.address
    return f"http://{host}:{port}"


@asynccontextmanager
async def http_server(
    data_dir: Path, settings: Mapping[str, str] | None = None, clock: Clock | None = None
) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient]]:
    """A running server with an HTTP port, and an HTTP client.

    It is plain HTTP: a client that could verify certificates reads all CAs, which takes 30 ms.
    """
    async with (
        running_server(data_dir, HTTP | dict(settings or {}), clock=clock) as running,
        httpx.AsyncClient(base_url=http_url(running.server), timeout=30, verify=False) as client,
    ):
        yield running, client
