"""Produce requests behind one that waits for replicas: appended at once, answered in order."""

import selectors
from random import Random

import pytest
import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.budget.work import PASS_S
from kwire.connection.pipeline import MOST_WAITING
from kwire.dispatch.serving import BEHIND_BYTES
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.testing.waiting import until
from tests.broker.leading import follow, lead
from tests.connection.conftest import TOPIC
from tests.support.clock import steps
from tests.support.in_process import RawClient, RunningServer
from tests.support.records import batch
from tests.support.requests import produce_request

NOW_MS = 1_700_000_000_000
FAST, SLOW = 12, 8
FOLLOWERS = (2, 3)


@pytest.fixture
def leader(running: RunningServer) -> LeaderPartition:
    """The partition, with two followers."""
    return lead(running.broker, TOPIC)


def produce(number: int, *, acks: int = -1, version: int = FAST, timeout_ms: int = 60_000) -> bytes:
    """A request to append one record."""
    request = produce_request(TOPIC, batch(), acks=acks, timeout_ms=timeout_ms)
    return bytes(encode_request(request, version, number, None))


def other(number: int) -> bytes:
    """A request that is answered at once."""
    return bytes(encode_request(ApiVersionsRequest(), 0, number, None))


def everything_follows(leader: LeaderPartition, end_offset: int = -1) -> None:
    """All followers have the records up to an offset."""
    for node in FOLLOWERS:
        follow(leader, node, end_offset)


async def appended(leader: LeaderPartition, count: int) -> None:
    """Until the log has so many records, and no more come."""
    await until(lambda: leader.log.log_end_offset == count)
    await trio.testing.wait_all_tasks_blocked()
    assert leader.log.log_end_offset == count


async def number(client: RawClient) -> int:
    """The correlation id of the next response."""
    with trio.fail_after(20):
        frame = await client.receive_frame()
    assert frame is not None
    return int.from_bytes(frame[:4], "big")


async def numbers(client: RawClient, count: int) -> list[int]:
    """Of so many responses."""
    return [await number(client) for _ in range(count)]


async def outcome(client: RawClient, version: int = FAST) -> tuple[int, int, int]:
    """The correlation id, error code and base offset of the next response."""
    with trio.fail_after(20):
        frame = await client.receive_frame()
    assert frame is not None
    found, position = decode_response_header(frame, ProduceResponse, version)
    response = decode(ProduceResponse, version, memoryview(frame)[position:])
    [answer] = response.responses[0].partition_responses
    return found, answer.error_code, answer.base_offset


async def test_the_next_are_appended_while_the_first_waits(running, leader):
    """Also those that come later; one fetch of each follower acknowledges them all."""
    client = await running.connect()
    await client.stream.send_all(b"".join(produce(one) for one in range(5)))
    await appended(leader, 5)
    await client.stream.send_all(b"".join(produce(one) for one in range(5, 10)))
    await appended(leader, 10)
    everything_follows(leader)
    assert [await outcome(client) for _ in range(10)] == [(one, 0, one) for one in range(10)]
    await client.aclose()


async def test_a_part_is_acknowledged(running, leader):
    """What isn't replicated yet waits on, and more may come behind it."""
    client = await running.connect()
    await client.stream.send_all(b"".join(produce(one) for one in range(4)))
    await appended(leader, 4)
    everything_follows(leader, 3)
    assert await numbers(client, 3) == [0, 1, 2]
    await client.stream.send_all(produce(4))
    await appended(leader, 5)
    everything_follows(leader)
    assert await numbers(client, 2) == [3, 4]
    await client.aclose()


async def test_a_part_that_is_acknowledged_is_sent_at_once(running, leader, monkeypatch):
    """Not in a later pass, after the poller was told to watch the socket for writing."""
    watched = []
    monkeypatch.setattr(selectors.DefaultSelector, "modify", lambda *a: watched.append(a))
    client = await running.connect()
    await client.stream.send_all(b"".join(produce(one) for one in range(3)))
    await appended(leader, 3)
    everything_follows(leader, 2)
    assert await numbers(client, 2) == [0, 1]
    assert not watched
    await client.aclose()


