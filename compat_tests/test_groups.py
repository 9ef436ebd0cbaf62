"""Consumer groups with several members: rebalances, offsets, static members."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from compat_tests.clients import QUIET, READ_TIMEOUT_S, Row, produce_confluent
from compat_tests.conftest import Names
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

PARTITIONS = 6


def rows(first: int, last: int) -> list[Row]:
    """Numbered rows, spread over partitions by their keys."""
    return [(b"%d" % n, b"%d" % n, []) for n in range(first, last)]


class Members:
    """Members of one group in threads of their own, and all that they have read."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.assigned: dict[int, int] = {}
        self.failures: list[BaseException] = []
        self._stops: dict[int, threading.Event] = {}
        self._threads: dict[int, threading.Thread] = {}

    def start(self, number: int, run: Callable[["Members", int, threading.Event], None]) -> None:
        """Start a member."""
        stop = threading.Event()

        def body() -> None:
            try:
                run(self, number, stop)
            except BaseException as error:
                self.failures.append(error)
            finally:
                self.assigned.pop(number, None)

        self._stops[number] = stop
        self._threads[number] = threading.Thread(target=body, daemon=True)
        self._threads[number].start()

    def stop(self, number: int) -> None:
        """Let a member leave and wait until it has."""
        self._stops[number].set()
        self._threads[number].join(READ_TIMEOUT_S)
        assert not self._threads[number].is_alive()

    def stop_all(self) -> None:
        """Let everybody leave."""
        for number in self._stops:
            self.stop(number)
        assert not self.failures, self.failures

    def wait_shared(self, members: int) -> None:
        """Wait until so many members share all partitions, each with some."""

        def shared() -> bool:
            assert not self.failures, self.failures
            counts = list(self.assigned.values())
            return sum(counts) == PARTITIONS and sum(count > 0 for count in counts) == members

        wait_until(shared, timeout_s=60, what=f"{members} members to share {PARTITIONS} partitions")

    def wait_read(self, count: int) -> None:
        """Wait until so many different values have been read."""

        def is_read() -> bool:
            assert not self.failures, self.failures
            return len(set(self.values)) == count

        wait_until(is_read, timeout_s=60, what=f"{count} values")


def confluent_member(
    bootstrap: str, group: str, topic: str, **options: str
) -> Callable[[Members, int, threading.Event], None]:
    """A member with librdkafka."""

    def run(members: Members, number: int, stop: threading.Event) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **options,
        }
        consumer = Consumer(config, logger=QUIET)
        consumer.subscribe([topic])
        while not stop.is_set():
            message = consumer.poll(0.1)
            members.assigned[number] = len(consumer.assignment())
            if message is not None and message.error() is None:
                value = message.value()
                assert value is not None
                members.values.append(value)
        consumer.close()

    return run


def kafka_python_member(
    bootstrap: str, group: str, topic: str
) -> Callable[[Members, int, threading.Event], None]:
    """A member with kafka-python.

    One that is closed between the answer with its member id and the JoinGroup that has it doesn't
    leave: the others would wait for it until its session ends. So it leaves when it has joined. And
    one that leads its group may share out a topic whose partitions it doesn't know yet, as if it
    had none, and doesn't always do it again; so it asks for them before it joins. A poll that ends
    while a rebalance goes on may lose its outcome, so polls are long.
    """

    def run(members: Members, number: int, stop: threading.Event) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        wait_until(lambda: consumer.partitions_for_topic(topic), what=f"partitions of {topic}")
        consumer.subscribe([topic])
        while not (stop.is_set() and consumer.assignment()):
            for messages in consumer.poll(1000).values():
                members.values += [message.value for message in messages]
            members.assigned[number] = len(consumer.assignment())
        consumer.close()

    return run


def aiokafka_member(
    bootstrap: str, group: str, topic: str
) -> Callable[[Members, int, threading.Event], None]:
    """A member with aiokafka."""

    def run(members: Members, number: int, stop: threading.Event) -> None:
        async def body() -> None:
            consumer = AIOKafkaConsumer(
                topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
            )
            await consumer.start()
            try:
                while not stop.is_set():
                    found = await consumer.getmany(timeout_ms=100)
                    members.assigned[number] = len(consumer.assignment())
                    for messages in found.values():
                        members.values += [message.value for message in messages]
            finally:
                await consumer.stop()

        asyncio.run(body())

    return run


