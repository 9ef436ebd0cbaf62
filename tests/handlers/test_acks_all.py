"""Produce with acks=all to partitions with followers: who answers, and when."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header
from kwire.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from kwire.record.records import BatchBuilder, ProducerState
from kwire.testing.waiting import until
from tests.broker.leading import follow, lead
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.requests import produce_request

TOPIC = "t"
PARTITIONS = 3
NOW_MS = 1_700_000_000_000
VERSIONS = [8, 12]
"""Before and since the compact encoding."""

FOLLOWERS = (2, 3)

pytestmark = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with one topic of some partitions."""
    async with running_server(tmp_path) as server:
        await server.topic(TOPIC, PARTITIONS)
        await server.hang_up()
        yield server


@pytest.fixture
def partitions(running: RunningServer) -> list[LeaderPartition]:
    """The partitions, each with two followers; two replicas have to be in sync."""
    return [lead(running.broker, TOPIC, index) for index in range(PARTITIONS)]


def batch(count: int = 1, producer: ProducerState | None = None) -> bytes:
    """So many records."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(NOW_MS, None, b"value")
    return bytes(builder.build(producer=producer or ProducerState()))


def request(
    *indexes: int, acks: int = -1, timeout_ms: int = 60_000, records: bytes | None = None
) -> ProduceRequest:
    """One batch for each of these partitions."""
    batches = dict.fromkeys(indexes, records or batch())
    return produce_request(TOPIC, batches, acks=acks, timeout_ms=timeout_ms)


async def answers(client: RawClient, version: int) -> list[PartitionProduceResponse]:
    """The next response's partitions."""
    with trio.fail_after(20):
        frame = await client.receive_frame()
    assert frame is not None
    _, position = decode_response_header(frame, ProduceResponse, version)
    response = decode(ProduceResponse, version, memoryview(frame)[position:])
    return response.responses[0].partition_responses


async def outcomes(client: RawClient, version: int) -> list[tuple[int, int]]:
    """The error code and base offset of each partition in the next response."""
    return [(one.error_code, one.base_offset) for one in await answers(client, version)]


def all_follow(*partitions: LeaderPartition, nodes: tuple[int, ...] = FOLLOWERS) -> None:
    """Followers fetch from the end."""
    for partition in partitions:
        for node in nodes:
            follow(partition, node)


async def appended(partition: LeaderPartition, count: int) -> None:
    """Until the log has so many records, and the request waits."""
    await until(lambda: partition.log.log_end_offset == count)
    await trio.testing.wait_all_tasks_blocked()


async def test_it_is_answered_when_all_have_the_batch(running, partitions, version):
    """Not when one of them has it."""
    client = await running.connect()
    await client.send(request(0), version)
    await appended(partitions[0], 1)
    assert len(partitions[0].acks) == 1
    follow(partitions[0], 2)
    await trio.testing.wait_all_tasks_blocked()
    assert len(partitions[0].acks) == 1
    follow(partitions[0], 3)
    assert await outcomes(client, version) == [(0, 0)]
    assert not partitions[0].acks
    await client.aclose()


async def test_many_wait_without_a_task(running, partitions, version):
    """However many clients there are."""
    clients = [await running.connect() for _ in range(30)]
    tasks = trio.lowlevel.current_statistics().tasks_living
    for client in clients:
        await client.send(request(0), version)
    await appended(partitions[0], len(clients))
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    all_follow(partitions[0])
    offsets = [(await outcomes(client, version))[0][1] for client in clients]
    assert sorted(offsets) == list(range(len(clients)))
    for client in clients:
        await client.aclose()


async def test_a_request_waits_for_all_its_partitions(running, partitions, version):
    """In the order of the request, whichever is replicated first."""
    client = await running.connect()
    await client.send(request(2, 0, 1), version)
    for partition in partitions:
        await appended(partition, 1)
    all_follow(partitions[1], partitions[2])
    await trio.testing.wait_all_tasks_blocked()
    all_follow(partitions[0])
    assert [one.index for one in await answers(client, version)] == [2, 0, 1]
    await client.aclose()


@pytest.mark.parametrize("acks", [0, 1])
async def test_other_acks_wait_for_nobody(running, partitions, version, acks):
    """As with one replica."""
    client = await running.connect()
    await client.send(request(0, acks=acks), version)
    if acks:
        assert await outcomes(client, version) == [(0, 0)]
    await appended(partitions[0], 1)
    assert not partitions[0].acks
    await client.aclose()


async def test_time_is_up(running, partitions, version):
    """What is replicated by then is acknowledged; the records of the others stay in their logs."""
    client = await running.connect()
    await client.send(request(0, 1, timeout_ms=150), version)
    await appended(partitions[1], 1)
    all_follow(partitions[1])
    assert await outcomes(client, version) == [(ErrorCode.REQUEST_TIMED_OUT, 0), (0, 0)]
    assert partitions[0].log.log_end_offset == 1
    await client.send(request(0, timeout_ms=0), version)
    assert await outcomes(client, version) == [(ErrorCode.REQUEST_TIMED_OUT, 1)]
    await client.aclose()


async def test_too_few_replicas_before_the_append(running, partitions, version):
    """Nothing is appended."""
    partition = partitions[0]
    partition.update(partition.row._replace(isr=(1,), partition_epoch=9))
    client = await running.connect()
    await client.send(request(0), version)
    assert await outcomes(client, version) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    assert partition.log.log_end_offset == 0
    await client.aclose()


async def test_too_few_replicas_after_the_append(running, partitions, version):
    """The client may try again: nobody is waited for that isn't in sync."""
    partition = partitions[0]
    client = await running.connect()
    await client.send(request(0), version)
    await appended(partition, 1)
    partition.update(partition.row._replace(isr=(1,), partition_epoch=9))
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert await outcomes(client, version) == [(code, 0)]
    await client.aclose()


async def test_the_leadership_goes(running, partitions, version):
    """The answer names the new leader where the version has room for it (KIP-951)."""
    client = await running.connect()
    await client.send(request(0, 1), version)
    await appended(partitions[1], 1)
    partitions[0].delete()
    all_follow(partitions[1])
    moved, stayed = await answers(client, version)
    assert (moved.error_code, stayed.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    if version >= 10:
        row = running.broker.image.partition(TOPIC, 0)
        assert moved.current_leader.leader_id == row.leader
        assert moved.current_leader.leader_epoch == row.leader_epoch
    await client.aclose()


async def test_a_repeated_batch_waits_for_its_own_offset(running, partitions, version):
    """Later batches don't hold it back, and it isn't acknowledged before it is replicated."""
    partition = partitions[0]
    client, again = await running.connect(), await running.connect()
    records = batch(producer=ProducerState(4711, 0, 0))
    await client.send(request(0, records=records), version)
    await appended(partition, 1)
    partition.append(bytearray(batch(2)), now_ms=NOW_MS, required_acks=1)
    await again.send(request(0, records=records), version)
    await until(lambda: len(partition.acks) == 2)
    for node in FOLLOWERS:
        follow(partition, node, 1)
    assert await outcomes(again, version) == [(0, 0)]
    assert await outcomes(client, version) == [(0, 0)]
    await again.send(request(0, records=records), version)
    assert await outcomes(again, version) == [(0, 0)]
    for one in (client, again):
        await one.aclose()
