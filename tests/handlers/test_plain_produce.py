"""The fast path of Produce answers and appends the same bytes as its slow twin, or leaves it be."""

from contextlib import asynccontextmanager
from random import Random

import pytest
from crc32c import crc32c

from kwire.connection.outbox import Outbox
from kwire.errors import KafkaError
from kwire.handlers import plain_produce, route
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Unfinished
from kwire.protocol.frame import decode_request_header, encode_request, skip_header_tags
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.in_process import running_server
from tests.support.work import free_work

INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
NAME = "orders"
NAMES = [NAME, "bills"]
PARTITIONS = 3
UNKNOWN_ID = bytes(15) + b"?"
VERSIONS = (9, 10, 11, 12, 13)


class Side:
    """A broker, and what it answers by one way or the other."""

    def __init__(self, broker, now_ms):
        self.broker = broker
        broker.now_ms = lambda: now_ms
        topics = broker.image.topics_by_name
        self.topic_ids = {name: topics[name].topic_id for name in NAMES if name in topics}

    def frame(self, request, version):
        """The request as it is on the wire, with this broker's topic ids."""
        for topic in request.topic_data:
            topic.topic_id = self.topic_ids.get(topic.name, UNKNOWN_ID)
        return memoryview(bytearray(encode_request(request, version, 77, "test")))[4:]

    def fast(self, request, version):
        """What the fast path answers, None where it leaves the request to its twin."""
        frame = self.frame(request, version)
        header, position = decode_request_header(frame)
        position = skip_header_tags(frame, position)
        before = bytes(frame)
        answer = plain_produce.answer(frame, position, header, self.broker, INFO)
        assert answer is not None or bytes(frame) == before
        return answer

    def slow(self, request, version):
        """What the handler answers."""
        return self.served_slowly(self.frame(request, version))

    def served_slowly(self, frame):
        """What the handler answers to a frame."""
        header, position = decode_request_header(frame)
        version = header.api_version
        served_by = route(0, version)
        decoded, _ = served_by.decode(frame, skip_header_tags(frame, position))
        context = RequestContext(self.broker, INFO, version, header.client_id, free_work())
        try:
            response = served_by.handle(decoded, context)
            while isinstance(response, Unfinished):
                response = response.go_on()  # it waits for its next slice, which nobody else wants
        except KafkaError as error:
            return error.code
        if response is None:
            return None
        outbox = Outbox(None, None)
        outbox.append(served_by, response, header.correlation_id)
        return bytes(outbox._out)

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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("some", [some_request, some_large_request])
async def test_both_ways_answer_and_append_the_same(tmp_path, version, some):
    random = Random(version)
    taken = 0
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        await create(a)
        await create(b)
        now_ms = a.broker.now_ms()
        fast, slow = Side(a.broker, now_ms), Side(b.broker, now_ms)
        sequences = [0]
        for _ in range(150):
            request = some(random, sequences, now_ms)
            answer = fast.fast(request, version)
            taken += answer is not None
            if answer is None:
                answer = fast.slow(request, version)
            expected = slow.slow(request, version)
            if isinstance(answer, bytes) and isinstance(expected, bytes):
                for name, topic_id in fast.topic_ids.items():
                    answer = answer.replace(topic_id, slow.topic_ids[name])
            assert answer == expected
        assert fast.log_bytes() == slow.log_bytes()
    assert taken > 9


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


async def test_errors_of_single_partitions_are_told_among_many(tmp_path):
    """The request is served as a whole; what isn't appended in one step goes the twin's way."""
    async with running_server(tmp_path / "a") as a, running_server(tmp_path / "b") as b:
        for server in (a, b):
            await create(server, **{"min.insync.replicas": "2"})
        now_ms = a.broker.now_ms()
        fast, slow = Side(a.broker, now_ms), Side(b.broker, now_ms)
        batches = [plain_batch_of(Random(seed), [5], now_ms) for seed in range(PARTITIONS)]
        for side in (fast, slow):
            begin_logs(side)
        for acks in (1, -1):
            data = [
                PartitionProduceData(index=index, records=batch)
                for index, batch in enumerate(batches)
            ]
            topics = [TopicProduceData(name=name, partition_data=data) for name in NAMES]
            request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
            for _ in range(3):
                assert fast.fast(request, 12) == slow.slow(request, 12)
        assert fast.log_bytes() == slow.log_bytes()


def request_for(batches):
    """A request with these batches for partition 0, 1, …"""
    data = [PartitionProduceData(index=n, records=batch) for n, batch in enumerate(batches)]
    topic = TopicProduceData(name=NAME, partition_data=data)
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def same_batch(now_ms, record_bytes, records=1):
    """A plain batch of equal records."""
    builder = BatchBuilder()
    for _ in range(records):
        builder.add(now_ms, None, bytes(record_bytes))
    return bytes(builder.build())


