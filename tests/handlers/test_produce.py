"""Produce: acknowledgements, idempotent producers, and what is refused, over a socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from kwire.errors import ErrorCode
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from kwire.record.records import ProducerState
from kwire.testing.waiting import until
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.records import batch as batch_of
from tests.support.requests import produce_request

VERSION = 11
TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "strict": {"min.insync.replicas": "2"},
}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with topics of several kinds."""
    async with running_server(tmp_path) as server:
        for name, configs in TOPICS.items():
            await server.topic(name, **configs)
        await server.hang_up()
        yield server


def batch(*keys: bytes | None, producer: ProducerState | None = None, timestamp: int = 1) -> bytes:
    """A batch with a record for each key."""
    items = [(key, b"value") for key in keys or (b"key",)]
    return batch_of(*items, producer=producer or ProducerState(), timestamp=timestamp)


def request(topic: str, records: bytes, acks: int = -1) -> ProduceRequest:
    """A request for one batch."""
    return produce_request(topic, records, acks=acks)


async def produce(
    client: RawClient, topic: str, records: bytes, acks: int = -1
) -> PartitionProduceResponse:
    """Produce one batch; the partition's answer."""
    response = await client.request(request(topic, records, acks), VERSION, ProduceResponse)
    return response.responses[0].partition_responses[0]


async def test_offsets_count_up(running: RunningServer) -> None:
    """Each batch gets the offset after the last record of the one before."""
    client = await running.connect()
    offsets = [(await produce(client, "plain", batch(b"a", b"b"))).base_offset for _ in range(3)]
    assert offsets == [0, 2, 4]
    await client.aclose()


async def test_acks_0_is_never_answered(running: RunningServer) -> None:
    """The next request's answer is the first thing that comes."""
    client = await running.connect()
    await client.send(request("plain", batch(), acks=0), VERSION)
    assert (await produce(client, "plain", batch())).base_offset == 1
    await client.aclose()


@pytest.mark.parametrize("topic", ["plain", "compacted"])  # appended in a slice, and in a thread
async def test_a_client_that_is_gone_has_sent_its_records_with_acks_0(
    running: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer may close its connection right after its last record, without any response."""
    for slice_s in ("FIRST_S", "LEAST_S"):  # each request needs another slice
        monkeypatch.setattr(f"kwire.budget.work.{slice_s}", 0)
    large = batch(*(b"%d" % number * 1000 for number in range(100)))
    gone = await running.connect()
    for _ in range(5):
        await gone.send(request(topic, large, acks=0), VERSION)
    await gone.aclose()
    log = running.broker.partition(topic, 0).log
    await until(lambda: log.log_end_offset == 500)


async def test_an_error_with_acks_0_closes_the_connection(running: RunningServer) -> None:
    """It is the only way to tell."""
    client = await running.connect()
    await client.send(request("missing", batch(), acks=0), VERSION)
    with trio.fail_after(20):
        assert await client.is_closed()
    await client.aclose()


@pytest.mark.parametrize("acks", [2, -2])
async def test_other_acks_are_refused(running: RunningServer, acks: int) -> None:
    """Only 0, 1 and all exist."""
    client = await running.connect()
    answer = await produce(client, "plain", batch(), acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    await client.aclose()


async def test_an_idempotent_producer(running: RunningServer) -> None:
    """A repeated batch is answered with its offset, a gap is refused, an old epoch fenced."""
    client = await running.connect()
    asked = InitProducerIdRequest(transactional_id=None)
    producer_id = (await client.request(asked, 4, InitProducerIdResponse)).producer_id

    async def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        state = ProducerState(producer_id, epoch, sequence)
        answer = await produce(client, "plain", batch(b"a", b"b", producer=state))
        return answer.error_code, answer.base_offset

    assert [await send(sequence) for sequence in (0, 2, 4)] == [(0, 0), (0, 2), (0, 4)]
    assert await send(2) == (0, 2)
    assert (await send(8))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(0, epoch=1) == (0, 6)
    assert (await send(6))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    another = (await client.request(asked, 4, InitProducerIdResponse)).producer_id
    assert another != producer_id
    await client.aclose()


async def test_a_compacted_topic_wants_keys(running: RunningServer) -> None:
    """Records without a key are named one by one (KIP-467)."""
    client = await running.connect()
    answer = await produce(client, "compacted", batch(b"a", None, b"b", None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert (await produce(client, "compacted", batch(b"a"))).error_code == 0
    await client.aclose()


async def test_log_append_time(running: RunningServer) -> None:
    """The broker's time is stamped, and told."""
    client = await running.connect()
    answer = await produce(client, "stamped", batch())
    assert answer.log_append_time_ms > 1_700_000_000_000
    assert (await produce(client, "plain", batch())).log_append_time_ms == -1
    await client.aclose()


async def test_a_timestamp_from_the_future(running: RunningServer) -> None:
    """More than message.timestamp.after.max.ms ahead is INVALID_TIMESTAMP."""
    client = await running.connect()
    future = running.broker.now_ms() + 7_200_000
    answer = await produce(client, "plain", batch(timestamp=future))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    await client.aclose()


async def test_min_insync_replicas(running: RunningServer) -> None:
    """The only replica of a topic is enough, whatever the topic asks for."""
    client = await running.connect()
    assert (await produce(client, "strict", batch(), acks=-1)).error_code == 0
    assert (await produce(client, "strict", batch(), acks=1)).error_code == 0
    await client.aclose()


async def test_internal_topics_are_refused(running: RunningServer) -> None:
    """Clients don't write to the broker's own topics."""
    client = await running.connect()
    answer = await produce(client, "__consumer_offsets", batch())
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    await client.aclose()
