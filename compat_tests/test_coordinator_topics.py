"""More partitions for the topics of coordinators, while groups and transactions are in them.

Kafka accepts the request, and finds groups and transactional ids by the number of partitions that
the topic had when the broker started.
"""

from itertools import count

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.conftest import IS_ONE_KWIRE, Names
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
LOADS = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
GROUPS = 20
MORE = 7
"""How many partitions are added: with 50 partitions nearly every hash would change."""


def offsets_of(bootstrap: str, group: str) -> Consumer:
    """A client that commits and asks for offsets of a group, and never joins it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer(settings, logger=QUIET)


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The offset that a group has committed for a topic's first partition."""
    client = offsets_of(bootstrap, group)
    [found] = client.committed([TopicPartition(topic, 0)], timeout=READ_TIMEOUT_S)
    client.close()
    return int(found.offset)


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit an offset for a topic's first partition."""
    client = offsets_of(bootstrap, group)
    client.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    client.close()


def commit_when_loaded(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """The same, while Kafka's coordinators load the partitions of a new offsets topic."""

    def is_committed() -> bool:
        try:
            commit(bootstrap, group, topic, offset)
        except KafkaException as error:
            if not IS_ONE_KWIRE and error.args[0].code() in LOADS:
                return False
            raise
        return True

    wait_until(is_committed, what="the coordinator to load")


def producer(bootstrap: str, transactional_id: str) -> Producer:
    """A producer that has fenced every earlier one of its id."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    made = Producer(settings, logger=QUIET)
    made.init_transactions(READ_TIMEOUT_S)
    return made


def add_partitions(bootstrap: str, topic: str) -> None:
    """Add partitions to a topic and wait until the broker has them."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)

    def partitions() -> int:
        return len(admin.list_topics(timeout=READ_TIMEOUT_S).topics[topic].partitions)

    wanted = partitions() + MORE
    admin.create_partitions([NewPartitions(topic, wanted)])[topic].result(READ_TIMEOUT_S)
    wait_until(lambda: partitions() == wanted, timeout_s=30, what=f"{wanted} partitions")


def test_groups_keep_their_offsets(bootstrap: str, names: Names) -> None:
    """What was committed before is found, and what is committed afterwards too."""
    topic = names.topic()
    create_topics(bootstrap, topic, partitions=1)
    groups = [names.group() for _ in range(GROUPS)]
    for offset, group in enumerate(groups):
        commit_when_loaded(bootstrap, group, topic, offset)
    add_partitions(bootstrap, OFFSETS_TOPIC)
    assert [committed(bootstrap, group, topic) for group in groups] == list(range(GROUPS))
    for offset, group in enumerate(groups, 100):
        commit(bootstrap, group, topic, offset)
    found = [committed(bootstrap, group, topic) for group in groups]
    assert found == list(range(100, 100 + GROUPS))


def test_transactions_end_and_zombies_are_fenced(bootstrap: str, names: Names) -> None:
    """A transaction that was open commits; another one's producer is fenced by its successor."""
    topic = names.topic()
    create_topics(bootstrap, topic, partitions=1)
    ids = [names.group("tx") for _ in range(4)]
    opened = [producer(bootstrap, transactional_id) for transactional_id in ids]
    for number, one in zip(count(), opened):
        one.begin_transaction()
        one.produce(topic, str(number).encode())
        one.flush(READ_TIMEOUT_S)
    add_partitions(bootstrap, TRANSACTIONS_TOPIC)
    for one in opened[:2]:
        one.commit_transaction(READ_TIMEOUT_S)
    for transactional_id, zombie in zip(ids[2:], opened[2:], strict=True):
        producer(bootstrap, transactional_id)
        with pytest.raises(KafkaException) as caught:
            zombie.commit_transaction(READ_TIMEOUT_S)
        assert caught.value.args[0].code() == KafkaError._FENCED
    reader = offsets_of(bootstrap, names.group())
    reader.assign([TopicPartition(topic, 0, 0)])
    seen = []
    while len(seen) < 2:
        message = reader.poll(READ_TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        seen.append(message.value())
    reader.close()
    assert seen == [b"0", b"1"]
