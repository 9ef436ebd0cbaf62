"""Dead letters of share groups (KIP-1191): which records get one, where it is, and what it says."""

import tracemalloc

import pytest

from kwire.broker.share_dead_letters import ShareDeadLetters
from kwire.broker.share_history import ShareHistory
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.share.dead_letters import DeadLetters
from kwire.share.key import SharePartitionKey
from kwire.share.run import ARCHIVED, ARCHIVING
from kwire.share.state_batches import StateBatch
from kwire.share.state_coordinator import StateWrite
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    ShareMember,
    acquired,
    begin_group,
    configure,
)

GROUP, TOPIC, DEAD = "workers", "orders", "dlq.orders"
NAME, COPY = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
ENABLE = "errors.deadletterqueue.group.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
REJECTED, EXCEEDED = (
    b"Offset rejected by client.",
    b"Offset delivery count exceeded the threshold.",
)
LONG_MS = 600_000
GZIP = 1
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.delivery.count.limit": "2",
    AUTO_CREATE: "true",
}


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders`` of two partitions."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC, partitions=2)
        yield running


@pytest.fixture
async def member(server):
    """A member of the group, whose dead letters have a topic."""
    topic_id = await begin_group(server, GROUP, TOPIC)
    await configure(server, GROUP, NAME, DEAD)
    return ShareMember(await server.connect(), GROUP, "first", topic_id)


def served(server, index: int = 0):
    """The share partition."""
    loaded = server.broker.share_partitions.loaded()
    [found] = [one for one in loaded if one.partition.index == index]
    return found


async def dead_letters(server, count: int, partition: int = 0) -> list:
    """The dead letters in a partition, as soon as there are so many."""

    def end() -> int:
        found = server.broker.partition_if_served(DEAD, partition)
        return -1 if found is None else found.high_watermark

    await until(lambda: end() >= count)
    found = await server.records(DEAD, partition=partition)
    assert len(found) == count
    return found


async def start_offset(server, offset: int, index: int = 0) -> None:
    """Wait until the group is done with the records before an offset, persistently."""
    share = served(server, index).share
    await until(lambda: share.start_offset == offset and not share.has_unwritten)
    topic_id = server.broker.image.topics_by_name[TOPIC].topic_id
    key = SharePartitionKey(GROUP, topic_id, index)
    assert (await server.broker.persister.read_summary(key)).start_offset == offset


async def test_a_rejected_record_has_a_dead_letter_that_names_it(server, member):
    await server.produce(TOPIC, b"one", b"two", b"three")
    await member.fetch(partitions=(0, 1))
    await member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [REJECT]), (2, 2, [ACCEPT])]})
    [letter] = await dead_letters(server, 1)
    assert (letter.key, letter.value) == (None, None)
    assert dict(letter.headers) == {
        "__dlq.errors.topic": TOPIC.encode(),
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": GROUP.encode(),
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": REJECTED,
    }
    assert letter.timestamp == pytest.approx(server.broker.now_ms(), abs=LONG_MS)
    await start_offset(server, 3)
    assert server.broker.share_partitions.dead_letters.written == 1


async def test_a_topic_that_was_missing_is_made_for_dead_letters(server, member):
    await server.produce(TOPIC, b"one")
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 0, [REJECT])]})
    await dead_letters(server, 1)
    own = server.broker.image.config(ConfigResourceType.TOPIC, DEAD)
    assert dict(own) == {ENABLE: "true", "message.timestamp.type": "CreateTime"}


async def test_a_copy_has_key_value_and_headers(server, member):
    await configure(server, GROUP, COPY, "true")
    await server.produce(TOPIC, (b"k", b"one"), b"two", headers=(("h", b"x"),))
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 1, [REJECT])]})
    letters = await dead_letters(server, 2)
    assert [(one.key, one.value) for one in letters] == [(b"k", b"one"), (None, b"two")]
    assert all(one.headers[0] == ("h", b"x") for one in letters)
    assert [dict(one.headers)["__dlq.errors.offset"] for one in letters] == [b"0", b"1"]


async def test_a_copy_that_is_too_large_is_left_out(server, member):
    await configure(server, GROUP, COPY, "true")
    await server.topic(DEAD, partitions=1, **{ENABLE: "true", "max.message.bytes": "5000"})
    await server.produce(TOPIC, b"s" * 100, b"l" * 6000, b"m" * 4000, b"n" * 4000)
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 3, [REJECT])]})
    letters = await dead_letters(server, 4)
    assert [len(one.value or b"") for one in letters] == [100, 0, 4000, 4000]


