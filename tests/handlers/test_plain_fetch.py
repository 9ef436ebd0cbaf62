"""The fast path of Fetch answers the same bytes as its slow twin, or leaves the request to it."""

from collections import Counter
from random import Random

from kwire.connection.outbox import Outbox
from kwire.dispatch.encoding import encode_response
from kwire.dispatch.routes import route
from kwire.handlers import plain_fetch
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Slow, Unfinished
from kwire.log.validation import AppendOrigin
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import decode_request_header, encode_request, skip_header_tags
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import NO_PRODUCER, BatchBuilder, ProducerState
from tests.support.in_process import running_server
from tests.support.page_cache import PageCache
from tests.support.work import free_work

INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
NAMES = ("orders", "payments")
UNKNOWN_ID = bytes(15) + b"?"
PARTITIONS = 12
VERSIONS = (12, 13, 14, 15, 16, 17, 18)
TIMESTAMP = 1_700_000_000_000


class Side:
    """A broker, asked by one way and by the other."""

    def __init__(self, broker):
        self.broker = broker
        self.sequences = {}
        self.seen = {name: topic.topic_id for name, topic in broker.image.topics_by_name.items()}

    def frame(self, request, version):
        """The request as it is on the wire, with this broker's topic ids."""
        for topic in request.topics:
            topic.topic_id = self.seen.get(topic.topic, UNKNOWN_ID)
        return memoryview(bytearray(encode_request(request, version, 77, "test")))[4:]

    def fast(self, request, version):
        """What the fast path answers, or ``Later``; None where its twin has to."""
        frame = self.frame(request, version)
        header, position = decode_request_header(frame)
        if version >= plain_fetch.FLEXIBLE_SINCE:
            position = skip_header_tags(frame, position)
        return self.served_fast(frame, position, header)

    def served_fast(self, frame, position, header):
        """What the fast path answers to a frame, as ``fast``."""
        answer = plain_fetch.answer(frame, position, header, self.broker, INFO)

        def encoded(parts):
            if isinstance(parts, Slow):
                return self.served_slowly(parts.frame, parts.position, header)
            outbox = Outbox(None, None)
            outbox.append_plain(parts)
            return whole(outbox)

        if answer is None:
            return None
        return Later(answer, encoded) if isinstance(answer, Unfinished) else encoded(answer)

    def slow(self, request, version):
        """What the handler answers, or ``Later``."""
        frame = self.frame(request, version)
        header, position = decode_request_header(frame)
        return self.served_slowly(frame, skip_header_tags(frame, position), header)

    def served_slowly(self, frame, position, header):
        """What the handler answers to a frame."""
        version = header.api_version
        served_by = route(1, version)
        decoded, _ = served_by.decode(frame, position)
        context = RequestContext(self.broker, INFO, version, header.client_id, free_work())
        response = served_by.handle(decoded, context)

        def encoded(response):
            outbox = Outbox(None, None)
            encode_response(served_by, response, header.correlation_id, *outbox.buffers)
            return whole(outbox)

        return Later(response, encoded) if isinstance(response, Unfinished) else encoded(response)

    def append(self, random):
        """Write something to a partition: records, or a piece of a transaction, or its end."""
        partition = self.broker.partition(random.choice(NAMES), random.randrange(PARTITIONS))
        producer_id = random.randint(1, 3)
        key = (partition, producer_id)
        kind = random.choice(["records", "transaction", "transaction", "end"])
        if kind == "end" and key in self.sequences:
            marker = end_transaction_marker(
                random.choice([ControlType.ABORT, ControlType.COMMIT]),
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=TIMESTAMP,
            )
            partition.append(marker, now_ms=TIMESTAMP, origin=AppendOrigin.COORDINATOR)
            return
        builder = BatchBuilder()
        count = random.choice([1, 1, 3, 20])
        for _ in range(count):
            builder.add(TIMESTAMP, None, random.randbytes(random.choice([10, 500, 3000])))
        state = NO_PRODUCER
        if kind == "transaction":
            state = ProducerState(producer_id, 0, self.sequences.get(key, 0))
            self.sequences[key] = state.base_sequence + count
        batch = builder.build(producer=state, transactional=kind == "transaction")
        partition.append(batch, now_ms=TIMESTAMP)


