"""Requests of one connection that overlap: each keeps to itself what belongs to it."""

import gc
import tracemalloc
from pathlib import Path

import pytest
import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.budget.work import FIRST_S
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.leading import lead
from tests.connection.conftest import TOPIC
from tests.connection.test_pipeline import appended, everything_follows
from tests.handlers.test_acls import creation
from tests.support.clock import steps
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch
from tests.support.requests import produce_request

VERSION = 12
DENIED = "denied"
AUTHORIZER = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
DENIED_CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topic_data(name: str, partitions: int, records: bytes) -> TopicProduceData:
    """The same batch for so many partitions."""
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return TopicProduceData(name=name, partition_data=data)


def frame(number: int, *topics: TopicProduceData) -> bytes:
    """A request with acks=all."""
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=list(topics))
    return bytes(encode_request(request, VERSION, number, None))


async def told(client: RawClient) -> tuple[int, list[tuple[str, int, int]]]:
    """The next response: its number, and of each topic its partitions and their error."""
    with trio.fail_after(20):
        received = await client.receive_frame()
    assert received is not None
    number, position = decode_response_header(received, ProduceResponse, VERSION)
    response = decode(ProduceResponse, VERSION, memoryview(received)[position:])
    return number, [
        (one.name, len(one.partition_responses), one.partition_responses[0].error_code)
        for one in response.responses
        if one.partition_responses
    ]


async def deny(client: RawClient) -> None:
    """Nobody may write to one topic."""
    asked = CreateAclsRequest(creations=[creation(DENIED)])
    response = await client.request(asked, 3, CreateAclsResponse)
    assert not response.results[0].error_code


async def test_what_is_refused_behind_a_large_answer_is_told(tmp_path: Path) -> None:
    """Of two requests that wait; the first becomes large when its partitions lose their leader."""
    async with running_server(tmp_path, AUTHORIZER) as running:
        for name, partitions in ((TOPIC, 1), ("moved", 300), (DENIED, 1)):
            await running.topic(name, partitions)
        client = await running.connect()
        await deny(client)
        leader = lead(running.broker, TOPIC)
        moved = [lead(running.broker, "moved", index) for index in range(300)]
        first = frame(0, topic_data("moved", 300, batch()))
        behind = frame(1, topic_data(TOPIC, 1, batch()), topic_data(DENIED, 5, b""))
        await client.stream.send_all(first + behind)
        await appended(leader, 1)
        running.server.poller.turns.clock = steps(FIRST_S / 2)
        for partition in moved:
            partition.delete()
        assert await told(client) == (0, [("moved", 300, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
        everything_follows(leader)
        assert await told(client) == (1, [(TOPIC, 1, 0), (DENIED, 5, DENIED_CODE)])
        await client.aclose()


async def _kept_bytes(running: RunningServer, leader: LeaderPartition, *requests: bytes) -> int:
    """The memory that requests take which wait for replicas."""
    client = await running.connect()
    await client.stream.send_all(frame(99, topic_data(TOPIC, 1, batch())))
    await appended(leader, 1)
    everything_follows(leader)
    await told(client)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await client.stream.send_all(b"".join(requests))
        await appended(leader, 1 + len(requests))
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    everything_follows(leader)
    for number in range(len(requests)):
        assert (await told(client))[0] == number
    await client.aclose()
    return kept


@pytest.mark.parametrize("settings", [{}, AUTHORIZER], ids=["everybody may", "with an authorizer"])
@pytest.mark.parametrize("refused", [0, 1])
async def test_a_request_that_waits_keeps_nothing_of_its_frame(
    tmp_path: Path, settings: dict[str, str], refused: int
) -> None:
    """In hand or behind, also if a part of it was refused."""
    async with running_server(tmp_path, settings) as running:
        await running.topic(TOPIC)
        await running.topic(DENIED)
        client = await running.connect()
        if settings:
            await deny(client)
        await client.aclose()
        leader = lead(running.broker, TOPIC)
        other = [topic_data(DENIED, 1, b"")] * refused
        large = topic_data(TOPIC, 1, batch(b"v" * 200_000))
        kept = await _kept_bytes(running, leader, *(frame(n, large, *other) for n in range(5)))
    assert kept < 200_000


@pytest.mark.parametrize("version", [3, 6, 7])
async def test_zstd_is_for_clients_that_know_it(tmp_path: Path, version: int) -> None:
    """However many records a batch has; the first batch of a log goes another way."""
    async with running_server(tmp_path) as running:
        await running.topic(TOPIC)
        client = await running.connect()
        for count in (1, 3, 20):
            records = batch(*[b"v" * 10] * count, compression=4 if count > 1 else 0)
            asked = produce_request(TOPIC, records, acks=1)
            response = await client.request(asked, version, ProduceResponse)
            code = response.responses[0].partition_responses[0].error_code
            is_known = version >= 7 or count == 1
            assert code == (0 if is_known else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        await client.aclose()


async def test_all_that_a_waiting_request_keeps_is_counted(tmp_path: Path) -> None:
    """Names, and topics without partitions, too."""
    async with running_server(tmp_path) as running:
        await running.topic(TOPIC)
        client = await running.connect()
        leader = lead(running.broker, TOPIC)
        names = [topic_data(f"{n}" + "x" * 30_000, 1, b"") for n in range(5)]
        empty = [TopicProduceData(name="z", partition_data=[]) for _ in range(500)]
        requests = [frame(n, topic_data(TOPIC, 1, batch()), *names, *empty) for n in range(3)]
        await client.stream.send_all(b"".join(requests))
        await appended(leader, 2)  # the second is more than may wait behind the first
        assert running.server.poller.buffered.held_bytes > 300_000
        everything_follows(leader)
        assert [(await told(client))[0] for _ in range(2)] == [0, 1]
        await appended(leader, 3)
        everything_follows(leader)
        assert (await told(client))[0] == 2
        await client.aclose()
