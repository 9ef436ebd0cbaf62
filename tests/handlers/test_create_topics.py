"""CreateTopics: every topic has an answer of its own, and what is answered can be used."""

import pytest
import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.types import ZERO_UUID
from kwire.testing.waiting import until
from tests.support.sieve import Sieve, refuse_commits


def _topic(name, partitions=1, factor=1, assignments=None, **configs):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


@pytest.fixture
async def create(server):
    """Sends topics; the answers by name."""
    client = await server.connect()

    async def send(*topics, version=7, validate_only=False):
        request = CreateTopicsRequest(
            topics=list(topics), timeout_ms=5000, validate_only=validate_only
        )
        response = await client.request(request, version, CreateTopicsResponse)
        return {topic.name: topic for topic in response.topics}

    return send


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_there_when_it_is_answered(server, create, version):
    """Every version creates; configs come from version 5 on, the id in version 7."""
    answer = (await create(_topic("new", 3, retention_ms="5"), version=version))["new"]
    assert answer.error_code == ErrorCode.NONE
    assert len(server.broker.image.topics_by_name["new"].partitions) == 3
    assert server.broker.partition("new", 2).log.log_end_offset == 0
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        configs = {config.name: config for config in answer.configs}
        assert len(configs) == 37
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
        assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
            "1073741824",
            5,
        )
    if version == 7:
        assert answer.topic_id == server.broker.image.topics_by_name["new"].topic_id


async def test_minus_one_means_the_brokers_default(server, create):
    """num.partitions stands in, and the one replica that kwire keeps of a partition."""
    answer = (await create(_topic("new", -1, -1)))["new"]
    assert (answer.num_partitions, answer.replication_factor) == (2, 1)


async def test_validate_only_creates_nothing(server, create):
    """The answer is that of a creation; nothing is there afterwards."""
    revision = server.broker.image.revision
    answers = await create(_topic("new"), _topic("orders"), validate_only=True)
    assert answers["new"].error_code == ErrorCode.NONE
    assert answers["new"].topic_id != ZERO_UUID
    assert len(answers["new"].configs) == 37
    assert answers["orders"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert server.broker.image.revision == revision


async def test_many_topics_are_one_commit(server, create):
    """Those that may be are created, and the disk is waited for once."""
    revision = server.broker.image.revision
    topics = [_topic(f"t{number}") for number in range(20)]
    answers = await create(*topics, _topic("bad name"), _topic("a.b"))
    assert len(answers) == 22
    refused = {name: answer.error_code for name, answer in answers.items() if answer.error_code}
    assert refused == {"bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert server.broker.image.revision == revision + 1
    assert (await create(_topic("a_b")))["a_b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (_topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (_topic("n", 1, -1, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (_topic("n", -1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (_topic("n", -1, -1, {0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (_topic("n", 0), ErrorCode.INVALID_PARTITIONS),
        (_topic("n", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (_topic("n", 10_001), ErrorCode.POLICY_VIOLATION),
        (_topic("n", foo="1"), ErrorCode.INVALID_CONFIG),
        (_topic("n", retention_ms=None), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_refusals(create, topic, code):
    """Each has Kafka's code and a message."""
    (answer,) = (await create(topic)).values()
    assert answer.error_code == code
    assert answer.error_message
    assert answer.topic_id == ZERO_UUID


async def test_a_name_twice_is_refused_once(server, create):
    """Nobody can tell which of the two was meant."""
    client = await server.connect()
    request = CreateTopicsRequest(topics=[_topic("n"), _topic("n")], timeout_ms=5000)
    response = await client.request(request, 7, CreateTopicsResponse)
    assert [(t.name, t.error_code) for t in response.topics] == [("n", ErrorCode.INVALID_REQUEST)]
    assert "n" not in server.broker.image.topics_by_name


async def test_a_partition_assigned_twice(create):
    """The same partition can't be in two places."""
    topic = _topic("n", -1, -1, {0: [1]})
    topic.assignments *= 2
    answer = (await create(topic))["n"]
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_an_internal_topic_is_compacted_whoever_creates_it(server, create):
    """A client that is quicker than the broker does no harm."""
    await create(_topic("__transaction_state"))
    assert server.broker.topic_settings("__transaction_state")["cleanup.policy"] == ["compact"]


async def test_a_request_that_changes_nothing_has_no_turn(server, create):
    """However many topics it names, the changes of others don't wait for it."""
    sieve = Sieve(server.broker.commits.store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.topic, "new")
        await until(lambda: sieve.tried)
        answer = (await create(_topic("orders")))["orders"]  # and it doesn't wait for theirs
        assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        sieve.is_open.set()


async def test_a_commit_that_fails_is_every_topics_error(server, create):
    """When the disk is full each topic says so, those that were refused anyway say why."""
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")
    refuse_commits(server.broker.commits.store, full)
    answers = await create(_topic("n"), _topic("orders"))
    assert {name: (t.error_code, t.error_message) for name, t in answers.items()} == {
        "n": (ErrorCode.KAFKA_STORAGE_ERROR, "no space"),
        "orders": (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."),
    }