class Later:
    """A request that waits."""

    def __init__(self, unfinished, encoded):
        self._unfinished = unfinished
        self._encoded = encoded

    def end(self):
        """What is answered when time is up, or sooner if there was enough before."""
        response = self._unfinished
        while response is self._unfinished:
            response.waits_for.is_late = not response.waits_for.is_set
            response = response.go_on()
        return self._encoded(response)


def whole(outbox):
    """The bytes of a response, its slices read."""
    out, at = b"", 0
    for position, part in outbox._slices:
        out += outbox.buffers[0][at:position]
        with open(part.fd, "rb", closefd=False) as file:
            file.seek(part.position)
            out += file.read(part.size_bytes)
        at = position
    return bytes(out + outbox.buffers[0][at:])


async def create(server):
    """The topics; their segments are small, so that there are several."""
    for name in NAMES:
        await server.topic(name, PARTITIONS, segment_bytes=1 << 20, index_interval_bytes=2000)
    return Side(server.broker)


def some_partition(random, broker, name, index):
    """A place in a partition: mostly its end, sometimes where there is nothing."""
    partition = broker.partition_if_served(name, index)
    log_end = partition.log.log_end_offset if partition else 0
    stable = partition.last_stable_offset if partition else 0
    start = partition.log.log_start_offset if partition else 0
    offset = random.choice([log_end] * 6 + [stable] * 4 + [start, random.randint(0, log_end + 1)])
    if random.random() < 0.03:
        offset = random.choice([-1, log_end + 1, start - 1])
    return FetchPartition(
        partition=index,
        current_leader_epoch=random.choice([-1] * 60 + [0] * 60 + [1]),
        fetch_offset=offset,
        partition_max_bytes=random.choice([0, 100, 5000, 1_000_000, 1_000_000]),
        replica_directory_id=UNKNOWN_ID if random.random() < 0.002 else bytes(16),
        high_watermark=7 if random.random() < 0.002 else 0x7FFFFFFFFFFFFFFF,
    )


def some_request(random, side):
    """A request that is common, or nearly."""
    topics = []
    for name in random.choice([["orders"], ["payments"], NAMES, ["orders", "payments", "orders"]]):
        indexes = random.sample(range(PARTITIONS), random.choice([0, 1, 1, 2, 5, 5, 12]))
        indexes += [PARTITIONS] * (random.random() < 0.02)
        wanted = [some_partition(random, side.broker, name, index) for index in indexes]
        name = name if random.random() < 0.98 else "nowhere"
        topics.append(FetchTopic(topic=name, partitions=wanted))
    return FetchRequest(
        max_wait_ms=1000,
        min_bytes=random.choice([0, 0, 1, 5000]),
        max_bytes=random.choice([0, 1, 3000, 10_000_000, 10_000_000, 10_000_000]),
        isolation_level=random.choice([0, 1]),
        session_id=random.choice([0] * 30 + [5]),
        session_epoch=random.choice([-1] * 30 + [0]),
        topics=topics,
        forgotten_topics_data=[ForgottenTopic(topic="orders", partitions=[1])]
        if random.random() < 0.02
        else [],
        rack_id=random.choice(["", "", "rack", "r" * 200]),
    )


