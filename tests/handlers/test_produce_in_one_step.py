"""A plain batch that is appended in one step is appended and answered as any other batch."""

from random import Random
from unittest.mock import patch

import pytest
from crc32c import crc32c

from kwire.connection.outbox import Outbox
from kwire.dispatch.encoding import encode_response
from kwire.dispatch.routes import route
from kwire.errors import KafkaError
from kwire.handlers import produce
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Unfinished
from kwire.protocol.frame import decode_request_header, encode_request, skip_header_tags
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.wire import MalformedRequest
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.in_process import running_server
from tests.support.work import free_work

INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
NAME = "orders"
NAMES = [NAME, "bills"]
PARTITIONS = 3
UNKNOWN_ID = bytes(15) + b"?"
VERSIONS = (8, 12, 13)

append_plain = produce.append_plain


class Side:
    """A broker that appends plain batches in one step, or none; ``taken`` counts those."""

    def __init__(self, broker, now_ms, *, in_one_step):
        self.broker = broker
        broker.now_ms = lambda: now_ms
        topics = broker.image.topics_by_name
        self.topic_ids = {name: topics[name].topic_id for name in NAMES if name in topics}
        self.in_one_step = in_one_step
        self.taken = 0

    def _append_plain(self, *arguments):
        answer = append_plain(*arguments) if self.in_one_step else None
        self.taken += answer is not None
        return answer

    def frame(self, request, version):
        """The request as it is on the wire, with this broker's topic ids."""
        for topic in request.topic_data:
            topic.topic_id = self.topic_ids.get(topic.name, UNKNOWN_ID)
        return memoryview(bytearray(encode_request(request, version, 77, "test")))[4:]

    def ask(self, request, version):
        """What a request is answered."""
        return self.served(self.frame(request, version))

    def served(self, frame):
        """What a frame is answered: bytes, or the error that ends the connection."""
        header, position = decode_request_header(frame)
        version = header.api_version
        served_by = route(0, version)
        if served_by.request_is_flexible:
            position = skip_header_tags(frame, position)
        context = RequestContext(self.broker, INFO, version, header.client_id, free_work())
        try:
            decoded, _ = served_by.decode(frame, position)
            with patch.object(produce, "append_plain", self._append_plain):
                response = served_by.handle(decoded, context)
        except (KafkaError, MalformedRequest) as error:
            return type(error)
        assert not isinstance(response, Unfinished)
        if response is None:
            return None
        outbox = Outbox(None, None)
        encode_response(served_by, response, header.correlation_id, *outbox.buffers)
        return bytes(outbox.buffers[0])

    def log_bytes(self):
        """Everything that was appended."""
        segments = [
            self.broker.partition(name, index).log.active
            for name in self.topic_ids
            for index in range(PARTITIONS)
        ]
        return [(s.path(".log").read_bytes(), s.offset_index.entries) for s in segments]


def some_batch(random, sequences, now_ms):
    """A batch that is plain, or nearly."""
    count = random.choice([1, 1, 1, 2, 9, 30])
    builder = BatchBuilder()
    for _ in range(count):
        headers = (("h", b"v"),) if random.random() < 0.1 else ()
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
    return bytes(batch)


def some_request(random, sequences, now_ms):
    """A request that is common, or nearly."""
    data = PartitionProduceData(
        index=random.choice([0] * 8 + [PARTITIONS]), records=some_batch(random, sequences, now_ms)
    )
    copies = random.choice([1] * 9 + [2])
    name = random.choice([NAME] * 8 + ["nowhere", "__consumer_offsets"])
    return ProduceRequest(
        transactional_id=random.choice([None] * 9 + ["t"]),
        acks=random.choice([-1, -1, -1, 1, 1, 0, 2]),
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=name, partition_data=[data] * copies)],
    )


def plain_batch_of(random, sequences, now_ms):
    """A plain batch, perhaps of a producer that doesn't go on where it was."""
    builder = BatchBuilder()
    for _ in range(random.choice([1, 2, 20])):
        builder.add(now_ms, b"key", random.randbytes(random.choice([5, 50, 200, 20_000])))
    producer = ProducerState()
    if random.random() < 0.3:
        producer = ProducerState(4711, 0, random.choice([0, sequences[0]]))
        sequences[0] += 1
    return bytes(builder.build(producer=producer))