KINDS = {
    "confluent": confluent_member,
    "kafka-python": kafka_python_member,
    "aiokafka": aiokafka_member,
}


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go(bootstrap: str, names: Names, kind: str) -> None:
    """Members share the partitions, those that stay take over, and no record is missed."""
    topic, group = names.topic("shared"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    produce_confluent(bootstrap, topic, rows(0, 500))
    members = Members()
    member = KINDS[kind](bootstrap, group, topic)
    members.start(0, member)
    members.wait_shared(1)
    members.wait_read(500)
    members.start(1, member)
    members.start(2, member)
    members.wait_shared(3)
    produce_confluent(bootstrap, topic, rows(500, 1000))
    members.wait_read(1000)
    members.stop(0)
    members.wait_shared(2)
    produce_confluent(bootstrap, topic, rows(1000, 1500))
    members.wait_read(1500)
    members.stop_all()


def test_cooperative_members(bootstrap: str, names: Names) -> None:
    """The cooperative-sticky assignor moves partitions step by step."""
    topic, group = names.topic("cooperative"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    members = Members()
    option = {"partition.assignment.strategy": "cooperative-sticky"}
    member = confluent_member(bootstrap, group, topic, **option)
    for number in range(3):
        members.start(number, member)
    members.wait_shared(3)
    produce_confluent(bootstrap, topic, rows(0, 600))
    members.wait_read(600)
    members.stop(1)
    members.wait_shared(2)
    members.stop_all()
    assert sorted(members.values) == sorted(value for _, value, _ in rows(0, 600))


def test_a_static_member_comes_back(bootstrap: str, names: Names) -> None:
    """A static member that restarts gets its partitions back, and the other keeps its own."""
    topic, group = names.topic("static"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)

    def join(instance: str) -> Consumer:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": instance,
            "session.timeout.ms": 30_000,
        }
        consumer = Consumer(config, logger=QUIET)
        consumer.subscribe([topic])
        return consumer

    def assignment(consumer: Consumer) -> list[int]:
        consumer.poll(0.1)
        return sorted(partition.partition for partition in consumer.assignment())

    first, second = join("one"), join("two")

    def both_have_some() -> bool:
        sizes = {len(assignment(first)), len(assignment(second))}
        return sizes == {PARTITIONS // 2}

    wait_until(both_have_some, timeout_s=60, what="both static members to have partitions")
    before = assignment(second)
    first.close()
    first = join("one")
    wait_until(lambda: assignment(first), timeout_s=60, what="the static member to be back")
    assert assignment(second) == before
    first.close()
    second.close()


def test_committed_offsets_are_resumed(bootstrap: str, names: Names) -> None:
    """A new member of a group goes on where the last one committed."""
    topic, group = names.topic("resumed"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 100))
    seen = []
    for count in (40, 60):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            },
            logger=QUIET,
        )
        consumer.subscribe([topic])
        for _ in range(count):
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            seen.append(message.value())
        consumer.commit(asynchronous=False)
        committed = consumer.committed([TopicPartition(topic, 0)], READ_TIMEOUT_S)
        assert committed[0].offset == len(seen)
        consumer.close()
    assert seen == [value for _, value, _ in rows(0, 100)]


def test_groups_are_listed_described_altered_and_deleted(bootstrap: str, names: Names) -> None:
    """What an admin client sees of a group, and does to it."""
    topic, group = names.topic("admin"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 10))
    members = Members()
    members.start(0, confluent_member(bootstrap, group, topic))
    members.wait_read(10)
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    described = client.describe_consumer_groups([group])[group].result(READ_TIMEOUT_S)
    assert described.state.name == "STABLE"
    assert [len(m.assignment.topic_partitions) for m in described.members] == [1]
    assert described.partition_assignor == "range"
    listed = client.list_consumer_groups().result(READ_TIMEOUT_S)
    assert group in [g.group_id for g in listed.valid]
    members.stop_all()
    wait_until(
        lambda: client.describe_consumer_groups([group])[group].result().state.name == "EMPTY",
        what="the group to be empty",
    )
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    client.alter_consumer_group_offsets([wanted])[group].result(READ_TIMEOUT_S)
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked)[group].result(READ_TIMEOUT_S)
    assert [(p.topic, p.offset) for p in found.topic_partitions] == [(topic, 4)]
    client.delete_consumer_groups([group])[group].result(READ_TIMEOUT_S)
    listed = client.list_consumer_groups().result(READ_TIMEOUT_S)
    assert group not in [g.group_id for g in listed.valid]


def test_a_silent_member_is_dropped(bootstrap: str, names: Names) -> None:
    """A member that stops sending heartbeats loses its partitions to the others."""
    topic, group = names.topic("silent"), names.group()
    create_topics(bootstrap, topic, partitions=PARTITIONS)
    options = {"session.timeout.ms": 6000, "max.poll.interval.ms": 6000}
    config = {"bootstrap.servers": bootstrap, "group.id": group, **options}
    silent = Consumer(config, logger=QUIET)
    silent.subscribe([topic])
    wait_until(lambda: silent.poll(0.1) or silent.assignment(), what="the first member")
    # From here on the first member isn't polled any more, so librdkafka lets it leave the group.
    members = Members()
    started = time.monotonic()
    members.start(0, confluent_member(bootstrap, group, topic))
    members.wait_shared(1)
    assert time.monotonic() - started < 60
    members.stop_all()
    silent.close()
