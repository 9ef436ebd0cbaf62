"""The HTTP client of the etcd store, at a server that answers, falls silent, or closes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from kwire.metadata.etcd.http_client import HttpClient, HttpError, NotConnected
from tests.support.ports import free_port

PATH, BODY = "/v3/kv/txn", b'{"compare": []}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEADERS = [("Host", "etcd")]


class Server:
    """A server that does ``serve`` with each connection; it notes what it received at once."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.connections = 0
        self.received: list[bytes] = []
        self.ended = trio.Event()

    async def receive(self, stream: trio.SocketStream) -> bool:
        """Note the next bytes; False at the end."""
        received = bytes(await stream.receive_some(65536))
        self.received.append(received)
        return bool(received)


@asynccontextmanager
async def serving(
    serve: Callable[[Server, trio.SocketStream], Awaitable[None]],
) -> AsyncIterator[tuple[Server, HttpClient]]:
    """A server, and a client for it."""
    server, client = Server(), HttpClient(None)

    async def handle(stream: trio.SocketStream) -> None:
        server.connections += 1
        async with stream:
            await serve(server, stream)

    async with trio.open_nursery() as nursery:
        (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.endpoint = f"127.0.0.1:{listening.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, handle, [listening])
        with trio.fail_after(30):
            yield server, client
        await client.close()
        nursery.cancel_scope.cancel()


async def _answer_all(server: Server, stream: trio.SocketStream) -> None:
    while await server.receive(stream):
        await stream.send_all(ANSWER)


async def test_a_request_is_one_piece_on_a_connection_that_is_kept():
    async with serving(_answer_all) as (server, client):
        for _ in range(3):
            answer = await client.post(server.endpoint, PATH, HEADERS, BODY)
            assert answer == (200, b"{}")
        assert server.connections == 1
        assert len(server.received) == 3
        assert all(one.endswith(b"\r\n\r\n" + BODY) for one in server.received)


async def test_calls_at_the_same_time_have_connections_of_their_own():
    async with serving(_answer_all) as (server, client), trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(client.post, server.endpoint, PATH, HEADERS, BODY)
    assert len([one for one in server.received if one]) == 5


async def test_a_kept_connection_that_was_closed_is_noticed():
    """Else a call would fail, and nobody would know whether it was done."""

    async def answer_once(server: Server, stream: trio.SocketStream) -> None:
        await server.receive(stream)
        await stream.send_all(ANSWER)
        await stream.aclose()
        server.ended.set()

    async with serving(answer_once) as (server, client):
        for _ in range(3):
            server.ended = trio.Event()
            assert (await client.post(server.endpoint, PATH, HEADERS, BODY)).status == 200
            await server.ended.wait()
        assert server.connections == 3


async def test_a_stream_comes_in_lines_however_it_is_cut():
    async def stream_lines(server: Server, stream: trio.SocketStream) -> None:
        await server.receive(stream)
        await stream.send_all(CHUNKED)
        for piece in (b'{"a":', b' 1}\n{"b": 2}\n{"c', b'"', b": 3}\n"):
            await stream.send_all(b"%x\r\n%s\r\n" % (len(piece), piece))
        await stream.send_all(b"0\r\n\r\n")

    async with serving(stream_lines) as (server, client):
        async with client.stream(server.endpoint, PATH, HEADERS, BODY) as answer:
            lines = [line async for line in answer.lines]
        assert lines == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


async def test_a_call_that_is_given_up_closes_its_connection():
    """A late answer must not be taken for the next call's."""

    async def be_silent(server: Server, stream: trio.SocketStream) -> None:
        while await server.receive(stream):
            server.ended.set()
        server.received.append(b"end")

    async with serving(be_silent) as (server, client):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.post, server.endpoint, PATH, HEADERS, BODY)
                await server.ended.wait()
                scope.cancel()
        while server.received[-1] != b"end":
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("said", [b"", b"220 mail.example.com ESMTP\r\n", ANSWER[:-1]])
async def test_what_is_no_answer_is_an_error(said):
    """Nobody knows then whether the call was done."""

    async def say(server: Server, stream: trio.SocketStream) -> None:
        await server.receive(stream)
        await stream.send_all(said)

    async with serving(say) as (server, client):
        with pytest.raises(HttpError) as failed:
            await client.post(server.endpoint, PATH, HEADERS, BODY)
        assert not isinstance(failed.value, NotConnected)


async def test_nobody_listens():
    """Nothing was sent, so nothing was done."""
    for endpoint in (f"127.0.0.1:{free_port()}", f"[::1]:{free_port()}", "a..b:1"):
        with pytest.raises(NotConnected):
            await HttpClient(None).post(endpoint, PATH, HEADERS, BODY)
