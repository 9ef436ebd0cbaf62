"""HTTP/1.1 as clients speak it, for any application of ASGI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kwire.web.connections import Connections
from kwire.web.guard import App, Receive, Scope, Send
from kwire.web.port_thread import bind


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[str, int]]:
    """The address at which an application is served."""
    bound, stop = bind(("127.0.0.1", 0), "a test", "--test"), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Connections(app, bound, 8).serve, stop)
        yield bound.getsockname()[:2]
        stop.set()


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the method, the path and the body."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body, has_more = body + message["body"], message["more_body"]
    said = f"{scope['method']} {scope['path']} ".encode() + body
    headers = [(b"content-length", str(len(said)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


async def said_until(stream: trio.SocketStream, end: bytes) -> bytes:
    """What the server sends up to this end, or until it closes the connection."""
    said = b""
    with trio.fail_after(20):
        while not said.endswith(end) and (received := await stream.receive_some()):
            said += received
    return said


CHUNKED = (
    b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
)


async def test_requests_that_are_sent_ahead_are_answered_in_their_order() -> None:
    """With bodies by length and in chunks, a path with escapes, and a HEAD without a body."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        first = b"POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"
        head = b"HEAD /c HTTP/1.1\r\nHost: h\r\n\r\n"
        await stream.send_all(first + CHUNKED + head + b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n")
        said = await said_until(stream, b"GET /last ")
        assert [said.count(one) for one in (b"POST /a b hi", b"POST /b abcd", b"HEAD /c")] == [
            *(1, 1, 0)
        ]
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 4
        await stream.aclose()


async def test_a_client_that_waits_before_its_body_is_told_to_go_on() -> None:
    """As curl does for long ones."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        await stream.send_all(head)
        assert (await said_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(b"ok")
        assert (await said_until(stream, b"POST /x ok")).startswith(b"HTTP/1.1 200 ")
        await stream.aclose()


async def test_an_old_client_gets_one_answer() -> None:
    """HTTP/1.0 without a wish to keep the connection."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET /old HTTP/1.0\r\n\r\n")
        assert (await said_until(stream, b"never")).endswith(b"GET /old ")
        await stream.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nx: \x00\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_one_error(wrong: bytes) -> None:
    """And the connection ends."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(wrong)
        assert (await said_until(stream, b"never")).startswith(b"HTTP/1.1 400 ")
        await stream.aclose()


@pytest.mark.parametrize("more", [b"", b"GET /next HTTP/1.1\r\n"])
async def test_an_answer_whose_client_has_left_is_given_up(more: bytes) -> None:
    """Though it has sent something that nobody has read yet."""
    begun, ended = trio.Event(), trio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with served(slow) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" + more)
        await begun.wait()
        await stream.aclose()
        with trio.fail_after(20):
            await ended.wait()


async def test_an_application_that_says_nothing_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its client isn't left waiting, and the log has the bug."""

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async with served(silent) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET /silent HTTP/1.1\r\nHost: h\r\n\r\n")
        assert await said_until(stream, b"never") == b""
        await stream.aclose()
    assert "no whole answer to GET /silent" in caplog.text
