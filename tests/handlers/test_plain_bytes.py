"""Whatever byte of a common request is another one, its fast path says what the slow twin says."""

from kwire.handlers import plain_fetch
from kwire.protocol.frame import decode_request_header, skip_header_tags
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.record.records import BatchBuilder
from tests.handlers import test_plain_fetch
from tests.handlers.test_produce_in_one_step import changed
from tests.support.in_process import running_server


def body_at(frame):
    """The header, and where the body begins."""
    header, position = decode_request_header(frame)
    return header, skip_header_tags(frame, position)


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
