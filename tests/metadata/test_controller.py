"""The controller creates, extends and deletes topics as Kafka does, and says why not."""

from collections import Counter

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import FeatureLevelChanged, apply
from kwire.metadata.controller import (
    NewTopic,
    RequestTooLarge,
    TopicCreation,
    add_partitions,
    allocate_producer_ids,
    check_partition_total,
    check_topic_name,
    create_topic,
    delete_topic,
)
from kwire.metadata.image import ConfigResourceType
from kwire.metadata.placement import at_once


def _created(image, random, name="t", partitions=1, factor=1, **more):
    changes = create_topic(image, NewTopic(name, partitions, factor, **more), random)
    return apply(image, changes, image.revision + 1)


def add(creation, topic):
    return at_once(creation.add(topic))


def _refusal(decide) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decide()
    assert caught.value.message
    return caught.value.code


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "__consumer_offsets", "..."])
def test_names_a_topic_may_have(name):
    """Letters, digits, '.', '_' and '-', up to 249 of them."""
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n"])
def test_names_no_topic_may_have(name):
    """Everything else would not be a directory, or not a metric."""
    assert _refusal(lambda: check_topic_name(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_new_topic(image_of, random):
    """A topic has an id of its own, its partitions a leader in sync, and its configs are kept."""
    image = _created(image_of(), random, partitions=3, configs={"retention.ms": "5"})
    topic = image.topics_by_name["t"]
    assert image.topics_by_id == {topic.topic_id: topic}
    assert [(p.leader, p.leader_epoch, p.replicas, p.isr) for p in topic.partitions] == [
        (1, 0, (1,), (1,))
    ] * 3
    assert image.config(ConfigResourceType.TOPIC, "t") == {"retention.ms": "5"}
    assert topic.topic_id[6] >> 4 == 4


def test_the_lags_of_compaction_may_be_equal(image_of, random):
    """Only a shortest one that is longer than the longest is refused."""
    configs = {"min.compaction.lag.ms": "8", "max.compaction.lag.ms": "8"}
    image = _created(image_of(), random, configs=configs)
    assert image.config(ConfigResourceType.TOPIC, "t") == configs


def test_ids_are_not_used_again(image_of, random):
    """A topic that is deleted and created again is another topic, without the old configs."""
    first = _created(image_of(), random, configs={"retention.ms": "5"})
    old = first.topics_by_name["t"].topic_id
    gone = apply(first, delete_topic(first, old), 3)
    assert not gone.topics_by_name
    assert not gone.configs
    second = _created(gone, random)
    assert second.topics_by_name["t"].topic_id != old
    assert _refusal(lambda: delete_topic(second, old)) is ErrorCode.UNKNOWN_TOPIC_ID


class _Reserved:
    """Chance that first draws what must not be an id."""

    def __init__(self, *draws):
        self._draws = list(draws)

    def randbytes(self, count):
        return self._draws.pop(0)

    def randrange(self, stop):
        return 0


def test_ids_never_begin_with_a_dash_or_repeat(image_of):
    """A command line would take '-…' for an option."""
    dash, good, other = b"\xfb" + bytes(15), b"\x01" * 15 + b"\xfb", b"\x02" * 16
    random = _Reserved(dash, good, good, other)
    image = _created(_created(image_of(), random, "a"), random, "b")
    ids = {topic.topic_id[:1] for topic in image.topics_by_name.values()}
    assert ids == {b"\x01", b"\x02"}


def test_ids_are_uuids_of_version_4(image_of):
    """Of the variant that RFC 9562 describes; all other bits are chance."""
    image = _created(image_of(), _Reserved(b"\x02" * 16), "a")
    [topic_id] = image.topics_by_id
    assert topic_id == b"\2\2\2\2\2\2\x42\2\x82" + b"\2" * 7


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("t", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a_b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("n", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("n", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("n", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("n", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("n", 1, 1, {}, {"foo": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("n", 1, 1, {}, {"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (
            NewTopic("n", 1, 1, {}, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (NewTopic("n", 1, 1, {}, {"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("n", -1, -1, {1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("n", -1, -1, {0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("n", -1, -1, {0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("n", -1, -1, {0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("n", -1, -1, {0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_topics_that_are_refused(image_of, random, wanted, code):
    """Each refusal has Kafka's code and says why."""
    image = _created(_created(image_of(3), random), random, "a.b")
    assert _refusal(lambda: create_topic(image, wanted, random)) is code


def test_replicas_as_the_client_wants_them(image_of, random):
    """A manual assignment is taken as it is; its first replica leads."""
    image = _created(image_of(3), random, assignments={1: [2, 3], 0: [3, 1]})
    partitions = image.topics_by_name["t"].partitions
    assert [(p.leader, p.replicas) for p in partitions] == [(3, (3, 1)), (2, (2, 3))]


def test_replicas_are_spread_evenly(image_of, random):
    """Leaders and replicas are as many on every broker, and no partition has two on one."""
    image = _created(image_of(3), random, partitions=6, factor=2)
    partitions = image.topics_by_name["t"].partitions
    assert set(Counter(p.leader for p in partitions).values()) == {2}
    assert set(Counter(n for p in partitions for n in p.replicas).values()) == {4}
    assert all(len(set(p.replicas)) == 2 for p in partitions)


def test_more_partitions(image_of, random):
    """Those that are there stay as they are."""
    before = _created(image_of(), random, partitions=2)
    after = apply(before, add_partitions(before, "t", 5, None, random), 3)
    old, new = before.topics_by_name["t"], after.topics_by_name["t"]
    assert new.partitions[:2] == old.partitions
    assert len(new.partitions) == 5
    assert new.topic_id == old.topic_id
    assert after.topics_by_id[new.topic_id] is new
    assert after.partition("t", 4) is not None
    assert after.partition("t", 5) is None


def test_new_partitions_have_as_many_replicas_as_the_first(image_of, random):
    """Others may have been moved to fewer or more brokers."""
    image = _created(image_of(3), random, partitions=2, factor=2)
    topic = image.topics_by_name["t"]
    alone = topic.partitions[1]._replace(replicas=(1,), isr=(1,), leader=1)
    moved = topic._replace(partitions=(topic.partitions[0], alone))
    image = image._replace(topics_by_name={"t": moved}, topics_by_id={moved.topic_id: moved})
    after = apply(image, add_partitions(image, "t", 3, None, random), 3)
    assert len(after.topics_by_name["t"].partitions[2].replicas) == 2


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("n", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("t", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_are_refused(image_of, random, name, count, assignments, code):
    """A topic never shrinks, and new partitions have as many replicas as the old ones."""
    image = _created(image_of(2), random, partitions=2)
    assert _refusal(lambda: add_partitions(image, name, count, assignments, random)) is code


def test_one_request_has_a_limit_of_partitions():
    """A client can't make the broker open files without end."""
    check_partition_total(10_000)
    assert _refusal(lambda: check_partition_total(10_001)) is ErrorCode.POLICY_VIOLATION


def test_producer_ids_come_in_blocks(image_of):
    """Every block begins where the one before ended."""
    image = image_of()
    for revision, first in ((2, 0), (3, 1000)):
        assert image.next_producer_id == first
        image = apply(image, allocate_producer_ids(image), revision)


class CountedMapping(dict):
    """A mapping that counts how often it is gone through, or copied."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()

    def keys(self):
        self.times += 1
        return super().keys()

    def items(self):
        self.times += 1
        return super().items()

    def values(self):
        self.times += 1
        return super().values()


def test_many_topics_are_created_in_one_look_at_those_there_are(image_of, random):
    """The names are compared in one go: the cost of a request grows with its size alone."""
    image = image_of()
    for number in range(20):
        image = _created(image, random, name=f"old.{number}")
    names = CountedMapping(image.topics_by_name)
    creation = TopicCreation(image._replace(topics_by_name=names), random, 100)
    for number in range(100):
        add(creation, NewTopic(f"new.{number}", 1, 1))
    assert names.times == 1
    with pytest.raises(KafkaError):
        add(creation, NewTopic("old_7", 1, 1))
    assert len(creation.changes) == 100


def test_many_changes_copy_an_image_once(image_of, random):
    """A commit of a thousand changes costs a thousand times one, not a million times."""
    image = _created(image_of(), random, name="old.1")
    mappings = {
        name: CountedMapping(getattr(image, name))
        for name in ("topics_by_name", "topics_by_id", "configs")
    }
    creation = TopicCreation(image, random, 100)
    for number in range(100):
        add(creation, NewTopic(f"new.{number}", 1, 1, configs={"retention.ms": "5"}))
    after = apply(image._replace(**mappings), creation.changes, 9)
    assert len(after.topics_by_name) == 101
    assert [mapping.times for mapping in mappings.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    "topic", [NewTopic("t", 1, 2), NewTopic("t", -1, -1, {0: [2, 1]})], ids=["factor", "assigned"]
)
def test_several_replicas_need_the_level_of_changes_that_has_them(image_of, random, topic):
    """A broker with an older kwire couldn't follow what happens to them."""
    image = image_of(3)
    older = apply(image, [FeatureLevelChanged("kwire.changes", 1)], 2)
    creation = TopicCreation(older, random, 100)
    assert _refusal(lambda: add(creation, topic)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert not creation.changes
    assert add(creation, NewTopic("u", -1, -1, {0: [2]})).partitions[0].replicas == (2,)
    newer = apply(image, [FeatureLevelChanged("kwire.changes", 2)], 2)
    [partition] = add(TopicCreation(newer, random, 100), topic).partitions
    assert len(partition.replicas) == 2
    assert partition.isr == partition.replicas


def test_kafkas_limit_of_records_holds_for_a_request(image_of, random):
    """A record for each topic, each partition and each config: 10,000 in all."""
    creation = TopicCreation(image_of(), random, 9_999)
    add(creation, NewTopic("t", 9_996, 1, configs={"retention.ms": "5"}))
    add(creation, NewTopic("u", 1, 1))
    with pytest.raises(RequestTooLarge) as refused:
        add(creation, NewTopic("v", 1, 1))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
