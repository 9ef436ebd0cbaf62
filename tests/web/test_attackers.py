"""An attacker on the HTTP port harms neither Kafka's clients nor the broker's memory."""

from contextlib import suppress
from pathlib import Path

import pytest
import trio
from starlette.responses import PlainTextResponse

from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.web import connections, governor
from kwire.web.guard import MAX_BODY_BYTES, Guard, Message, Receive, Scope, Send
from tests.support.in_process import RunningServer
from tests.web.conftest import http_server


async def http_stream(running: RunningServer) -> trio.SocketStream:
    """A raw connection to the HTTP port."""
    assert running.server.http is not None
    return await trio.open_tcp_stream(*running.server.http.address)


async def is_closed(stream: trio.SocketStream) -> bool:
    """Whether the server closes a connection without a word."""
    with trio.fail_after(20):
        try:
            return await stream.receive_some() == b""
        except trio.BrokenResourceError:
            return True


async def send_for_ever(stream: trio.SocketStream) -> None:
    """Send requests and read no answer."""
    while True:
        await stream.send_all(b"GET /nothing-here HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)


async def kafka_is_served(running: RunningServer) -> bool:
    """Whether a new Kafka client gets an answer."""
    client = await running.connect()
    answer = await client.request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    await client.aclose()
    return answer.error_code == 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9094", 200),
        ("127.0.0.1:1", 200),
        ("broker.example", 200),
        ("127.0.0.2", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[::1]:9094", 200),
        ("localhost:", 200),
        ("", 403),
        ("localhost:9094.evil.example", 403),
        ("localhost:80@evil.example", 403),
        ("localhost:80/evil", 403),
        ("localhost:x", 403),
        ("127.0.0.1:1:2", 403),
        ("127.0.0.1:123456", 403),
        ("[::1].evil.example", 403),
        ("[::1]x", 403),
        ("[::1", 403),
        ("localhost evil", 403),
    ],
)
async def test_only_known_hosts_are_served(tmp_path: Path, host: str, status: int) -> None:
    """A web page can't have a browser read the port under a name of the page's own."""
    async with http_server(tmp_path, {"kwire.http.allowed.hosts": "broker.example"}) as (_, http):
        answer = await http.get("/readyz", headers={"Host": host})
        assert answer.status_code == status
        if status == 403:
            assert "kwire.http.allowed.hosts" in answer.text


async def test_every_answer_forbids_other_sites_to_use_it(tmp_path: Path) -> None:
    """No frame, no guess of another type, no scripts from elsewhere, nothing stored."""
    async with http_server(tmp_path) as (_, http):
        for path in ("/readyz", "/nothing-here"):
            headers = (await http.get(path)).headers
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'self'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers
            assert "server" not in headers


async def test_bodies_and_heads_have_limits(tmp_path: Path) -> None:
    """A long body is refused by its length, and a long head without being kept."""
    async with http_server(tmp_path) as (running, http):
        answer = await http.post("/readyz", content=b"x" * (MAX_BODY_BYTES + 1))
        assert answer.status_code == 413
        stream = await http_stream(running)
        await stream.send_all(b"GET /readyz HTTP/1.1\r\n" + b"x: " + b"y" * 40_000)
        assert b" 431 " in await stream.receive_some()
        await stream.aclose()
        assert await kafka_is_served(running)


async def test_an_answer_waits_for_the_body_of_its_request(tmp_path: Path) -> None:
    """A connection whose answer overtakes a body can't be used again, as clients expect."""
    order: list[str] = []

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        order.append("answered")
        await PlainTextResponse("no", 403)(scope, receive, send)

    pieces = [{"body": b"na", "more_body": True}, {"body": b"me", "more_body": False}]

    async def receive() -> Message:
        order.append("received")
        return {"type": "http.request"} | pieces.pop(0)

    async def send(message: Message) -> None:
        order.append(message["type"])

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    await Guard(refuse)(scope, receive, send)
    answer = ["http.response.start", "http.response.body"]
    assert order == ["received", "received", "answered", *answer]
    async with http_server(tmp_path) as (running, _):
        stream = await http_stream(running)
        for _ in range(20):  # a body in a packet of its own, as httpx sends it
            await stream.send_all(
                b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
            )
            await stream.send_all(b"name")
            said = b""
            while not said.endswith(b"\r\n\r\nNot Found"):
                said += (received := await stream.receive_some())
                assert received, said
        await stream.aclose()


HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def is_answered(stream: trio.SocketStream) -> bool:
    """Whether a probe on a connection is answered with 200."""
    with trio.fail_after(20):
        try:
            await stream.send_all(HEAD)
            answer = b""
            while not answer.endswith(b" ms\n"):
                answer += (received := await stream.receive_some())
                if not received:
                    return False
            return b" 200 " in answer
        except trio.BrokenResourceError:
            return False


