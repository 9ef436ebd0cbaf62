"""Compaction as consumers see it: what is left of a topic, at which offsets.

Segments are rolled after 100 ms and the cleaner looks often, so that a clean is a matter of a
second. Each look at the topic writes one more record with a key of its own, ``roll``: only the next
record makes a broker begin a new segment.
"""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.conftest import Names
from compat_tests.reading import messages
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

Found = list[tuple[int, str, str | None]]

ROLL = "roll"
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
}


@pytest.fixture
def client(bootstrap: str) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)


def alter(client: AdminClient, kind: ResourceType, name: str, changes: dict[str, str]) -> None:
    """Set configs; an empty value takes one back."""
    entries = [
        ConfigEntry(
            setting,
            value or None,
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        for setting, value in changes.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    client.incremental_alter_configs([resource])[resource].result(READ_TIMEOUT_S)


@pytest.fixture(autouse=True)
def _often(client: AdminClient) -> Iterator[None]:
    """Let the cleaner look for work all the time: a setting that takes effect while it runs."""
    brokers = list(map(str, client.list_topics(timeout=READ_TIMEOUT_S).brokers))
    for broker in brokers:
        alter(client, ResourceType.BROKER, broker, {"log.cleaner.backoff.ms": "100"})
    yield
    for broker in brokers:
        alter(client, ResourceType.BROKER, broker, {"log.cleaner.backoff.ms": ""})


class Topic:
    """A topic with one partition, written and read whole."""

    def __init__(self, bootstrap: str, name: str, **config: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        create_topics(bootstrap, name, **COMPACTED, **config)
        self._producer = self.producer()

    def producer(self, **options: object) -> Producer:
        """A producer of librdkafka."""
        return Producer({"bootstrap.servers": self.bootstrap, **options}, logger=QUIET)

    def put(self, *items: tuple[str | None, str | None], producer: Producer | None = None) -> None:
        """Write records, waiting until they are there."""
        producer = producer or self._producer
        for key, value in items:
            producer.produce(self.name, value, key)
        assert producer.flush(READ_TIMEOUT_S) == 0

    def contents(self, isolation: str = "read_uncommitted") -> Found:
        """Offset, key and value of all that is there, ``roll`` apart."""
        found: Found = []
        for message in messages(self.bootstrap, self.name, 1, isolation):
            key, value = message.key(), message.value()
            text = "" if key is None else key.decode()
            if text != ROLL:
                found.append((message.offset(), text, None if value is None else value.decode()))
        return found

    def wait(self, is_done: Callable[[Found], bool]) -> Found:
        """Roll and look until what is there is what is waited for."""
        seen: list[Found] = []

        def look() -> bool:
            self.put((ROLL, "x"))
            seen.append(self.contents())
            return is_done(seen[-1])

        try:
            wait_until(look, timeout_s=60)
        except AssertionError as error:
            raise AssertionError(f"{self.name} holds {seen[-1]}") from error
        return seen[-1]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_last_value_of_each_key_is_left(bootstrap: str, names: Names, codec: str) -> None:
    """At the offset where it was written, in batches that other records have left."""
    topic = Topic(bootstrap, names.topic("compact"), segment_ms="1000")
    producer = topic.producer(**{"compression.type": codec, "linger.ms": 50})
    rounds, keys = 20, 10
    for number in range(rounds):
        topic.put(*((f"k{key}", f"{key}-{number}") for key in range(keys)), producer=producer)
    first = (rounds - 1) * keys
    wanted = [(first + key, f"k{key}", f"{key}-{rounds - 1}") for key in range(keys)]
    topic.wait(lambda found: found == wanted)
    topic.put(("k3", "new"))
    found = topic.wait(lambda found: [key for _, key, _ in found].count("k3") == 1)
    assert found[:-1] == [row for row in wanted if row[1] != "k3"]
    assert found[-1][1:] == ("k3", "new")


def test_tombstones_stay_for_a_while_and_go(bootstrap: str, names: Names) -> None:
    """delete.retention.ms decides; the setting is changed while the topic is there."""
    topic = Topic(bootstrap, names.topic("tombstones"), delete_retention_ms="86400000")
    topic.put(("a", "1"), ("b", "1"), ("c", "1"), ("a", None), ("b", None))
    wanted = [(2, "c", "1"), (3, "a", None), (4, "b", None)]
    topic.wait(lambda found: found == wanted)
    other = Topic(bootstrap, names.topic("tombstones"), delete_retention_ms="0")
    other.put(("a", "1"), ("b", "1"), ("c", "1"), ("a", None), ("b", None))
    other.wait(lambda found: found == [(2, "c", "1")])
    assert topic.contents() == wanted


def test_aborted_records_go_whatever_their_keys(bootstrap: str, names: Names) -> None:
    """Consumers of both isolation levels see the same in the end."""
    topic = Topic(bootstrap, names.topic("transactions"))
    producer = topic.producer(**{"transactional.id": topic.name})
    producer.init_transactions(READ_TIMEOUT_S)
    topic.put(("a", "first"), ("b", "first"))
    for commit in (False, True, False):
        producer.begin_transaction()
        value = "committed" if commit else "aborted"
        topic.put(("a", value), (value, value), producer=producer)
        if commit:
            producer.commit_transaction(READ_TIMEOUT_S)
        else:
            producer.abort_transaction(READ_TIMEOUT_S)
    wanted = [(1, "b", "first"), (5, "a", "committed"), (6, "committed", "committed")]
    topic.wait(lambda found: found == wanted)
    assert topic.contents("read_committed") == wanted
    producer.begin_transaction()
    topic.put(("a", "open"), producer=producer)
    topic.put(("b", "second"))
    topic.put((ROLL, "x"))
    assert [value for _, _, value in topic.contents("read_committed")] == [row[2] for row in wanted]
    producer.commit_transaction(READ_TIMEOUT_S)
    topic.wait(lambda found: [row[2] for row in found] == ["committed", "open", "second"])


def test_a_policy_that_changes_takes_effect(
    bootstrap: str, client: AdminClient, names: Names
) -> None:
    """What was written without a key while the topic wasn't compacted goes too."""
    topic = Topic(bootstrap, names.topic("policy"), cleanup_policy="delete")
    topic.put(("a", "1"), (None, "no key"), ("a", "2"), ("b", "1"))
    topic.put((ROLL, "x"))
    assert len(topic.contents()) == 4
    alter(client, ResourceType.TOPIC, topic.name, {"cleanup.policy": "compact,delete"})
    topic.wait(lambda found: found == [(2, "a", "2"), (3, "b", "1")])


def test_what_is_young_is_left_alone(bootstrap: str, names: Names) -> None:
    """min.compaction.lag.ms: another topic is cleaned meanwhile, this one isn't."""
    young = Topic(bootstrap, names.topic("young"), min_compaction_lag_ms="86400000")
    other = Topic(bootstrap, names.topic("other"))
    for topic in (young, other):
        topic.put(("a", "1"), ("a", "2"))
        topic.put((ROLL, "x"))
    other.wait(lambda found: found == [(1, "a", "2")])
    assert young.contents() == [(0, "a", "1"), (1, "a", "2")]


def test_an_idempotent_producer_goes_on(bootstrap: str, names: Names) -> None:
    """Its last batch is kept for its sequence, though another has overwritten the key."""
    topic = Topic(bootstrap, names.topic("idempotent"))
    producer = topic.producer(**{"enable.idempotence": True})
    topic.put(("a", "1"), ("a", "2"), producer=producer)
    topic.put(("a", "3"))
    topic.wait(lambda found: found == [(2, "a", "3")])
    topic.put(("a", "4"), producer=producer)
    topic.wait(lambda found: [value for _, _, value in found] == ["4"])