def begin_logs(side):
    """Append a batch to each partition: the twin does that, because it makes files."""
    batch = same_batch(side.broker.now_ms(), 1)
    for name in side.topic_ids:
        request = request_for([batch] * len(side.broker.image.topics_by_name[name].partitions))
        request.topic_data[0].name = name
        assert side.fast(request, 12) is None
        side.slow(request, 12)


def end_offsets(side, name=NAME):
    """Where the logs of a topic end."""
    partitions = side.broker.image.topics_by_name[name].partitions
    return [side.broker.partition(name, n).log.log_end_offset for n in range(len(partitions))]


@asynccontextmanager
async def many_partitions(directory, partitions, **configs):
    """A side with one topic, whose partitions have a batch each."""
    async with running_server(directory) as server:
        await server.topic(NAME, partitions, **configs)
        side = Side(server.broker, server.broker.now_ms())
        begin_logs(side)
        yield side


def is_left_to_the_twin(side, request):
    """Whether the fast path refuses a request and appends nothing."""
    before = end_offsets(side)
    answer = side.fast(request, 12)
    return answer is None and end_offsets(side) == before


@pytest.mark.parametrize(
    ("partitions", "record_bytes", "records", "is_taken"),
    [
        (100, 100, 1, True),
        (100, 10, 5, True),
        (100, 10, 8, False),  # so few records are read one by one
        (100, 10, 9, True),  # the header is trusted
        (200, 100, 1, False),
        (4, 100_000, 1, True),
        (4, 900_000, 1, False),
    ],
)
async def test_a_request_that_takes_longer_than_a_slice_is_left_to_the_twin(
    tmp_path, partitions, record_bytes, records, is_taken
):
    async with many_partitions(tmp_path, partitions) as side:
        batch = same_batch(side.broker.now_ms(), record_bytes, records)
        request = request_for([batch] * partitions)
        assert is_left_to_the_twin(side, request) is not is_taken
        if is_taken:
            assert end_offsets(side) == [1 + records] * partitions


async def test_many_topics_without_partitions_are_left_to_the_twin(tmp_path):
    """Each of them costs some time, too."""
    async with many_partitions(tmp_path, 2) as side:
        request = request_for([same_batch(side.broker.now_ms(), 1)])
        empty = TopicProduceData(name=NAME, partition_data=[])
        request.topic_data += [empty] * 100
        assert not is_left_to_the_twin(side, request)
        request.topic_data += [empty] * 300
        assert is_left_to_the_twin(side, request)


async def test_a_partition_that_occurs_twice_is_left_to_the_twin(tmp_path):
    """Else each batch would have to be compared with the log as the others leave it."""
    async with many_partitions(tmp_path, 2) as side:
        request = request_for([same_batch(side.broker.now_ms(), 1)] * 2)
        data = request.topic_data[0].partition_data
        data[1].index = 0
        assert is_left_to_the_twin(side, request)
        once = [TopicProduceData(name=NAME, partition_data=[one]) for one in data]
        request.topic_data = once
        assert is_left_to_the_twin(side, request)
        data[1].index = 1
        assert not is_left_to_the_twin(side, request)


@pytest.mark.parametrize(
    ("configs", "later_ms", "record_bytes"),
    [({"segment_ms": "1"}, 10, 1), ({"segment_bytes": "1048576"}, 0, 300_000)],
)
async def test_a_batch_that_begins_a_segment_is_left_to_the_twin(
    tmp_path, configs, later_ms, record_bytes
):
    """To make the files of one takes longer than a slice."""
    async with many_partitions(tmp_path, 2, **configs) as side:
        now_ms = side.broker.now_ms()
        rolled = False
        for n in range(1, 5):
            batch = same_batch(now_ms + later_ms * n, record_bytes)
            request = request_for([batch, same_batch(now_ms, 1)])
            log = side.broker.partition(NAME, 0).log
            active = log.active
            if is_left_to_the_twin(side, request):
                side.slow(request, 12)
                assert log.active is not active
                rolled = True
            assert rolled or log.active is active
        assert rolled


async def test_the_first_batch_of_a_leader_epoch_is_left_to_the_twin(tmp_path):
    """It is noted in a file."""
    async with many_partitions(tmp_path, 2) as side:
        request = request_for([same_batch(side.broker.now_ms(), 1)] * 2)
        assert not is_left_to_the_twin(side, request)
        side.broker.partition(NAME, 1).leader_epoch += 1
        assert is_left_to_the_twin(side, request)
        side.slow(request, 12)
        assert not is_left_to_the_twin(side, request)


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_frame_cut_anywhere_is_left_to_the_twin(tmp_path, partitions):
    async with running_server(tmp_path) as server:
        await create(server)
        side = Side(server.broker, server.broker.now_ms())
        begin_logs(side)
        request = request_for([same_batch(side.broker.now_ms(), 1)] * partitions)
        frame = side.frame(request, 12)
        header, position = decode_request_header(frame)
        position = skip_header_tags(frame, position)
        for end in range(position, len(frame)):
            assert plain_produce.answer(frame[:end], position, header, side.broker, INFO) is None
        assert plain_produce.answer(frame, position, header, side.broker, INFO) is not None
