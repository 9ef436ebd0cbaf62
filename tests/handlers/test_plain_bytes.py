"""Whatever byte of a common request is another one, its fast path says what the slow twin says."""

import pytest

from kwire.handlers import plain_fetch, plain_produce
from kwire.protocol.frame import decode_request_header, skip_header_tags
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder
from tests.handlers import test_plain_fetch, test_plain_produce
from tests.support.in_process import running_server

VALUES = (0, 1, 2, 3, 0x7F, 0x80, 0xFF)
INTERNAL = "__consumer_offsets"


def changed(frame, begin):
    """Every frame that differs in one byte from ``begin`` on."""
    for place in range(begin, len(frame)):
        for value in {*VALUES, frame[place] ^ 1} - {frame[place]}:
            other = bytearray(frame)
            other[place] = value
            yield memoryview(other)


def body_at(frame):
    """The header, and where the body begins."""
    header, position = decode_request_header(frame)
    return header, skip_header_tags(frame, position)


def produce_request(side, partitions):
    """One batch for each of some partitions."""
    builder = BatchBuilder()
    builder.add(side.broker.now_ms(), b"k", b"v")
    data = [
        PartitionProduceData(index=index, records=bytes(builder.build()))
        for index in range(partitions)
    ]
    topic = TopicProduceData(name=test_plain_produce.NAME, partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


async def two_sides(a, b):
    """Two brokers with the same topics, in which records were deleted."""
    now_ms = a.broker.now_ms()
    sides = []
    for server in (a, b):
        await test_plain_produce.create(server)
        side = test_plain_produce.Side(server.broker, now_ms)
        for _ in range(3):
            side.slow(produce_request(side, test_plain_produce.PARTITIONS), 12)
        for index in range(test_plain_produce.PARTITIONS):
            server.broker.partition(test_plain_produce.NAME, index).delete_records(2)
        sides.append(side)
    return sides


def known(side):
    """What is known of the partitions."""
    return [
        (name, index, p.high_watermark, p.log.log_end_offset, p.log.log_start_offset, p.flush)
        for name in side.topic_ids
        for index in range(test_plain_produce.PARTITIONS)
        for p in [side.broker.partition(name, index)]
    ]


@pytest.mark.parametrize("partitions", [1, 2])
async def test_each_byte_of_a_produce_request_counts(tmp_path, partitions):
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        fast, slow = await two_sides(a, b)
        frame = fast.frame(produce_request(fast, partitions), 12)
        header, begin = body_at(frame)
        taken = 0
        for other in [frame, *changed(frame, begin)]:
            twin = memoryview(bytearray(other))
            answer = plain_produce.answer(
                other, begin, header, fast.broker, test_plain_produce.INFO
            )
            if answer is not None:
                taken += 1
                assert answer == slow.served_slowly(twin), bytes(twin[begin:])
                assert known(fast) == known(slow)
        assert taken
        assert fast.log_bytes() == slow.log_bytes()


async def test_each_byte_of_a_fetch_request_counts(tmp_path):
    settings = {"fetch.max.bytes": "1200"}
    async with running_server(tmp_path, settings) as server:
        side = await test_plain_fetch.create(server)
        builder = BatchBuilder()
        builder.add(server.broker.now_ms(), b"k", bytes(400))
        for partition in server.broker.partitions():
            for _ in range(4):
                partition.append(bytes(builder.build()), now_ms=server.broker.now_ms())
            partition.delete_records(1)
        topics = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=2, partition_max_bytes=600)
                    for index in (0, 3)
                ],
            )
            for name in test_plain_fetch.NAMES
        ]
        request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics, rack_id="r")
        frame = side.frame(request, 12)
        header, begin = body_at(frame)
        taken = 0
        for other in [frame, *changed(frame, begin)]:
            answer = side.served_fast(other, begin, header)
            if answer is not None:
                taken += 1
                expected = side.served_slowly(other, begin, header)
                answer, expected = (
                    one.end() if isinstance(one, test_plain_fetch.Later) else one
                    for one in (answer, expected)
                )
                assert answer == expected, bytes(other[begin:])
        assert taken > 100


async def test_very_many_partitions_are_left_to_the_twin(tmp_path):
    """It knows how much one request may ask for; the same partition again and again is much."""
    async with running_server(tmp_path) as server:
        side = await test_plain_fetch.create(server)
        one = FetchPartition(partition=0, partition_max_bytes=1000)
        for count, is_taken in [
            (plain_fetch.MOST_PARTITIONS, True),
            (plain_fetch.MOST_PARTITIONS + 1, False),
        ]:
            halves = [[one] * (count // 2), [one] * (count - count // 2)]
            topics = [
                FetchTopic(topic=name, partitions=half)
                for name, half in zip(test_plain_fetch.NAMES, halves, strict=True)
            ]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
            assert (side.fast(request, 12) is not None) is is_taken


async def test_a_topic_that_is_named_twice_is_told_once(tmp_path):
    async with running_server(tmp_path) as server:
        side = await test_plain_fetch.create(server)
        topics = [
            FetchTopic(topic=test_plain_fetch.NAMES[0], partitions=[FetchPartition(partition=n)])
            for n in range(2)
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
        assert side.fast(request, 12) in (None, side.slow(request, 12))


async def test_a_topic_of_the_broker_is_left_to_the_twin(tmp_path):
    """Whatever its settings are."""
    async with running_server(tmp_path) as server:
        for name in (test_plain_produce.NAME, INTERNAL):
            await server.topic(name, partitions=2, cleanup_policy="delete")
        side = test_plain_produce.Side(server.broker, server.broker.now_ms())
        side.slow(produce_request(side, 2), 12)  # what is empty is left to the twin, too
        batch = produce_request(side, 1).topic_data[0].partition_data[0].records
        for index in range(2):
            internal = server.broker.partition(INTERNAL, index)
            internal.append(batch, now_ms=server.broker.now_ms())
        for count in (1, 2):
            request = produce_request(side, count)
            assert side.fast(request, 12) is not None
            request.topic_data[0].name = INTERNAL
            assert side.fast(request, 12) is None
