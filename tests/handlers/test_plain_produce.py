"""The fast path of Produce answers and appends the same bytes as its slow twin, or leaves it be."""

from random import Random

import pytest
from crc32c import crc32c

from kwire.connection.outbox import Outbox
from kwire.errors import KafkaError
from kwire.handlers import plain_produce, route
from kwire.handlers.context import ConnectionInfo, RequestContext
from kwire.protocol.frame import decode_request_header, encode_request, skip_header_tags
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder, ProducerState
from kwire.testing.in_process import running_server

INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
NAME = "orders"
UNKNOWN_ID = bytes(15) + b"?"
VERSIONS = (9, 10, 11, 12, 13)


class Side:
    """A broker, and what it answers by one way or the other."""

    def __init__(self, broker, now_ms):
        self.broker = broker
        broker.now_ms = lambda: now_ms
        self.topic_id = broker.image.topics_by_name[NAME].topic_id

    def frame(self, request, version):
        """The request as it is on the wire, with this broker's topic ids."""
        for topic in request.topic_data:
            topic.topic_id = self.topic_id if topic.name == NAME else UNKNOWN_ID
        return memoryview(bytearray(encode_request(request, version, 77, "test")))[4:]

    def fast(self, request, version):
        """What the fast path answers, None where it leaves the request to its twin."""
        frame = self.frame(request, version)
        header, position = decode_request_header(frame)
        position = skip_header_tags(frame, position)
        before = bytes(frame)
        answer = plain_produce.answer(frame, position, header, self.broker)
        assert answer is not None or bytes(frame) == before
        return answer

    def slow(self, request, version):
        """What the handler answers."""
        frame = self.frame(request, version)
        header, position = decode_request_header(frame)
        served_by = route(0, version)
        decoded, _ = served_by.decode(frame, skip_header_tags(frame, position))
        context = RequestContext(self.broker, INFO, version, header.client_id)
        try:
            response = served_by.handle(decoded, context)
        except KafkaError as error:
            return error.code
        if response is None:
            return None
        outbox = Outbox.__new__(Outbox)
        outbox._out, outbox._slices = bytearray(), []
        outbox.append(served_by, response, header.correlation_id)
        return bytes(outbox._out)

    def log_bytes(self):
        """Everything that was appended."""
        segment = self.broker.partition(NAME, 0).log.active
        return segment.path(".log").read_bytes(), segment.path(".index").read_bytes()


def some_request(random, sequences, now_ms):
    """A request that is common, or nearly."""
    count = random.choice([1, 1, 1, 2, 9, 30])
    builder = BatchBuilder()
    for _ in range(count):
        headers = [("h", b"v")] if random.random() < 0.1 else []
        builder.add(now_ms, random.choice([None, b"key"]), random.randbytes(50), headers)
    producer = ProducerState()
    if random.random() < 0.5:
        sequence = sequences[0] if random.random() < 0.8 else random.choice([0, 10**6])
        producer = ProducerState(4711, 0, sequence)
        if sequence == sequences[0]:
            sequences[0] += count if random.random() < 0.8 else 0
    codec = random.choice([0, 0, 0, 3])
    batch = bytearray(builder.build(compression=codec, producer=producer))
    if random.random() < 0.15:
        batch[random.randrange(len(batch))] ^= 1 << random.randrange(8)
        if random.random() < 0.7:
            batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    data = PartitionProduceData(index=random.choice([0] * 8 + [1]), records=bytes(batch))
    copies = random.choice([1] * 9 + [2])
    name = random.choice([NAME] * 8 + ["nowhere", "__consumer_offsets"])
    return ProduceRequest(
        transactional_id=random.choice([None] * 9 + ["t"]),
        acks=random.choice([-1, -1, -1, 1, 1, 0, 2]),
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=name, partition_data=[data] * copies)],
    )


async def create(server, **configs):
    """The topic."""
    client = await server.connect()
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
    topic = CreatableTopic(name=NAME, num_partitions=1, replication_factor=1, configs=settings)
    await client.request(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
    await client.aclose()


@pytest.mark.parametrize("version", VERSIONS)
async def test_both_ways_answer_and_append_the_same(tmp_path, version):
    random = Random(version)
    taken = 0
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        await create(a)
        await create(b)
        now_ms = a.broker.now_ms()
        fast, slow = Side(a.broker, now_ms), Side(b.broker, now_ms)
        sequences = [0]
        for _ in range(300):
            request = some_request(random, sequences, now_ms)
            answer = fast.fast(request, version)
            taken += answer is not None
            if answer is None:
                answer = fast.slow(request, version)
            expected = slow.slow(request, version)
            if isinstance(answer, bytes) and isinstance(expected, bytes):
                answer = answer.replace(fast.topic_id, slow.topic_id)
            assert answer == expected
        assert fast.log_bytes() == slow.log_bytes()
    assert taken > 20


async def test_an_error_of_the_append_is_told_by_the_twin(tmp_path):
    async with running_server(tmp_path) as server:
        await create(server, **{"min.insync.replicas": "2"})
        side = Side(server.broker, server.broker.now_ms())
        builder = BatchBuilder()
        builder.add(side.broker.now_ms(), b"k", b"v")
        data = PartitionProduceData(index=0, records=bytes(builder.build()))
        topic = TopicProduceData(name=NAME, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        assert side.fast(request, 12) is None
        request.acks = 1
        side.slow(request, 12)  # what is empty is left to the twin, too
        assert side.fast(request, 12) is not None


async def test_a_frame_cut_anywhere_is_left_to_the_twin(tmp_path):
    async with running_server(tmp_path) as server:
        await create(server)
        side = Side(server.broker, server.broker.now_ms())
        builder = BatchBuilder()
        builder.add(side.broker.now_ms(), b"k", b"v")
        data = PartitionProduceData(index=0, records=bytes(builder.build()))
        topic = TopicProduceData(name=NAME, partition_data=[data])
        frame = side.frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 12)
        header, position = decode_request_header(frame)
        position = skip_header_tags(frame, position)
        for end in range(position, len(frame)):
            assert plain_produce.answer(frame[:end], position, header, side.broker) is None