async def test_the_last_delivery_without_success_has_a_dead_letter(server, member):
    """It is released, or its lock ends: the cause is the same."""
    await server.produce(TOPIC, b"one", b"two")
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 1, [RELEASE])]})
    assert acquired(await member.fetch()) == [(0, 1, 2)]
    await member.acknowledge({0: [(0, 0, [RELEASE])]})
    manager = server.broker.share_partitions
    served(server).share.expire(manager.now_ms() + LONG_MS)
    manager.write(served(server))
    letters = await dead_letters(server, 2)
    for offset, letter in zip((b"0", b"1"), letters, strict=True):
        headers = dict(letter.headers)
        assert headers["__dlq.errors.offset"] == offset
        assert headers["__dlq.errors.delivery.count"] == b"2"
        assert headers["__dlq.errors.message"] == EXCEEDED
    await start_offset(server, 2)


async def test_gaps_and_released_records_have_none(server, member):
    await server.produce(TOPIC, b"one", b"two", b"three")
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 2, [0, RELEASE, REJECT])]})
    [letter] = await dead_letters(server, 1)
    assert dict(letter.headers)["__dlq.errors.offset"] == b"2"


async def test_a_partition_has_a_partition_for_its_dead_letters(server, member):
    """Partition n writes to n, modulo their number."""
    await server.topic(DEAD, partitions=2, **{ENABLE: "true"})
    for index in (0, 1):
        await server.produce(TOPIC, b"one", partition=index)
    await member.fetch(partitions=(0, 1))
    await member.acknowledge({index: [(0, 0, [REJECT])] for index in (0, 1)})
    for index in (0, 1):
        [letter] = await dead_letters(server, 1, index)
        assert dict(letter.headers)["__dlq.errors.partition"] == b"%d" % index


@pytest.mark.parametrize(
    ("name", "is_made", "says"),
    [
        ("orders.dead", True, "does not begin with dlq."),
        (DEAD, True, "takes no dead letters"),
        (DEAD, False, "is missing"),
    ],
)
async def test_a_topic_that_may_not_be_used_gets_nothing(tmp_path, caplog, name, is_made, says):
    """The records are archived all the same, as in Kafka, and the log says why."""
    settings = SETTINGS | {AUTO_CREATE: "false"}
    async with running_server(tmp_path, settings) as server:
        await server.topic(TOPIC)
        if is_made:
            await server.topic(name)
        topic_id = await begin_group(server, GROUP, TOPIC)
        await configure(server, GROUP, NAME, name)
        member = ShareMember(await server.connect(), GROUP, "first", topic_id)
        await server.produce(TOPIC, b"one", b"two")
        await member.fetch(partitions=(0,))
        await member.acknowledge({0: [(0, 0, [REJECT])]})
        await start_offset(server, 1)
        await member.acknowledge({0: [(1, 1, [REJECT])]})
        await start_offset(server, 2)
        assert caplog.text.count(says) == 1
        assert server.broker.share_partitions.dead_letters.refused == 2
        if is_made:
            assert await server.end_offset(name) == 0


async def test_the_brokers_settings_act_while_it_runs(tmp_path):
    """Topics are created from then on, and names may begin otherwise."""
    settings = SETTINGS | {AUTO_CREATE: "false"}
    async with running_server(tmp_path, settings) as server:
        await server.topic(TOPIC)
        topic_id = await begin_group(server, GROUP, TOPIC)
        await configure(server, GROUP, NAME, "dead.orders")
        member = ShareMember(await server.connect(), GROUP, "first", topic_id)
        await server.produce(TOPIC, b"one", b"two", b"three")
        await member.fetch(partitions=(0,))
        letters = server.broker.share_partitions.dead_letters
        for offset, name, value in ((0, PREFIX, "dead."), (1, AUTO_CREATE, "true")):
            await member.acknowledge({0: [(offset, offset, [REJECT])]})
            await start_offset(server, offset + 1)
            assert (letters.written, letters.refused) == (0, offset + 1)
            await configure(server, "", name, value, ConfigResourceType.BROKER)
        await member.acknowledge({0: [(2, 2, [REJECT])]})
        await start_offset(server, 3)
        assert (letters.written, await server.end_offset("dead.orders")) == (1, 1)


