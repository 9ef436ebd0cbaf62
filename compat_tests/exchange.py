"""A load that leaves every kind of thing in a data directory, and all that a consumer sees of it.

What is written: every codec, segments that roll, both timestamp types, timestamps out of order,
headers, nulls, transactions that were committed, aborted and left open, and a group's offsets.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource

from compat_tests.clients import QUIET, READ_TIMEOUT_S
from tests.support.topics import create_topics

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = ("read_committed", "read_uncommitted")
GROUP = "exchange-readers"
PLAIN, STAMPED, TRANSACTIONS = "exchange.plain", "exchange.stamped", "exchange.transactions"
SEGMENT_BYTES = 1024 * 1024
START_MS = 1_750_000_000_000
SETTINGS = {
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    # A transaction that was left open stays open while the tests look at it.
    "transaction.max.timeout.ms": "3600000",
}
"""What both brokers are started with."""

Seen = dict[tuple[str, int], list[tuple[object, ...]]]


def topics() -> dict[str, tuple[int, dict[str, str]]]:
    """Every topic of the load: its partitions and its configs."""
    rolls = {"segment.bytes": str(SEGMENT_BYTES)}
    codecs = {f"exchange.{codec}": (1, rolls) for codec in CODECS}
    stamped = {"message.timestamp.type": "LogAppendTime", "retention.ms": "86400000000"}
    return {**codecs, PLAIN: (3, {}), STAMPED: (1, stamped), TRANSACTIONS: (2, {})}


def admin(bootstrap: str) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)


def create_all_topics(bootstrap: str) -> None:
    """Create the topics of the load."""
    for name, (partitions, config) in topics().items():
        create_topics(bootstrap, name, partitions=partitions, **config)


def write(bootstrap: str, seed: int = 1) -> None:
    """Write the load, or, with another seed, more of it."""
    chance = random.Random(seed)
    for codec in CODECS:
        rows = [(b"%d" % n, chance.randbytes(1500) + b"x" * 1500) for n in range(900)]
        _send(bootstrap, f"exchange.{codec}", rows, chance, {"compression.type": codec})
    words = [(chance.choice((None, b"", b"key-%d" % n)), b"value-%d" % n) for n in range(600)]
    _send(bootstrap, PLAIN, words, chance, {"enable.idempotence": True})
    _send(bootstrap, PLAIN, [(b"gone", None), (None, b"")], chance, {})
    _send(bootstrap, STAMPED, words, chance, {"linger.ms": 1})
    _transactions(bootstrap, seed)


def write_internal_topics(bootstrap: str) -> None:
    """Write just so much that the topics of groups and transactions exist."""
    _transactions(bootstrap, seed=9)
    producer = Producer({"bootstrap.servers": bootstrap}, logger=QUIET)
    producer.produce(PLAIN, b"x")
    assert producer.flush(READ_TIMEOUT_S) == 0
    commit_offsets(bootstrap)


def _send(
    bootstrap: str,
    topic: str,
    rows: list[tuple[bytes | None, bytes | None]],
    chance: random.Random,
    options: dict[str, object],
) -> None:
    config = {"bootstrap.servers": bootstrap, "linger.ms": 5, **options}
    producer = Producer(config, logger=QUIET)
    for number, (key, value) in enumerate(rows):
        timestamp = START_MS + number * 10 + chance.randrange(-200, 200)
        headers = [("n", b"%d" % number), ("null", None)] if number % 7 == 0 else None
        producer.produce(topic, value, key, timestamp=timestamp, headers=headers)
        producer.poll(0)
    assert producer.flush(READ_TIMEOUT_S) == 0


def _transactions(bootstrap: str, seed: int) -> None:
    config = {
        "bootstrap.servers": bootstrap,
        "transactional.id": f"exchange-{seed}",
        "transaction.timeout.ms": 3_000_000,
    }
    producer = Producer(config, logger=QUIET)
    producer.init_transactions(READ_TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for index in range(20):
            text = b"%d-%d-%d" % (seed, number, index)
            producer.produce(TRANSACTIONS, text, text, partition=index % 2)
        assert producer.flush(READ_TIMEOUT_S) == 0
        if number % 3 == 1:
            producer.abort_transaction(READ_TIMEOUT_S)
        else:
            producer.commit_transaction(READ_TIMEOUT_S)


def commit_offsets(bootstrap: str) -> None:
    """Let a group read something, commit, and leave."""
    config = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"}, logger=QUIET)
    consumer.subscribe([PLAIN])
    try:
        assert consumer.poll(READ_TIMEOUT_S) is not None
        consumer.consume(50, 1.0)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str = GROUP) -> dict[tuple[str, int], int]:
    """The offsets that a group has committed."""
    asked = [ConsumerGroupTopicPartitions(group)]
    client = admin(bootstrap)
    found = client.list_consumer_group_offsets(asked)[group].result(READ_TIMEOUT_S)
    return {(p.topic, p.partition): p.offset for p in found.topic_partitions if p.offset >= 0}


def seen(bootstrap: str, isolation: str) -> Seen:
    """Every record of the load, by partition, as a consumer of this isolation sees it."""
    partitions = [(name, index) for name, (count, _) in topics().items() for index in range(count)]
    return read(bootstrap, partitions, isolation)


def read(bootstrap: str, partitions: Sequence[tuple[str, int]], isolation: str) -> Seen:
    """Every record of some partitions: offset, timestamp type, timestamp, key, value, headers."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
    }
    found: Seen = {partition: [] for partition in partitions}
    left = set(partitions)
    consumer = Consumer(config, logger=QUIET)
    consumer.assign([TopicPartition(topic, index, 0) for topic, index in partitions])
    try:
        while left:
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None, f"{left} came to no end"
            error = message.error()
            if error is None:
                found[message.topic(), message.partition()].append(_row(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((message.topic(), message.partition()))
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return found


def _row(message: Message) -> tuple[object, ...]:
    kind, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return message.offset(), kind, timestamp, message.key(), message.value(), headers


class Topic(NamedTuple):
    """What the cluster says of a topic."""

    topic_id: str
    partitions: int
    configs: dict[str, str]


def described(bootstrap: str) -> dict[str, Topic]:
    """Every topic with its id, its partitions and the configs that are its own."""
    client = admin(bootstrap)
    names = list(client.list_topics(timeout=READ_TIMEOUT_S).topics)
    topics_found = client.describe_topics(TopicCollection(names))
    resources = {name: ConfigResource(ConfigResource.Type.TOPIC, name) for name in names}
    configs = client.describe_configs(list(resources.values()))
    found = {}
    for name in names:
        topic = topics_found[name].result(READ_TIMEOUT_S)
        entries = configs[resources[name]].result(READ_TIMEOUT_S)
        own = {key: entry.value for key, entry in entries.items() if entry.source == 1}
        found[name] = Topic(str(topic.topic_id), len(topic.partitions), own)
    return found
