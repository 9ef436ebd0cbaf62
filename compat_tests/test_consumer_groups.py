"""Consumer groups of the next generation (KIP-848) with many members: sharing, churn, migration.

librdkafka speaks the protocol with ``group.protocol=consumer``; Java's consumer is in
``test_consumer_groups_java``.
"""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient, NewPartitions

from compat_tests.clients import QUIET, READ_TIMEOUT_S, produce_confluent
from compat_tests.conftest import Names
from compat_tests.test_groups import PARTITIONS, Members, confluent_member, rows
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

CONSUMER = {"group.protocol": "consumer"}
SETTLES_S = 90

Member = Callable[[Members, int, threading.Event], None]


def wait_shares(members: Members, shares: list[int]) -> None:
    """Wait until the members' numbers of partitions are these, in any order."""

    def shared() -> bool:
        assert not members.failures, members.failures
        return sorted(members.assigned.values()) == sorted(shares)

    wait_until(shared, timeout_s=SETTLES_S, what=f"shares of {shares}")


def test_ten_members_share_evenly(bootstrap: str, names: Names) -> None:
    """Each has as many partitions as the others, all is read, and nothing twice."""
    topic, group = names.topic("many"), names.group()
    create_topics(bootstrap, topic, partitions=30)
    members = Members()
    for number in range(10):
        members.start(number, confluent_member(bootstrap, group, topic, **CONSUMER))
    wait_shares(members, [3] * 10)
    produce_confluent(bootstrap, topic, rows(0, 1000))
    members.wait_read(1000)
    for number in range(7):
        members.stop(number)
    wait_shares(members, [10] * 3)
    produce_confluent(bootstrap, topic, rows(1000, 1500))
    members.wait_read(1500)
    members.stop_all()
    assert sorted(members.values) == sorted(value for _, value, _ in rows(0, 1500))


