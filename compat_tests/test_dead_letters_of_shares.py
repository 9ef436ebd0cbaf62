"""Dead letters of share groups (KIP-1191), as confluent-kafka's ``ShareConsumer`` causes them.

Promises: a record that is rejected, or that was delivered too often, is in the group's topic with
headers that name it, and with a copy if the group wants one; a topic that may not be used gets
nothing, and the group goes on.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from compat_tests import secured_clients
from compat_tests.clients import QUIET
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import VERSION
from compat_tests.raw_client import RawClient
from compat_tests.test_share_groups import ACCEPT, GROUP_RESOURCE, REJECT, RELEASE, poll, worker
from compat_tests.test_stock_suites import alter
from compat_tests.test_transaction_tools import features
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

pytestmark = [
    pytest.mark.skipif(secured_clients.IS_ON, reason="the consumer has no login here"),
    pytest.mark.skipif(VERSION == "4.3.1", reason="Kafka has dead letters since 4.4"),
]

BROKER_RESOURCE, EVERY_BROKER = 4, ""
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLE = "errors.deadletterqueue.group.enable"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
REJECTED, EXCEEDED = (
    b"Offset rejected by client.",
    b"Offset delivery count exceeded the threshold.",
)
PARTITIONS = 3
PATIENCE_S = 60
DAY_MS = 86_400_000


@pytest.fixture
def topic(bootstrap: str, names: Names) -> str:
    """A topic of three partitions with a record each."""
    topic = names.topic("queue")
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap}, logger=QUIET)
    for index in range(PARTITIONS):
        headers: Any = [("colour", b"red")]
        producer.produce(topic, b"v%d" % index, b"k", partition=index, headers=headers)
    producer.flush()
    return topic


@pytest.fixture
def dead(bootstrap: str, names: Names) -> str:
    """A topic of two partitions that takes dead letters."""
    name = names.topic("dlq.queue")
    create_topics(bootstrap, name, partitions=2, **{ENABLE: "true"})
    return name


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Closes consumers after the test."""
    with ExitStack() as stack:
        yield stack


def new_group(bootstrap: str, names: Names, **configs: str) -> str:
    """A share group that begins with the earliest record."""
    group = names.group("workers")
    with RawClient(bootstrap) as client:
        earliest = {"share.auto.offset.reset": "earliest", **configs}
        assert alter(client, GROUP_RESOURCE, group, **earliest) == "NONE"
    return group


def settle(
    opened: ExitStack, bootstrap: str, group: str, topic: str, kind: Any, count: int
) -> None:
    """Have a worker acknowledge so many deliveries."""
    explicit = {"share.acknowledgement.mode": "explicit"}
    one = worker(opened, bootstrap, group, topic, **explicit)
    left = [count]

    def is_done() -> bool:
        for message in poll(one):
            one.acknowledge(message, kind)
            left[0] -= 1
        one.commit_sync()
        return left[0] <= 0

    wait_until(is_done, timeout_s=PATIENCE_S, what="the records to be settled")
    assert left == [0]


def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The first records of a topic, in the order of their source partitions."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(settings, logger=QUIET)
    found: list[Any] = []
    try:
        wait_until(
            lambda: topic in consumer.list_topics(timeout=PATIENCE_S).topics,
            timeout_s=PATIENCE_S,
            what="the topic of the dead letters",
        )
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        places = [confluent_kafka.TopicPartition(topic, index, 0) for index in partitions]
        consumer.assign(places)

        def has_all() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message)
            return len(found) >= count

        wait_until(has_all, timeout_s=PATIENCE_S, what="the dead letters")
    finally:
        consumer.close()
    return sorted(found, key=lambda one: dict(one.headers())["__dlq.errors.partition"])


