"""kafka-transactions.sh and kafka-features.sh, Kafka's own tools for operators of transactions."""

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.reading import read_all, wait_ended
from compat_tests.test_transactions import PATIENCE_S, transactional
from tests.support.topics import create_topics

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"


def transactions(bootstrap: str, *arguments: str) -> list[list[str]]:
    """What kafka-transactions.sh prints, as rows of words without the header."""
    said = run_tool(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments)
    return [line.split() for line in said.splitlines()[1:]]


def features(bootstrap: str, *arguments: str, fails: bool = False) -> str:
    """What kafka-features.sh prints."""
    return run_tool(FEATURES, "--bootstrap-server", bootstrap, *arguments, fails=fails)


def test_a_transaction_is_seen_and_aborted(bootstrap: str, names: Names) -> None:
    """list, describe, describe-producers, find-hanging, and abort by partition and offset."""
    topic = names.topic("hangs")
    create_topics(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"never seen")
    producer.flush(PATIENCE_S)
    [listed] = transactions(bootstrap, "list", "--transactional-id-pattern", f"{topic}.*")
    assert (listed[0], listed[3]) == (topic, "Ongoing")
    [described] = transactions(bootstrap, "describe", "--transactional-id", topic)
    assert (described[1], described[4], described[-1]) == (topic, "Ongoing", f"{topic}-0")
    where = ["--topic", topic, "--partition", "0"]
    [found] = transactions(bootstrap, "describe-producers", *where)
    assert (found[0], found[1], found[-1]) == (listed[2], "0", "0")
    assert transactions(bootstrap, "find-hanging", *where) == []
    transactions(bootstrap, "abort", *where, "--start-offset", "0")
    [found] = transactions(bootstrap, "describe-producers", *where)
    assert found[-1] == "None"
    assert list(read_all(bootstrap, topic, 1)) == []


def test_a_producer_is_terminated(bootstrap: str, names: Names) -> None:
    """forceTerminateTransaction fences it."""
    topic = names.topic("terminated")
    create_topics(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"never seen")
    producer.flush(PATIENCE_S)
    transactions(bootstrap, "forceTerminateTransaction", "--transactionalId", topic)
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)
    assert list(read_all(bootstrap, topic, 1)) == []


@pytest.fixture
def first_protocol(bootstrap: str) -> Iterator[None]:
    """A cluster whose transaction.version is 1, which is put right afterwards."""
    features(bootstrap, "downgrade", "--feature", "transaction.version=1")
    yield
    features(bootstrap, "upgrade", "--feature", "transaction.version=2")


def level(bootstrap: str) -> int:
    """The finalised level of transaction.version."""
    said = features(bootstrap, "describe")
    found = re.search(r"Feature: transaction.version\s.*FinalizedVersionLevel: (\d+)", said)
    assert found is not None, said
    return int(found[1])


def test_the_protocol_is_switched(bootstrap: str, names: Names, first_protocol: None) -> None:
    """kafka-features.sh lowers the level, and Java's producer speaks the first protocol then."""
    assert level(bootstrap) == 1
    topic = names.topic("first-protocol")
    create_topics(bootstrap, topic)
    for _ in range(2):
        run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", "500", "--record-size", "50"),
            *("--throughput", "-1", "--transactional-id", topic),
            *("--transaction-duration-ms", "20"),
            *("--command-property", f"bootstrap.servers={bootstrap}"),
        )
    wait_ended(bootstrap, topic, 1)
    assert len(list(read_all(bootstrap, topic, 1))) == 1000
    [described] = transactions(bootstrap, "describe", "--transactional-id", topic)
    # One epoch for each producer, none for each transaction.
    assert (described[3], described[4]) == ("1", "CompleteCommit")


def test_a_level_that_is_not_there(bootstrap: str) -> None:
    """It is refused, and nothing has changed."""
    said = features(bootstrap, "upgrade", "--feature", "transaction.version=9", fails=True)
    assert "Could not upgrade transaction.version to 9" in said
    assert level(bootstrap) == 2