async def test_an_answer_that_is_ready_waits_for_its_turn(running, leader):
    """Here one that waits for no replica."""
    client = await running.connect()
    await client.stream.send_all(produce(0) + produce(1, acks=1) + produce(2))
    await appended(leader, 3)
    everything_follows(leader, 1)
    assert await numbers(client, 2) == [0, 1]
    everything_follows(leader)
    assert await number(client) == 2
    await client.aclose()


async def test_any_other_request_waits_and_so_does_all_behind_it(running, leader):
    """It is served as if the producer had waited."""
    client = await running.connect()
    await client.stream.send_all(produce(0) + other(1) + produce(2))
    await appended(leader, 1)
    everything_follows(leader)
    await appended(leader, 2)
    everything_follows(leader)
    assert await numbers(client, 3) == [0, 1, 2]
    await client.aclose()


async def test_some_follow_one_of_the_slow_path(running, leader):
    """Only the first may be of any kind."""
    client = await running.connect()
    await client.stream.send_all(produce(0, version=SLOW) + produce(1) + produce(2))
    await appended(leader, 3)
    everything_follows(leader)
    assert (await outcome(client, SLOW))[:2] == (0, 0)
    assert await numbers(client, 2) == [1, 2]
    await client.aclose()


async def test_no_more_wait_than_may(running, leader):
    """The others are appended when some are answered."""
    client = await running.connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.stream.send_all, b"".join(map(produce, range(200))))
        for count in (64, 128, 192, 200):
            await appended(leader, count)
            everything_follows(leader)
        assert await numbers(client, 200) == list(range(200))
    assert MOST_WAITING == 64
    await client.aclose()


async def test_no_more_bytes_wait_than_may(running, leader, monkeypatch):
    """Answers and requests, however small."""
    monkeypatch.setattr("kwire.connection.pipeline.MOST_BYTES", 2 * BEHIND_BYTES)
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(10))))
    await appended(leader, 3)
    for count in (6, 9, 10, 10):
        everything_follows(leader)
        await appended(leader, count)
    assert await numbers(client, 10) == list(range(10))
    await client.aclose()


async def test_many_are_served_in_many_passes(running, leader):
    """Each pass of the event loop serves few; others have their turns in between."""
    running.server.poller.turns.clock = steps(PASS_S / 20)
    clients = [await running.connect() for _ in range(3)]
    for client in clients:
        await client.stream.send_all(b"".join(map(produce, range(20))))
    await appended(leader, 60)
    everything_follows(leader)
    for client in clients:
        assert await numbers(client, 20) == list(range(20))
        await client.aclose()


@pytest.mark.parametrize("bad", [bytes(4) + b"\x7f\xff", b"\0\0\0\2xx", other(1)[:5] + b"\x70"])
async def test_a_bad_request_ends_the_connection_after_the_answers_before_it(running, leader, bad):
    """What is acknowledged has to be known."""
    client = await running.connect()
    await client.stream.send_all(produce(0) + produce(1) + bad + bytes(300))
    await appended(leader, 2)
    everything_follows(leader)
    assert await numbers(client, 2) == [0, 1]
    assert await client.is_closed()
    await client.aclose()


async def test_a_client_that_goes_frees_what_waits(running, leader):
    """Its requests are forgotten at once, and nothing is left behind."""
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(5))))
    await appended(leader, 5)
    [connection] = running.server.poller.connections
    assert leader.acks.waiting == 5
    await client.aclose()
    await until(lambda: connection.fileno() < 0)
    assert not leader.acks.waiting
    everything_follows(leader)
    assert not len(leader.acks)