async def test_both_ways_answer_the_same(tmp_path):
    random = Random(7)
    taken, waited = Counter(), Counter()
    async with running_server(tmp_path) as server:
        side = await create(server)
        for _ in range(700):
            for _ in range(random.choice([0, 0, 1, 5])):
                side.append(random)
            if random.random() < 0.1:
                partition = side.broker.partition(NAMES[0], random.randrange(PARTITIONS))
                partition.delete_records(random.randint(0, partition.high_watermark))
            request, version = some_request(random, side), random.choice(VERSIONS)
            expected = side.slow(request, version)
            answer = side.fast(request, version)
            if request.session_id or request.session_epoch != -1:
                assert answer is None
            elif isinstance(answer, Later):
                waited[version] += 1
                for _ in range(random.choice([0, 1, 50])):
                    side.append(random)
                assert answer.end() == expected.end()
            elif answer is not None:
                taken[version] += 1
                assert answer == expected
            elif isinstance(expected, Later):
                expected.end()
        assert not any(partition.waiters for partition in side.broker.partitions())
    assert min(taken[version] for version in VERSIONS) > 15
    assert waited.total() > 30


async def test_one_that_waits_goes_to_the_twin_when_it_is_not_common_any_more(tmp_path):
    async with running_server(tmp_path) as server:
        side = await create(server)
        place = FetchPartition(partition=0, partition_max_bytes=1000)
        topic = FetchTopic(topic=NAMES[0], partitions=[place])
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=10_000, topics=[topic])
        for version in VERSIONS:
            waiting, expected = side.fast(request, version), side.slow(request, version)
            partition = side.broker.partition(NAMES[0], 0)
            assert len(partition.waiters) == 2
            partition.leader_epoch += 1
            partition.wake()
            assert waiting.end() == expected.end()
            place.current_leader_epoch = partition.leader_epoch
            assert not partition.waiters


async def test_what_the_fast_path_leaves_to_its_twin(tmp_path, monkeypatch):
    async with running_server(tmp_path) as server:
        side = await create(server)
        random = Random(1)
        for _ in range(100):
            side.append(random)
        written = next(p for p in side.broker.partitions() if p.log.log_end_offset)
        place = FetchPartition(partition=written.index, partition_max_bytes=1000)
        topic = FetchTopic(topic=written.topic, partitions=[place])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=10_000, topics=[topic])
        assert side.fast(request, 12) == side.slow(request, 12)

        place.fetch_offset = written.high_watermark
        assert side.fast(request, 12).end() == side.slow(request, 12).end(), "nothing has come"
        request.min_bytes = 0
        assert side.fast(request, 12) == side.slow(request, 12)
        place.current_leader_epoch = 9
        assert side.fast(request, 12) is None, "an error"
        place.current_leader_epoch = -1
        request.replica_id = 1
        assert side.fast(request, 12) is None, "a follower"
        request.replica_id = -1
        assert side.fast(request, 11) is None, "an old version"

        place.fetch_offset = 0
        assert side.fast(request, 12) is not None
        PageCache(monkeypatch)
        assert side.fast(request, 12) is None, "the disk has to be waited for"
        monkeypatch.undo()
        client = await server.connect()
        deletion = DeleteTopicsRequest(topic_names=list(NAMES), timeout_ms=1000)
        await client.request(deletion, 5, DeleteTopicsResponse)
        await client.aclose()
        assert side.fast(request, 12) is None, "it is gone"


async def test_a_frame_cut_anywhere_is_left_to_the_twin(tmp_path):
    async with running_server(tmp_path) as server:
        side = await create(server)
        topics = [
            FetchTopic(topic=name, partitions=[FetchPartition(partition=n) for n in range(2)])
            for name in NAMES
        ]
        for version in VERSIONS:
            frame = side.frame(FetchRequest(max_wait_ms=0, topics=topics, rack_id="here"), version)
            header, position = decode_request_header(frame)
            position = skip_header_tags(frame, position)
            whole_answer = plain_fetch.answer(frame, position, header, side.broker, INFO)
            assert whole_answer is not None
            assert not any(isinstance(part, FileSlice) for part in whole_answer)
            for end in range(position, len(frame)):
                assert plain_fetch.answer(frame[:end], position, header, side.broker, INFO) is None
