"""Large requests: decoded in slices, answered in full, and refused beyond the setting."""

import gc
import logging

import pytest
import trio

from kwire.budget.work import Turns
from kwire.dispatch import large_requests as large
from kwire.dispatch.routes import route
from kwire.errors import ErrorCode
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.record.records import BatchBuilder
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.requests import list_offsets_request


def _list_offsets(count):
    return list_offsets_request("unknown", *range(count))


@pytest.mark.parametrize("count", [3, large.INLINE_ELEMENTS, large.INLINE_ELEMENTS + 1, 3000])
async def test_a_large_request_is_answered_in_full(tmp_path, count):
    """A request of many elements is decoded and its response encoded in slices, in order."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        answer = await client.request(_list_offsets(count), 7, ListOffsetsResponse)
        (topic,) = answer.topics
        assert [p.partition_index for p in topic.partitions] == list(range(count))
        assert {p.error_code for p in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_an_empty_request_is_answered_though_its_slice_is_over(tmp_path, monkeypatch):
    """Its response is encoded in slices, and there is nothing to free."""
    monkeypatch.setattr("kwire.budget.work.FIRST_S", 0)
    monkeypatch.setattr("kwire.budget.work.LEAST_S", 0)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        request = DeleteTopicsRequest(topics=[], timeout_ms=1000)
        assert (await client.request(request, 6, DeleteTopicsResponse)).responses == []


async def test_a_connection_keeps_nothing_of_a_request_that_is_answered(tmp_path):
    """Many connections that are idle would hold the topics that each of them has asked for."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        topics = [MetadataRequestTopic(name=f"t{n}") for n in range(150)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        await client.request(request, 9, MetadataResponse)
        del topics, request
        left = [one for one in gc.get_objects() if isinstance(one, MetadataRequestTopic)]
        assert not left


async def test_a_request_of_too_many_elements_ends_the_connection(tmp_path, caplog):
    """The log names the setting and its value; other clients are served."""
    settings = {"kwire.request.max.elements": "5000"}
    with caplog.at_level(logging.INFO):
        async with running_server(tmp_path, settings) as server:
            client = await server.connect()
            await client.send(DescribeGroupsRequest(groups=["g"] * 5001), 5)
            assert await client.is_closed()
            other = await server.connect()
            request = DescribeGroupsRequest(groups=["g"])
            assert (await other.request(request, 5, DescribeGroupsResponse)).groups
    assert "kwire.request.max.elements=5000" in caplog.text


@pytest.mark.parametrize("cut", [1, 100, 3000])
async def test_a_large_request_that_is_cut_short_ends_the_connection(tmp_path, cut):
    """What is found malformed in a later slice ends the connection like what is decoded at once."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        frame = bytearray(encode_request(_list_offsets(3000), 7, 1, "raw"))
        del frame[-cut:]
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        await client.stream.send_all(bytes(frame))
        assert await client.is_closed()


async def test_many_large_requests_do_not_delay_the_one_of_another_client(tmp_path, monkeypatch):
    """The client that has used the least time gets the next slice, whoever came before."""
    order, waiting, gate, wait = [], [], trio.Event(), Turns.wait

    async def ask(client, count):
        await client.request(_list_offsets(count), 7, ListOffsetsResponse)
        order.append("busy" if count > least else "modest")

    async def held(turns, work):
        waiting.append(work)
        await gate.wait()
        await wait(turns, work)

    least = large.INLINE_ELEMENTS + 1
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        busy = [await server.connect() for _ in range(3)]
        modest = await server.connect()
        await ask(modest, least)
        for client in busy * 3:
            await ask(client, 6_000)
        order.clear()
        monkeypatch.setattr(Turns, "wait", held)
        for count, client in enumerate(busy, start=1):
            nursery.start_soon(ask, client, 6_000)
            await until(lambda count=count: len(waiting) == count)
        nursery.start_soon(ask, modest, least)
        await until(lambda: len(waiting) == len(busy) + 1)
        gate.set()
    assert order.index("modest") <= 1  # the busy client that was served longest ago may be ahead


async def test_a_large_request_without_a_response_holds_nothing_afterwards(tmp_path):
    """Or one producer with acks=0 would keep the large requests of all others waiting for ever."""
    builder = BatchBuilder()
    builder.add(1, b"key", b"value")
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topic = TopicProduceData(name="t", partition_data=[data] * (large.INLINE_ELEMENTS + 1))
    async with running_server(tmp_path) as server:
        await server.topic("t")
        client = await server.connect()
        await client.send(ProduceRequest(acks=0, topic_data=[topic]), 9)
        await client.request(MetadataRequest(), 9, MetadataResponse)
        assert await server.end_offset("t") == len(topic.partition_data)
        assert server.server.poller.turns.large.held_bytes == 0
        await client.aclose()


async def test_who_wants_no_response_may_leave_before_its_large_request_is_read(
    tmp_path, monkeypatch
):
    """A producer with acks=0 closes its connection when it has sent everything."""
    builder = BatchBuilder()
    builder.add(1, b"key", b"value")
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topic = TopicProduceData(name="t", partition_data=[data] * (large.INLINE_ELEMENTS + 1))
    waiting, gate, wait = [], trio.Event(), Turns.wait

    async def held(turns, work):
        waiting.append(work)
        await gate.wait()
        await wait(turns, work)

    async with running_server(tmp_path) as server:
        await server.topic("t")
        client = await server.connect()
        monkeypatch.setattr(Turns, "wait", held)
        await client.send(ProduceRequest(acks=0, topic_data=[topic]), 9)
        await until(lambda: waiting)
        await client.aclose()
        gate.set()
        log = server.broker.partition("t", 0).log
        await until(lambda: log.log_end_offset == len(topic.partition_data))


def _encoded(response):
    """The parts of a Metadata response of version 9."""
    served_by = route(3, 9)
    pieces = large.encoded_parts(served_by, served_by.in_pieces(), response, 77)
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            return done.value


def test_a_large_response_is_copied_in_pieces():
    """Together they are the response."""
    topics = [MetadataResponseTopic(name=f"topic-{n}") for n in range(20_000)]
    response = MetadataResponse(topics=topics)
    parts = _encoded(response)
    sizes = [len(part) for part in parts]
    assert len(sizes) > 1
    assert max(sizes) <= large.COPY_BYTES
    whole = b"".join(part for part in parts if isinstance(part, bytes))
    assert int.from_bytes(whole[:4]) == len(whole) - 4
    small = _encoded(MetadataResponse(topics=topics[:1]))
    assert len(small) == 1
    out = bytearray()
    route(3, 9).encode(response, out, [])
    assert whole[9:] == out