async def test_connections_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one more, the oldest is closed; Kafka's port and its descriptors are left alone."""
    monkeypatch.setattr(connections, "IDLE_S", 600.0)
    async with http_server(tmp_path, {"kwire.http.max.connections": "3"}) as (running, _):
        held = [await http_stream(running) for _ in range(3)]
        for stream in held:  # an answer shows that the connection counts
            assert await is_answered(stream)
        held.append(await http_stream(running))
        assert await is_answered(held[3])
        assert await is_closed(held[0])
        assert [await is_answered(stream) for stream in held[1:]] == [True] * 3
        assert await kafka_is_served(running)
        for stream in held:
            await stream.aclose()


@pytest.mark.parametrize(
    "half",
    [b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"],
)
async def test_probes_get_through_while_one_address_takes_all_connections(
    tmp_path: Path, half: bytes
) -> None:
    """Idle ones, and such as wait for the rest of a request; the probes come from there too."""
    async with http_server(tmp_path, {"kwire.http.max.connections": "5"}) as (running, _):
        held = []
        for _ in range(10):
            for _ in range(6):
                held.append(await http_stream(running))
                with suppress(trio.BrokenResourceError):
                    await held[-1].send_all(half)
            probe = await http_stream(running)
            assert await is_answered(probe)
            await probe.aclose()
        for stream in held:
            await stream.aclose()


async def test_connections_of_another_address_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the address that has most are closed, though others are older and idle."""
    monkeypatch.setattr(connections, "IDLE_S", 600.0)
    async with http_server(tmp_path, {"kwire.http.max.connections": "4"}) as (running, _):
        assert running.server.http is not None
        address = running.server.http.address
        others = [await trio.open_tcp_stream(*address, local_address="127.0.0.2")]
        assert await is_answered(others[0])
        for _ in range(10):
            others.append(await http_stream(running))
            assert await is_answered(others[-1])
        assert await is_answered(others[0])
        for stream in others:
            await stream.aclose()


async def test_a_client_that_sends_no_whole_head_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it sends another byte."""
    monkeypatch.setattr(connections, "IDLE_S", 0.05)
    async with http_server(tmp_path) as (running, _):
        stream = await http_stream(running)
        await stream.send_all(b"GET /readyz HTTP/1.1\r\n")
        assert await is_closed(stream)


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The preface of HTTP/2, and empty settings."""


async def test_a_client_that_begins_http2_holds_no_connection(tmp_path: Path) -> None:
    """A client that speaks HTTP/2 and requests nothing would keep its place for ten minutes."""
    async with http_server(tmp_path, {"kwire.http.max.connections": "1"}) as (running, _):
        stream = await http_stream(running)
        await stream.send_all(HTTP2)
        with trio.fail_after(20), suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass
        await stream.aclose()


async def test_a_wish_for_http2_is_passed_over(tmp_path: Path) -> None:
    """As RFC 9110 allows: ``curl --http2`` gets its answer in HTTP/1.1."""
    async with http_server(tmp_path) as (_, http):
        wish = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": ""}
        answer = await http.get("/readyz", headers=wish)
        assert (answer.status_code, answer.http_version) == (200, "HTTP/1.1")


async def test_a_client_that_reads_nothing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests are pipelined until no answer fits into the socket any more."""
    monkeypatch.setattr(connections, "SEND_S", 0.05)
    async with http_server(tmp_path) as (running, _):
        stream = await http_stream(running)
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
        with trio.fail_after(30), pytest.raises(trio.BrokenResourceError):
            await send_for_ever(stream)
        assert await kafka_is_served(running)


async def test_a_client_that_reads_nothing_does_not_hold_up_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends although an answer waits for that client."""
    monkeypatch.setattr("kwire.web.connections.STOP_S", 0.05)
    async with http_server(tmp_path) as (running, _):
        stream = await http_stream(running)
        with trio.move_on_after(0.5):
            await send_for_ever(stream)
    with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
        await send_for_ever(stream)


class Machine:
    """A thread's clock, in which sleeping is free."""

    def __init__(self) -> None:
        self.now_s = self.used_s = 0.0

    def monotonic(self) -> float:
        """The time."""
        return self.now_s

    def thread_time(self) -> float:
        """The processor time."""
        return self.used_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def work(self, seconds: float) -> None:
        """Let time pass in which the processor is used."""
        self.now_s += seconds
        self.used_s += seconds


async def test_requests_without_end_get_a_share_of_a_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A burst goes through at once; what goes on for long gets a quarter, Kafka has the rest."""
    machine = Machine()
    monkeypatch.setattr(governor, "time", machine)
    governed = governor.Governor()
    task = trio.lowlevel.current_task()
    while machine.used_s < governor.BURST_S * 0.9:
        machine.work(0.001)
        governed.after_task_step(task)
    assert machine.now_s == machine.used_s
    while machine.used_s < 100:
        machine.work(0.001)
        governed.after_task_step(task)
    assert machine.used_s / machine.now_s < governor.SHARE + 0.02
    machine.sleep(1000)
    begin_s = machine.now_s
    for _ in range(1000):
        machine.work(0.001)
        governed.after_task_step(task)
    assert machine.now_s - begin_s == pytest.approx(1)