def written(bootstrap: str, topic: str) -> int:
    """How many records a topic has."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none"}, logger=QUIET
    )
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        places = [confluent_kafka.TopicPartition(topic, index) for index in partitions]
        return sum(consumer.get_watermark_offsets(one, PATIENCE_S)[1] for one in places)
    finally:
        consumer.close()


def has_no_lag(bootstrap: str, group: str, topic: str) -> bool:
    """Whether the group is done with all records."""
    tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    said = run_tool(tool, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    rows = [line.split() for line in said.splitlines() if f" {topic} " in line]
    return [row[-1] for row in rows] == ["0"] * PARTITIONS


def headers_of(topic: str, group: str, partition: int, count: int, cause: bytes) -> list[Any]:
    """What Kafka says in the headers of a dead letter, in its order."""
    return [
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"%d" % partition),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", group.encode()),
        ("__dlq.errors.delivery.count", b"%d" % count),
        ("__dlq.errors.message", cause),
    ]


@pytest.mark.parametrize("copies", [False, True])
def test_rejected_records_have_dead_letters(
    bootstrap: str, topic: str, dead: str, names: Names, opened: ExitStack, copies: bool
) -> None:
    """Partition n's are in partition n, modulo the number; their time is that of the rejection.

    The headers of a copied record may come before those of its dead letter.
    """
    group = new_group(bootstrap, names, **{NAME: dead, COPY: str(copies).lower()})
    settle(opened, bootstrap, group, topic, REJECT, PARTITIONS)
    letters = read(bootstrap, dead, PARTITIONS)
    for index, letter in enumerate(letters):
        assert letter.partition() == index % 2
        assert letter.headers()[-6:] == headers_of(topic, group, index, 1, REJECTED)
        assert letter.key() == (b"k" if copies else None)
        assert letter.value() == (b"v%d" % index if copies else None)
        kind, timestamp_ms = letter.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
        assert abs(timestamp_ms - time.time() * 1000) < DAY_MS
    assert written(bootstrap, dead) == PARTITIONS


def test_records_that_were_delivered_too_often_have_dead_letters(
    bootstrap: str, topic: str, dead: str, names: Names, opened: ExitStack
) -> None:
    limit = {"share.delivery.count.limit": "2"}
    group = new_group(bootstrap, names, **{NAME: dead}, **limit)
    settle(opened, bootstrap, group, topic, RELEASE, 2 * PARTITIONS)
    for index, letter in enumerate(read(bootstrap, dead, PARTITIONS)):
        assert letter.headers() == headers_of(topic, group, index, 2, EXCEEDED)


def test_topics_that_may_not_be_used_get_nothing(
    bootstrap: str, topic: str, names: Names, opened: ExitStack
) -> None:
    """One lacks the config, one the prefix, one is missing; the groups are done all the same."""
    closed, unprefixed = names.topic("dlq.closed"), names.topic("queue.dead")
    create_topics(bootstrap, closed)
    create_topics(bootstrap, unprefixed, **{ENABLE: "true"})
    for name in (closed, unprefixed, names.topic("dlq.missing")):
        group = new_group(bootstrap, names, **{NAME: name})
        settle(opened, bootstrap, group, topic, REJECT, PARTITIONS)
        wait_until(
            lambda group=group: has_no_lag(bootstrap, group, topic),
            timeout_s=PATIENCE_S,
            what="no lag",
        )
    assert written(bootstrap, closed) == written(bootstrap, unprefixed) == 0


def test_a_missing_topic_is_made_if_brokers_may(
    bootstrap: str, topic: str, names: Names, opened: ExitStack
) -> None:
    name = names.topic("dlq.made")
    group = new_group(bootstrap, names, **{NAME: name})
    with RawClient(bootstrap) as client:
        assert alter(client, BROKER_RESOURCE, EVERY_BROKER, **{AUTO_CREATE: "true"}) == "NONE"
    try:
        settle(opened, bootstrap, group, topic, REJECT, PARTITIONS)
        read(bootstrap, name, PARTITIONS)
    finally:
        with RawClient(bootstrap) as client:
            assert alter(client, BROKER_RESOURCE, EVERY_BROKER, **{AUTO_CREATE: None}) == "NONE"
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    resource = ConfigResource(ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert found[ENABLE].value == "true"
    assert found["message.timestamp.type"].value == "CreateTime"
    assert {found[one].is_default for one in (ENABLE, "message.timestamp.type")} == {False}


def test_dead_letters_need_level_2_of_the_feature(
    bootstrap: str, topic: str, dead: str, names: Names, opened: ExitStack
) -> None:
    """kafka-features lowers the level, and raises it again."""
    said = features(bootstrap, "describe").splitlines()
    [shown] = [one.split() for one in said if "share.version" in one]
    assert shown[3:8:2] == ["0", "2", "2"]  # the lowest, the highest, and the cluster's level
    group = new_group(bootstrap, names, **{NAME: dead})
    features(bootstrap, "downgrade", "--feature", "share.version=1")
    try:
        settle(opened, bootstrap, group, topic, REJECT, PARTITIONS)
    finally:
        features(bootstrap, "upgrade", "--feature", "share.version=2")
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap}, logger=QUIET)
    producer.produce(topic, b"later", partition=0)
    producer.flush()
    settle(opened, bootstrap, group, topic, REJECT, 1)
    [letter] = read(bootstrap, dead, 1)
    assert dict(letter.headers())["__dlq.errors.offset"] == b"1"
    assert written(bootstrap, dead) == 1


def test_a_topic_of_the_brokers_own_is_refused(bootstrap: str, names: Names) -> None:
    with RawClient(bootstrap) as client:
        told = alter(client, GROUP_RESOURCE, names.group(), **{NAME: "__consumer_offsets"})
        assert told == "INVALID_CONFIG"


def test_accepted_records_have_none(
    bootstrap: str, topic: str, dead: str, names: Names, opened: ExitStack
) -> None:
    group = new_group(bootstrap, names, **{NAME: dead})
    settle(opened, bootstrap, group, topic, ACCEPT, PARTITIONS)
    assert written(bootstrap, dead) == 0