async def test_an_acknowledged_answer_is_sent_though_the_connection_ends(running, leader):
    """The followers came a moment before the client's last byte."""
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(3))))
    await appended(leader, 3)
    everything_follows(leader, 2)
    client.stream.socket.shutdown(trio.socket.SHUT_WR)
    assert await numbers(client, 2) == [0, 1]
    assert await client.is_closed()
    await client.aclose()


async def test_a_broker_that_stops_answers_what_it_has_appended(running, leader):
    """It reads no more requests."""
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(3))))
    await appended(leader, 3)
    [connection] = running.server.poller.connections
    connection.close_nowait()
    await trio.testing.wait_all_tasks_blocked()
    everything_follows(leader)
    assert await numbers(client, 3) == [0, 1, 2]
    assert await client.is_closed()
    await client.aclose()


async def test_time_is_up_for_each(running, leader):
    """The first holds the others back no longer than its own time."""
    client = await running.connect()
    await client.stream.send_all(produce(0, timeout_ms=100) + produce(1, timeout_ms=1))
    late = ErrorCode.REQUEST_TIMED_OUT
    assert [await outcome(client) for _ in range(2)] == [(0, late, 0), (1, late, 1)]
    everything_follows(leader)
    assert not len(leader.acks)
    await client.stream.send_all(produce(2, timeout_ms=100) + produce(3))
    assert await outcome(client) == (2, late, 2)
    everything_follows(leader)
    assert await outcome(client) == (3, 0, 3)
    await client.aclose()


async def test_the_leadership_goes(running, leader):
    """All that wait are told."""
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(3))))
    await appended(leader, 3)
    leader.delete()
    moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [(await outcome(client))[:2] for _ in range(3)] == [(one, moved) for one in range(3)]
    await client.aclose()


async def test_what_waits_counts_as_resting(running, leader, monkeypatch):
    """So the memory of all clients' waiting requests is bounded, too."""
    monkeypatch.setattr("kwire.connection.pipeline.RESTING_BYTES", 3 * BEHIND_BYTES)
    resting = running.server.poller.buffered
    client = await running.connect()
    await client.stream.send_all(b"".join(map(produce, range(3))))
    await appended(leader, 3)
    assert not resting.held_bytes
    await client.stream.send_all(b"".join(map(produce, range(3, 6))))
    await appended(leader, 6)
    assert resting.held_bytes >= 5 * BEHIND_BYTES
    everything_follows(leader)
    assert await numbers(client, 6) == list(range(6))
    assert not resting.held_bytes
    await client.aclose()


async def test_answers_come_in_order_whatever_happens(running, leader):
    """Requests of every kind in pieces of any size, followers that fetch now and then."""
    random = Random(18)
    kinds = [produce, other, lambda one: produce(one, version=SLOW)]
    kinds += [lambda one: produce(one, acks=1), lambda one: produce(one, acks=1, version=SLOW)]
    clients = [await running.connect() for _ in range(4)]
    count = 150

    async def send(client: RawClient) -> None:
        sent = b"".join(random.choices(kinds, [12, 1, 1, 2, 1])[0](one) for one in range(count))
        while sent:
            size = random.choice([1, 7, 100, 1000, 5000])
            await client.stream.send_all(sent[:size])
            sent = sent[size:]
            await trio.lowlevel.checkpoint()

    async def receive(client: RawClient) -> None:
        assert await numbers(client, count) == list(range(count))

    async def fetch() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            for node in FOLLOWERS:
                if random.random() < 0.3:
                    end = leader.log.log_end_offset
                    at = leader.followers[node].end_offset
                    follow(leader, node, random.randint(min(max(at, 0), end), end))

    with trio.fail_after(60):
        async with trio.open_nursery() as fetching:
            fetching.start_soon(fetch)
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(send, client)
                    nursery.start_soon(receive, client)
            fetching.cancel_scope.cancel()
    assert not len(leader.acks)
    for client in clients:
        await client.aclose()