def some_large_request(random, sequences, now_ms):
    """A request for several partitions, most of which takes the fast path as a whole."""
    is_odd = random.random() < 0.2
    some = some_batch if is_odd else plain_batch_of
    names = random.choices([*NAMES, "nowhere"] if is_odd else NAMES, k=random.choice([1, 2, 3]))
    indexes = range(PARTITIONS + is_odd)
    topics = [
        TopicProduceData(
            name=name,
            partition_data=[
                PartitionProduceData(
                    index=random.choice(indexes), records=some(random, sequences, now_ms)
                )
                for _ in range(random.choice([0, 1, 2, 5]))
            ],
        )
        for name in names
    ]
    acks = random.choice([-1, -1, 1, 0, 2]) if is_odd else random.choice([-1, 1])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


async def create(server, **configs):
    """The topics."""
    for name in NAMES:
        await server.topic(name, PARTITIONS, **configs)


async def two_sides(a, b, **configs):
    """Two brokers with the same topics: one appends in one step what it can, the other nothing."""
    now_ms = a.broker.now_ms()
    for server in (a, b):
        await create(server, **configs)
    return Side(a.broker, now_ms, in_one_step=True), Side(b.broker, now_ms, in_one_step=False)


def assert_alike(answer, expected, one, other):
    """Both have the same answers, but for the ids of their topics."""
    if isinstance(answer, bytes) and isinstance(expected, bytes):
        for name, topic_id in one.topic_ids.items():
            answer = answer.replace(topic_id, other.topic_ids[name])
    assert answer == expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("some", [some_request, some_large_request])
async def test_both_ways_answer_and_append_the_same(tmp_path, version, some):
    random = Random(version)
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        one, other = await two_sides(a, b)
        now_ms = a.broker.now_ms()
        sequences = [0]
        for _ in range(150):
            request = some(random, sequences, now_ms)
            assert_alike(one.ask(request, version), other.ask(request, version), one, other)
        assert one.log_bytes() == other.log_bytes()
    assert one.taken > 9
    assert other.taken == 0


async def test_many_partitions_are_appended_in_one_step_each(tmp_path):
    """Whatever acknowledgements are asked for."""
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        one, other = await two_sides(a, b, **{"min.insync.replicas": "2"})
        now_ms = a.broker.now_ms()
        batches = [plain_batch_of(Random(seed), [5], now_ms) for seed in range(PARTITIONS)]
        for place, acks in enumerate((1, 1, -1, 1)):  # the first batch of a log makes files
            data = [
                PartitionProduceData(index=index, records=batch)
                for index, batch in enumerate(batches)
            ]
            topics = [TopicProduceData(name=name, partition_data=data) for name in NAMES]
            request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
            before = one.taken
            assert one.ask(request, 12) == other.ask(request, 12)
            assert (one.taken > before) == (place > 0)
        assert one.log_bytes() == other.log_bytes()


async def test_a_partition_may_occur_twice(tmp_path):
    """The second batch follows the first."""
    async with running_server(tmp_path) as server:
        await create(server)
        side = Side(server.broker, server.broker.now_ms(), in_one_step=True)
        batch = plain_batch_of(Random(1), [5], server.broker.now_ms())
        data = [PartitionProduceData(index=0, records=batch) for _ in range(3)]
        topic = TopicProduceData(name=NAME, partition_data=data)
        side.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 12)
        assert side.taken >= 2, "the first batch of a log makes files"
        assert server.broker.partition(NAME, 0).log.log_end_offset % 3 == 0


VALUES = (0, 1, 2, 3, 0x7F, 0x80, 0xFF)


def changed(frame, begin):
    """Every frame that differs in one byte from ``begin`` on."""
    for place in range(begin, len(frame)):
        for value in {*VALUES, frame[place] ^ 1} - {frame[place]}:
            other = bytearray(frame)
            other[place] = value
            yield memoryview(other)


def known(side):
    """What is known of the partitions."""
    return [
        (name, index, p.high_watermark, p.log.log_end_offset, p.log.log_start_offset, p.flush)
        for name in side.topic_ids
        for index in range(PARTITIONS)
        for p in [side.broker.partition(name, index)]
    ]


@pytest.mark.parametrize("partitions", [1, 2])
async def test_each_byte_of_a_request_counts(tmp_path, partitions):
    """Whatever byte is another one, both ways say and do the same."""
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        one, other = await two_sides(a, b)
        batch = plain_batch_of(Random(3), [5], a.broker.now_ms())
        data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
        topics = [TopicProduceData(name=NAME, partition_data=data)]
        frame = one.frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 12)
        begin = skip_header_tags(frame, decode_request_header(frame)[1])
        for changed_frame in [frame, frame, *changed(frame, begin)]:
            copy = memoryview(bytearray(changed_frame))
            assert one.served(changed_frame) == other.served(copy), bytes(copy[begin:])
            assert known(one) == known(other)
        assert one.taken
        assert one.log_bytes() == other.log_bytes()
