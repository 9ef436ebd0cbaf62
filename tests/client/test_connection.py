"""One connection: answers in order, time-outs, limits, and what a broker may do wrong."""

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from kwire.client.connection import Connection
from kwire.client.errors import AnswerTimeout, BadAnswer, ConnectionLost, NotSupported
from kwire.client.peer import open_tcp
from kwire.client.settings import ClientSettings
from kwire.client.versions import negotiate, pick
from kwire.protocol.codec import encode
from kwire.protocol.frame import decode_request_header, encode_response
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

VERSION = 4


class Line:
    """A connection and the broker's end of its stream."""

    def __init__(self, nursery: trio.Nursery, **settings: float) -> None:
        ours, self.broker = memory_stream_pair()
        self.connection = Connection(ours, "h:1", ClientSettings()._replace(**settings))
        nursery.start_soon(self.connection.run)
        self.buffer = bytearray()

    async def ask(self, group: str, timeout_s: float | None = None) -> HeartbeatResponse:
        """A request that is told from others by its group."""
        request = HeartbeatRequest(group_id=group)
        return await self.connection.ask(request, HeartbeatResponse, VERSION, timeout_s)

    async def received(self) -> tuple[int, bytes]:
        """Correlation id and frame of the next request that the broker gets."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4]):
            self.buffer += await self.broker.receive_some()
        end = 4 + int.from_bytes(self.buffer[:4])
        frame = bytes(self.buffer[4:end])
        del self.buffer[:end]
        return decode_request_header(frame)[0].correlation_id, frame

    async def answer(self, correlation_id: int, error_code: int = 0) -> None:
        """Send a response."""
        response = HeartbeatResponse(error_code=error_code)
        await self.broker.send_all(bytes(encode_response(response, VERSION, correlation_id)[0]))


async def test_requests_are_pipelined_and_each_gets_its_own_answer(nursery, autojump_clock):
    """Three are on their way before the first answer comes."""
    line = Line(nursery)
    found = {}

    async def ask(group: str) -> None:
        found[group] = (await line.ask(group)).error_code

    async with trio.open_nursery() as asking:
        for group in "abc":
            asking.start_soon(ask, group)
            await wait_all_tasks_blocked()
        got = [await line.received() for _ in "abc"]
        assert all(
            group in frame for (_, frame), group in zip(got, (b"a", b"b", b"c"), strict=True)
        )
        for number, (correlation_id, _) in enumerate(got, 1):
            await line.answer(correlation_id, number)
    assert found == {"a": 1, "b": 2, "c": 3}


async def test_only_so_many_requests_wait_at_a_time(nursery, autojump_clock):
    """The third is sent when the first is answered."""
    line = Line(nursery, max_in_flight=2)
    async with trio.open_nursery() as asking:
        for group in "abc":
            asking.start_soon(line.ask, group)
        first, _ = await line.received()
        second, _ = await line.received()
        await wait_all_tasks_blocked()
        assert not line.buffer
        await line.answer(first)
        third, _ = await line.received()
        await line.answer(second)
        await line.answer(third)


async def test_an_answer_that_does_not_come_closes_the_connection(nursery, autojump_clock):
    """The error names the address, the request and the time; later requests fail at once."""
    line = Line(nursery)
    with pytest.raises(AnswerTimeout, match="h:1: no answer to Heartbeat within 2 s"):
        await line.ask("a", timeout_s=2)
    assert trio.current_time() == pytest.approx(2)
    assert not line.connection.is_open
    with pytest.raises(ConnectionLost):
        await line.ask("b")


async def test_requests_without_an_answer_fail_when_the_broker_goes(nursery, autojump_clock):
    """All of them, with one reason."""
    line = Line(nursery)

    async def ask() -> None:
        with pytest.raises(ConnectionLost, match="h:1: the broker closed the connection"):
            await line.ask("a")

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        asking.start_soon(ask)
        await line.received()
        await line.received()
        await line.broker.aclose()


async def test_requests_are_told_why_their_connection_was_closed(autojump_clock):
    """Also when it was cancelled, or failed in a way that nobody expects."""
    said = []

    async def ask() -> None:
        with pytest.raises(ConnectionLost) as lost:
            await line.ask("a")
        said.append(str(lost.value))

    async with trio.open_nursery() as asking, trio.open_nursery() as owner:
        line = Line(owner)
        asking.start_soon(ask)
        await line.received()
        owner.cancel_scope.cancel()
    assert len(said) == 1
    assert said[0].startswith("h:1: the connection was closed (Cancelled")


async def test_a_caller_that_gives_up_does_not_disturb_the_others(nursery, autojump_clock):
    """Its answer is passed over."""
    line = Line(nursery)
    with trio.move_on_after(1):
        await line.ask("a")
    first, _ = await line.received()
    await line.answer(first, 1)
    async with trio.open_nursery() as asking:

        async def ask() -> None:
            assert (await line.ask("b")).error_code == 2

        asking.start_soon(ask)
        second, _ = await line.received()
        await line.answer(second, 2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"HTTP/1.1 400 Bad Request", "it answers HTTP: this is a page or a registry"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "it speaks TLS: name a file"),
        (b"SSH-2.0-x", "not Kafka's protocol"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x63\x00", "another number"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", "is malformed"),
        (b"\x00\x00\x00\x02\x00\x00", "another number"),
    ],
)
async def test_what_is_not_an_answer_closes_the_connection(nursery, autojump_clock, content, said):
    """Whatever a broker sends, the caller gets one error with the address."""
    line = Line(nursery, max_response_bytes=1000)

    async def ask() -> None:
        with pytest.raises(BadAnswer, match="h:1: ") as caught:
            await line.ask("a")
        assert said in str(caught.value)

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await line.received()
        await line.broker.send_all(content)
    await wait_all_tasks_blocked()
    assert not line.connection.is_open


async def test_a_broker_that_does_not_know_the_version_is_asked_again(nursery, autojump_clock):
    """It answers in version 0 with what it knows (KIP-511)."""
    line = Line(nursery)
    asked = []

    async def serve() -> None:
        keys = [ApiVersion(api_key=18, min_version=0, max_version=2)]
        for code, version in ((35, 0), (0, 2)):
            correlation_id, frame = await line.received()
            asked.append(decode_request_header(frame)[0].api_version)
            answer = encode(ApiVersionsResponse(error_code=code, api_keys=keys), version)
            content = correlation_id.to_bytes(4) + answer
            await line.broker.send_all(len(content).to_bytes(4) + content)

    async with trio.open_nursery() as serving:
        serving.start_soon(serve)
        served = await negotiate(line.connection)
    assert asked == [4, 2]
    assert served.ranges == {18: (0, 2)}
    with pytest.raises(NotSupported, match="the broker does not serve Fetch"):
        pick(FetchRequest, served, "h:1")
    with pytest.raises(NotSupported, match=r"serves Fetch in versions 0 to 3.* knows 4 to 18"):
        pick(FetchRequest, served._replace(ranges={1: (0, 3)}), "h:1")
    assert pick(FetchRequest, served._replace(ranges={1: (0, 99)}), "h:1", at_most=12) == 12


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
async def test_a_bad_host_name_is_an_address_that_cannot_be_reached(host):
    """A broker may tell or have registered any text; who asks for it must live on."""
    with pytest.raises(OSError, match="can't be a host's name"):
        await open_tcp(host, 9092)