async def test_a_new_leader_writes_the_dead_letters_that_may_be_missing(server, member):
    """Its predecessor was killed after it had noted that the records are dead."""
    topic_id = server.broker.image.topics_by_name[TOPIC].topic_id
    key = SharePartitionKey(GROUP, topic_id, 0)
    await server.produce(TOPIC, b"one", b"two", b"three", b"four")
    batches = [StateBatch(0, 0, ARCHIVING, 1), StateBatch(1, 1, ARCHIVED, 1)]
    batches.append(StateBatch(2, 2, ARCHIVING, 2))
    await server.broker.persister.write(key, StateWrite(0, 0, 0, 1, batches))
    assert acquired(await member.fetch(partitions=(0,))) == [(3, 3, 1)]
    letters = [dict(one.headers) for one in await dead_letters(server, 2)]
    assert [one["__dlq.errors.offset"] for one in letters] == [b"0", b"2"]
    assert [one["__dlq.errors.message"] for one in letters] == [REJECTED, EXCEEDED]
    await start_offset(server, 3)


async def test_dead_letters_that_may_be_missing_are_written_without_a_member(tmp_path):
    """After a restart: nobody has to fetch for it."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.topic(TOPIC)
        topic_id = await begin_group(server, GROUP, TOPIC)
        await configure(server, GROUP, NAME, DEAD)
        key = SharePartitionKey(GROUP, topic_id, 0)
        await server.produce(TOPIC, b"one", b"two")
        batches = [StateBatch(1, 1, ARCHIVING, 2)]
        await server.broker.persister.write(key, StateWrite(0, 0, 0, 0, batches))
    async with running_server(tmp_path, SETTINGS) as server:
        [letter] = await dead_letters(server, 1)
        assert dict(letter.headers)["__dlq.errors.offset"] == b"1"
        await until(lambda: not server.broker.share_partitions.loaded())
        state = await server.broker.persister.read(key, 1 << 20)
        assert [tuple(one) for one in state.batches] == [(1, 1, ARCHIVED, 2)]
        await until(lambda: not server.broker.share_states.loaded()[0].coordinator.archiving)


class Odd:
    """A broker that at first refuses to have a partition, with an error that says nothing."""

    def __init__(self, broker) -> None:
        self.broker = broker
        self.refusals = 2

    def __getattr__(self, name):
        return getattr(self.broker, name)

    def partition(self, topic, index):
        """The partition."""
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.broker.partition(topic, index)


async def test_an_error_that_says_nothing_loses_no_dead_letter(server, member, caplog):
    """The log says once what the dead letters wait for."""
    await server.topic(DEAD, partitions=1, **{ENABLE: "true"})
    odd = Odd(server.broker)
    letters = ShareDeadLetters(odd, ShareHistory())
    source = server.broker.partition(TOPIC, 0)
    assert await letters.write(GROUP, source, DeadLetters(0, 0, 1, True), lambda: True)
    assert (odd.refusals, letters.written, letters.refused) == (0, 1, 0)
    assert len(await dead_letters(server, 1)) == 1
    assert caplog.text.count("have to wait: UNKNOWN_SERVER_ERROR") == 1


async def test_copies_with_large_headers_are_not_all_in_memory_at_once(server, member):
    """Compressed, they are small: what a client writes must not cost the broker so much more."""
    await configure(server, GROUP, COPY, "true")
    headers = (("h", b"x" * 300_000),)
    for _ in range(60):
        await server.produce(TOPIC, b"v", headers=headers, compression=GZIP)
    await member.fetch(partitions=(0,))
    tracemalloc.start()
    try:
        await member.acknowledge({0: [(0, 59, [REJECT])]})
        await until(lambda: server.broker.share_partitions.dead_letters.written == 60)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000
    letters = await dead_letters(server, 60)
    assert all(one.headers[0] == headers[0] for one in letters)


async def test_records_stay_in_flight_until_their_dead_letters_can_be_written(server, member):
    """The topic has too few replicas in sync for some time."""
    await server.topic(DEAD, **{ENABLE: "true"})
    dead = server.broker.partition(DEAD, 0)
    dead.min_isr = 2
    await server.produce(TOPIC, b"one")
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 0, [REJECT])]})
    share = served(server).share
    await until(lambda: [run.state for run in share.runs] == [ARCHIVING])
    assert (share.start_offset, share.in_flight) == (0, 1)
    dead.min_isr = 1
    await dead_letters(server, 1)
    await start_offset(server, 1)


async def test_no_dead_letters_before_the_feature_has_its_level(server, member):
    lowered = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=2)
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[lowered])
    assert not (await server.request(request, 1, UpdateFeaturesResponse)).error_code
    await server.produce(TOPIC, b"one")
    await member.fetch(partitions=(0,))
    await member.acknowledge({0: [(0, 0, [REJECT])]})
    await start_offset(server, 1)
    assert DEAD not in server.broker.image.topics_by_name


async def test_a_topic_of_kwires_own_is_refused_by_name(server):
    code = await configure(server, GROUP, NAME, "__consumer_offsets")
    assert code is ErrorCode.INVALID_CONFIG
