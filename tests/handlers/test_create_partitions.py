"""CreatePartitions: a topic grows, and never shrinks."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import create_partitions
from kwire.metadata import controller
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.support.sieve import refuse_commits


async def _extend(server, *topics, version=3, validate_only=False):
    client = await server.connect()
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=5000, validate_only=validate_only
    )
    response = await client.request(request, version, CreatePartitionsResponse)
    await client.aclose()
    for result in response.results:
        assert (result.error_code == ErrorCode.NONE) == (result.error_message is None)
    return [(result.name, result.error_code) for result in response.results]


def _topic(name, count, assignments=None):
    assigned = None
    if assignments is not None:
        assigned = [CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=assigned)


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_can_be_used_at_once(server, version):
    """They are there when they are answered, in every version."""
    topic = server.broker.image.topics_by_name["orders"]
    assert await _extend(server, _topic("orders", 4), version=version) == [("orders", 0)]
    assert server.broker.partition("orders", 3).log.log_end_offset == 0
    assert server.broker.image.topics_by_name["orders"].topic_id == topic.topic_id


async def test_placed_by_the_client(server):
    """One assignment per new partition."""
    assert await _extend(server, _topic("orders", 4, [[1], [1]])) == [("orders", 0)]
    assert len(server.broker.image.topics_by_name["orders"].partitions) == 4


async def test_a_topic_that_is_not_there_takes_no_room_in_a_request(server, monkeypatch):
    """As many partitions as a request may create are created beside it."""
    count = len(server.broker.image.topics_by_name["orders"].partitions) + 1
    monkeypatch.setattr(controller, "MAX_PARTITIONS_PER_REQUEST", 1)
    unknown = ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer = await _extend(server, _topic("nope", 9), _topic("orders", count))
    assert answer == [unknown, ("orders", 0)]


async def test_validate_only_changes_nothing(server):
    """The answer is that of an extension."""
    revision = server.broker.image.revision
    assert await _extend(server, _topic("orders", 4), validate_only=True) == [("orders", 0)]
    assert server.broker.image.revision == revision


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (_topic("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (_topic("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (_topic("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (_topic("orders", -1), ErrorCode.INVALID_PARTITIONS),
        (_topic("orders", 10_003), ErrorCode.POLICY_VIOLATION),
        (_topic("orders", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (_topic("orders", 3, [[2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (_topic("orders", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_refusals(server, topic, code):
    """Each has Kafka's code and a message."""
    assert await _extend(server, topic) == [(topic.name, code)]


async def test_a_name_twice_is_refused_once(server):
    """And the others of the request are extended."""
    topics = [_topic("orders", 4), _topic("__consumer_offsets", 5), _topic("orders", 5)]
    assert sorted(await _extend(server, *topics)) == [
        ("__consumer_offsets", 0),
        ("orders", ErrorCode.INVALID_REQUEST),
    ]


async def test_a_commit_that_fails_is_every_topics_error(server):
    """When the disk is full each topic says so, those that were refused anyway say why."""
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")
    refuse_commits(server.broker.commits.store, full)
    assert await _extend(server, _topic("orders", 4), _topic("nope", 4)) == [
        ("orders", ErrorCode.KAFKA_STORAGE_ERROR),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_a_broker_that_is_unknown_is_named_with_its_partition(server):
    """Partitions are counted from the topic's first one, not from the first new one."""
    client = await server.connect()
    request = CreatePartitionsRequest(topics=[_topic("orders", 5, [[1], [7], [1]])])
    response = await client.request(request, 3, CreatePartitionsResponse)
    await client.aclose()
    assert response.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert response.results[0].error_message == "Broker 7 in partition 3 is not registered."


async def test_others_have_their_turn_while_many_topics_are_refused(server, monkeypatch):
    """A request may name as many topics as fit into it, and each is looked at."""
    turns = []

    class Counted:
        async def give_way(self):
            turns.append(None)

    async def commit(context, decide, *, validate_only):
        await decide(server.broker.image, Counted())

    monkeypatch.setattr(create_partitions, "commit_in_slices", commit)
    names = [f"unknown-{n:03}" for n in range(100)]
    found = await _extend(server, *(_topic(name, 2) for name in names))
    assert found == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names]
    assert len(turns) >= len(names)
