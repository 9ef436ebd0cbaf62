"""A request that is served as values is answered as one that is served as objects."""

from random import Random

import pytest

from kwire.handlers import produce
from kwire.protocol.frame import decode_request_header, skip_header_tags
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.leading import lead
from tests.handlers.test_produce_in_one_step import (
    INFO,
    NAME,
    Side,
    assert_alike,
    changed,
    create,
    known,
    plain_batch_of,
    some_request,
    two_sides,
)
from tests.support.in_process import running_server


def fast(side, frame):
    """What is answered to a frame; None, with nothing done, if ``handle`` has to serve it."""
    header, position = decode_request_header(frame)
    serve = produce.single(header.api_version)
    if serve is None:
        return None
    position = skip_header_tags(frame, position)
    before = bytes(frame)
    answer = serve(frame, position, header, side.broker, INFO)
    assert answer is not None or bytes(frame) == before
    return answer


def request_of(side, *, acks=-1, partitions=1):
    """A plain batch for each partition."""
    batch = plain_batch_of(Random(3), [5], side.broker.now_ms())
    data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
    topics = [TopicProduceData(name=NAME, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


@pytest.mark.parametrize("version", [8, 9, 12, 13])
async def test_both_ways_answer_and_append_the_same(tmp_path, version):
    random = Random(version)
    taken = 0
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        one, other = await two_sides(a, b)
        now_ms = a.broker.now_ms()
        sequences = [0]
        for _ in range(150):
            request = some_request(random, sequences, now_ms)
            answer = fast(one, one.frame(request, version))
            taken += answer is not None
            if answer is None:
                answer = one.ask(request, version)
            assert_alike(answer, other.ask(request, version), one, other)
        assert one.log_bytes() == other.log_bytes()
    assert (taken > 9) == (version >= 9)


async def test_each_byte_of_a_request_counts(tmp_path):
    """Whatever byte is another one, it is answered as it would be as objects, or not at all."""
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        one, other = await two_sides(a, b)
        frame = one.frame(request_of(one), 12)
        for side in (one, other):
            side.served(memoryview(bytearray(frame)))  # the first batch of a log makes files
        begin = skip_header_tags(frame, decode_request_header(frame)[1])
        taken = 0
        for wanted in [frame, *changed(frame, begin)]:
            copy = memoryview(bytearray(wanted))
            answer = fast(one, wanted)
            if answer is not None:
                taken += 1
                assert answer == other.served(copy), bytes(copy[begin:])
                assert known(one) == known(other)
        assert taken
        assert one.log_bytes() == other.log_bytes()


async def test_what_waits_is_left_to_the_handler(tmp_path):
    """For other replicas, or for a large batch; and what names several partitions."""
    async with running_server(tmp_path) as server:
        await create(server)
        one = Side(server.broker, server.broker.now_ms(), in_one_step=True)
        for acks in (1, -1):
            one.ask(request_of(one, acks=acks), 12)
            assert fast(one, one.frame(request_of(one, acks=acks), 12)) is not None
        assert fast(one, one.frame(request_of(one, partitions=2), 12)) is None
        partition = server.broker.partition(NAME, 0)
        partition.writing = object()
        assert fast(one, one.frame(request_of(one), 12)) is None
        partition.writing = None
        lead(server.broker, NAME, 0)
        assert fast(one, one.frame(request_of(one), 12)) is None