def test_churn_misses_nothing(bootstrap: str, names: Names) -> None:
    """Members come and go while records are written; every record is read."""
    topic, group = names.topic("churn"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    member = confluent_member(bootstrap, group, topic, **CONSUMER)
    members.start(0, member)
    for number in range(1, 9):
        members.start(number, member)
        first = (number - 1) * 100
        produce_confluent(bootstrap, topic, rows(first, first + 100))
        if number > 2:
            members.stop(number - 2)
    members.wait_read(800)
    members.wait_shared(3)
    members.stop_all()


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_assignors_of_the_server(bootstrap: str, names: Names, assignor: str) -> None:
    """Members may ask for one by name."""
    topic, group = names.topic("assignor"), names.group()
    create_topics(bootstrap, topic, partitions=4)
    members = Members()
    options = {**CONSUMER, "group.remote.assignor": assignor}
    for number in range(2):
        members.start(number, confluent_member(bootstrap, group, topic, **options))
    wait_shares(members, [2, 2])
    described = describe(bootstrap, group)
    assert described.partition_assignor == assignor
    owned = sorted(
        sorted(partition.partition for partition in member.assignment.topic_partitions)
        for member in described.members
    )
    if assignor == "range":
        assert owned == [[0, 1], [2, 3]]
    members.stop_all()


def test_a_static_member_comes_back(bootstrap: str, names: Names) -> None:
    """It finds what it had, and the others keep theirs meanwhile."""
    topic, group = names.topic("static"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    first, second = (static_member(bootstrap, group, topic, name) for name in ("one", "two"))
    wait_until(
        lambda: (len(owned(first)), len(owned(second))) == (PARTITIONS // 2,) * 2,
        timeout_s=SETTLES_S,
        what="both static members to have their share",
    )
    before = owned(first), owned(second)
    first.close()
    first = static_member(bootstrap, group, topic, "one")
    wait_until(lambda: owned(first), timeout_s=SETTLES_S, what="the static member to be back")
    assert (owned(first), owned(second)) == before
    first.close()
    second.close()


def static_member(bootstrap: str, group: str, topic: str, instance: str) -> Consumer:
    """A member of the consumer protocol under an instance's name."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.instance.id": instance,
        **CONSUMER,
    }
    consumer = Consumer(config, logger=QUIET)
    consumer.subscribe([topic])
    return consumer


def owned(consumer: Consumer) -> list[int]:
    """The partitions a consumer has now; it makes progress meanwhile."""
    consumer.poll(0.1)
    return sorted(partition.partition for partition in consumer.assignment())


def test_topics_come_and_grow(bootstrap: str, names: Names) -> None:
    """A topic that is created later, and partitions that are added, are found."""
    topic, group = names.topic("later"), names.group()
    members = Members()
    for number in range(2):
        members.start(number, confluent_member(bootstrap, group, topic, **CONSUMER))
    wait_shares(members, [0, 0])
    create_topics(bootstrap, topic, partitions=2)
    wait_shares(members, [1, 1])
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(READ_TIMEOUT_S)
    wait_shares(members, [3, 3])
    members.stop_all()


def test_regular_expressions_are_matched_by_the_server(bootstrap: str, names: Names) -> None:
    """Also topics that are created later."""
    topic, group = names.topic("regex"), names.group()
    create_topics(bootstrap, topic, partitions=2)
    members = Members()
    pattern = f"^{topic}(-more)?$"
    for number in range(2):
        members.start(number, confluent_member(bootstrap, group, pattern, **CONSUMER))
    wait_shares(members, [1, 1])
    names.topics.append(f"{topic}-more")
    create_topics(bootstrap, f"{topic}-more", partitions=4)
    wait_shares(members, [3, 3])
    members.stop_all()


def test_committed_offsets_are_resumed(bootstrap: str, names: Names) -> None:
    """By members of either protocol, whichever committed."""
    topic, group = names.topic("resumed"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 90))
    seen: list[bytes | None] = []
    for protocol in ("consumer", "classic", "consumer"):
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(config, logger=QUIET)
        consumer.subscribe([topic])
        for _ in range(30):
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            seen.append(message.value())
        consumer.commit(asynchronous=False)
        consumer.close()
    assert seen == [value for _, value, _ in rows(0, 90)]


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_is_upgraded_and_downgraded_online(
    bootstrap: str, names: Names, strategy: str
) -> None:
    """Members of both protocols share the partitions on the way there and back."""
    topic, group = names.topic("migrated"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    old = confluent_member(bootstrap, group, topic, **{"partition.assignment.strategy": strategy})
    new = confluent_member(bootstrap, group, topic, **CONSUMER)
    written = 0

    def write_and_read() -> None:
        nonlocal written
        produce_confluent(bootstrap, topic, rows(written, written + 200))
        written += 200
        members.wait_read(written)

    members.start(0, old)
    members.start(1, old)
    members.wait_shared(2)
    write_and_read()
    assert kind_of(bootstrap, group) is ConsumerGroupType.CLASSIC
    members.start(2, new)
    members.wait_shared(3)
    write_and_read()
    assert kind_of(bootstrap, group) is ConsumerGroupType.CONSUMER
    members.stop(0)
    members.start(3, new)
    members.wait_shared(3)
    write_and_read()
    members.stop(1)
    members.wait_shared(2)
    members.start(4, old)
    members.wait_shared(3)
    write_and_read()
    members.stop(2)
    members.stop(3)
    members.wait_shared(1)
    assert kind_of(bootstrap, group) is ConsumerGroupType.CLASSIC
    members.start(5, old)
    members.wait_shared(2)
    write_and_read()
    members.stop_all()


def kind_of(bootstrap: str, group: str) -> ConsumerGroupType:
    """The type of a group, as it is listed."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    listed = admin.list_consumer_groups(request_timeout=READ_TIMEOUT_S).result(READ_TIMEOUT_S)
    [kind] = [found.type for found in listed.valid if found.group_id == group]
    return kind


def describe(bootstrap: str, group: str):  # type: ignore[no-untyped-def]
    """A group as it is described."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    return admin.describe_consumer_groups([group])[group].result(READ_TIMEOUT_S)


def test_groups_are_listed_and_described(bootstrap: str, names: Names) -> None:
    """By type and state, with what members have and are to have."""
    topic, group = names.topic("described"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    for number in range(2):
        members.start(number, confluent_member(bootstrap, group, topic, **CONSUMER))
    members.wait_shared(2)
    wait_until(
        lambda: describe(bootstrap, group).state is ConsumerGroupState.STABLE,
        timeout_s=SETTLES_S,
        what="a stable group",
    )
    described = describe(bootstrap, group)
    assert described.type is ConsumerGroupType.CONSUMER
    has = [len(member.assignment.topic_partitions) for member in described.members]
    target = [len(member.target_assignment.topic_partitions) for member in described.members]
    assert has == target == [PARTITIONS // 2] * 2
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    listed = admin.list_consumer_groups(
        states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CONSUMER}
    ).result(READ_TIMEOUT_S)
    assert group in {found.group_id for found in listed.valid}
    members.stop_all()
    admin.delete_consumer_groups([group])[group].result(READ_TIMEOUT_S)
