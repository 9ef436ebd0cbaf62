"""HTTP/1.1 as clients speak it, for any application of ASGI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kwire.web import connections
from kwire.web.connections import Connections
from kwire.web.guard import App, Guard, Receive, Scope, Send
from kwire.web.port_thread import bind


@asynccontextmanager
async def served(app: App, most: int = 8) -> AsyncIterator[tuple[str, int]]:
    """The address at which an application is served."""
    bound, stop = bind(("127.0.0.1", 0), "a test", "--test"), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Connections(app, bound, most).serve, stop)
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
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n" + CHUNKED.partition(b"h\r\n")[2],
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


async def test_a_version_that_is_not_spoken_is_refused() -> None:
    """And the connection ends."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET / HTTP/3.0\r\nHost: h\r\n\r\n")
        assert (await said_until(stream, b"never")).startswith(b"HTTP/1.1 505 ")
        await stream.aclose()


LONG = bytes(40 << 20)
"""An answer that fits into no buffer of a socket."""


async def long_answer(send: Send) -> None:
    """Send it."""
    headers = [(b"content-length", str(len(LONG)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": LONG})


async def read_all(stream: trio.SocketStream) -> int:
    """How many bytes the server sends before it closes the connection."""
    size = 0
    with trio.fail_after(20):
        try:
            while received := await stream.receive_some():
                size += len(received)
        except trio.BrokenResourceError:
            pass
    return size


async def test_nothing_follows_a_part_of_an_answer() -> None:
    """The next answer would be taken for the rest of the one that was given up."""
    given_up = trio.CancelScope()

    async def interrupted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/next":
            await echo(scope, receive, send)
        with given_up:
            await long_answer(send)

    async with served(interrupted) as address:
        stream = await trio.open_tcp_stream(*address)
        get = b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n"
        await stream.send_all(get % b"long" + get % b"next")
        said = bytes(await stream.receive_some())
        given_up.cancel()
        said += await said_until(stream, b"GET /next ")
        assert (said.count(b"HTTP/1.1 "), len(said) < len(LONG)) == (1, True)
        await stream.aclose()


async def test_answers_that_nobody_reads_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that waits longest is given up, of the address that has most of them."""
    monkeypatch.setattr(connections, "MOST_KEPT_BYTES", len(LONG) * 3 // 2)
    begun = []

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["path"])
        await long_answer(send)

    async with served(long) as address:
        streams = [await trio.open_tcp_stream(*address, local_address="127.0.0.2")]
        streams += [await trio.open_tcp_stream(*address) for _ in range(3)]
        for stream in streams:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        read = [await read_all(stream) for stream in streams]
        assert [size > len(LONG) - 100_000 for size in read] == [True, False, False, True]
        for stream in streams:
            await stream.aclose()


async def test_a_body_of_small_chunks_lets_others_have_their_turn() -> None:
    """Ten thousand of them come in one packet."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with served(echo) as address, trio.open_nursery() as nursery:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(CHUNKED[: CHUNKED.index(b"3\r\n")])
        await stream.send_all(b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
        nursery.start_soon(count_turns)
        assert b" 200 " in await said_until(stream, b"x" * 10_000)
        assert turns > 10_000 // connections.CHUNKS_A_STEP // 2
        nursery.cancel_scope.cancel()
        await stream.aclose()


async def test_connections_that_wait_for_their_clients_make_room() -> None:
    """Though each address has only one, and its request has begun."""
    async with served(echo, most=3) as address:
        held = []
        for number in range(2, 7):
            held.append(await trio.open_tcp_stream(*address, local_address=f"127.0.0.{number}"))
            await held[-1].send_all(CHUNKED[:-5])
        last = await trio.open_tcp_stream(*address)
        await last.send_all(b"GET /last HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b" 200 " in await said_until(last, b"GET /last ")
        for stream in [*held, last]:
            await stream.aclose()


async def test_a_head_that_is_no_http_is_an_error_of_the_application() -> None:
    """The client is told so."""

    async def wrong(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"location", b"a\r\nb: c")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})

    async with served(Guard(wrong, ["h"])) as address:
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (await said_until(stream, b"never")).startswith(b"HTTP/1.1 500 ")
        await stream.aclose()


async def test_a_head_of_many_lines_is_refused() -> None:
    """Also one that was sent ahead; each line would take a part of a millisecond."""
    async with served(echo) as address:
        stream = await trio.open_tcp_stream(*address)
        lines = b"GET /many HTTP/1.1\r\nHost: h\r\n" + b"a:\r\n" * connections.HEAD_LINES
        await stream.send_all(b"GET /one HTTP/1.1\r\nHost: h\r\n\r\n" + lines + b"\r\n")
        said = await said_until(stream, b"never")
        found = [one in said for one in (b"GET /one", b"HTTP/1.1 431 ", b"GET /many")]
        assert found == [True, True, False]
        await stream.aclose()
