"""Topics with three replicas, seen with stock clients and tools while brokers stop and are killed.

The cluster is the tests' own, because they end its brokers; see ``three_brokers``.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from compat_tests import own_cluster
from compat_tests.clients import QUIET
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.reading import read_all
from compat_tests.three_brokers import (
    AFTER_S,
    PARTITIONS,
    Cluster,
    Topic,
    Writer,
)
from kwire.testing.waiting import wait_until

ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
names = own_cluster.names
topic = own_cluster.topic


def outcome(bootstrap: str, topic: str, acks: str) -> str:
    """The name of the error that a record for partition 0 gets, written once; empty for none."""
    told: list[str] = []
    options = {"acks": acks, "retries": 0, "message.timeout.ms": 20_000}
    producer = Producer({"bootstrap.servers": bootstrap, **options}, logger=QUIET)
    producer.produce(
        topic,
        b"value",
        partition=0,
        on_delivery=lambda error, _: told.append(error.name() if error else ""),
    )
    producer.flush(AFTER_S)
    [found] = told
    return found


def test_replicas_are_spread_and_in_sync(topic: Topic) -> None:
    """Each broker leads one partition, and is named in all."""
    found = topic.partitions()
    assert sorted(leader for leader, _ in found.values()) == [1, 2, 3]
    printed = topic.tool()
    assert "ReplicationFactor: 3" in printed
    assert printed.count("Isr: ") == PARTITIONS
    assert "Partition:" not in topic.tool("--under-replicated-partitions")


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_record_is_acknowledged_by_all(bootstrap: str, topic: Topic, client: str) -> None:
    """And read by a consumer."""
    count = 300
    if client == "confluent":
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"}, logger=QUIET)
        for number in range(count):
            producer.produce(topic.name, str(number), partition=number % PARTITIONS)
        assert not producer.flush(AFTER_S)
    else:
        other = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
        sent = [
            other.send(topic.name, str(number).encode(), partition=number % PARTITIONS)
            for number in range(count)
        ]
        assert [one.get(AFTER_S).offset for one in sent] == [
            number // PARTITIONS for number in range(count)
        ]
        other.close()
    values = [value for _, _, value in read_all(bootstrap, topic.name, PARTITIONS)]
    assert sorted(map(int, values)) == list(range(count))


def test_too_few_replicas_in_sync(cluster: Cluster, bootstrap: str, names: Names) -> None:
    """acks=all is refused while a broker is missing, other acks are not."""
    topic = Topic(cluster, names.topic("strict"), 3)
    leader = topic.partitions()[0][0]
    follower = next(node for node in cluster.brokers if node != leader)
    assert outcome(bootstrap, topic.name, "all") == ""
    cluster.brokers[follower].stop()
    try:
        topic.wait_in_sync(2)
        assert outcome(bootstrap, topic.name, "all") == "NOT_ENOUGH_REPLICAS"
        assert outcome(bootstrap, topic.name, "1") == ""
        assert topic.tool("--under-min-isr-partitions").count("Partition:") == PARTITIONS
    finally:
        cluster.brokers[follower].restart()
    topic.wait_in_sync(3)
    assert outcome(bootstrap, topic.name, "all") == ""
    assert len(list(read_all(bootstrap, topic.name, PARTITIONS))) == 3


def test_partitions_are_under_replicated_while_a_broker_is_stopped(
    cluster: Cluster, topic: Topic
) -> None:
    """Its leaderships move first; afterwards it leads again what it is the first replica of."""
    stopped = topic.partitions()[0][0]
    cluster.brokers[stopped].stop()
    try:
        topic.wait_in_sync(2)
        assert all(leader != stopped for leader, _ in topic.partitions().values())
        printed = topic.tool("--under-replicated-partitions")
        assert printed.count("Partition:") == PARTITIONS
        assert "Partition:" not in topic.tool("--unavailable-partitions")
    finally:
        cluster.brokers[stopped].restart()
    topic.wait_in_sync(3)
    assert "Partition:" not in topic.tool("--under-replicated-partitions")
    server = ("--bootstrap-server", cluster.bootstrap)
    where = ("--topic", topic.name, "--partition", "0")
    run_tool(ELECTION, *server, "--election-type", "preferred", *where)
    wait_until(lambda: topic.partitions()[0][0] == stopped, what="the preferred leader")


@pytest.mark.parametrize("end", ["kill", "stop"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_producer_goes_on_without_loss(
    cluster: Cluster, bootstrap: str, topic: Topic, end: str, idempotent: bool
) -> None:
    """Whatever was acknowledged is there in the end; in order and once if it is idempotent."""
    gone = cluster.brokers[topic.partitions()[0][0]]
    with Writer(bootstrap, topic.name, **{"enable.idempotence": idempotent}) as writer:
        writer.wait_for_more(100)
        getattr(gone, end)()
        try:
            writer.wait_for_more(300)
        finally:
            gone.restart()
        topic.wait_in_sync(3)
        writer.wait_for_more(100)
    assert not writer.failed
    found: dict[int, list[int]] = {}
    for partition, _, value in read_all(bootstrap, topic.name, PARTITIONS):
        found.setdefault(partition, []).append(int(value))
    counts = Counter(number for numbers in found.values() for number in numbers)
    assert {int(value) for value in writer.acknowledged} <= set(counts)
    if idempotent:
        assert set(counts.values()) == {1}
        assert all(numbers == sorted(numbers) for numbers in found.values())


def test_a_group_goes_on(cluster: Cluster, bootstrap: str, topic: Topic, names: Names) -> None:
    """A consumer sees each record, in order, though the broker of a partition is killed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": names.group(),
            "auto.offset.reset": "earliest",
        },
        logger=QUIET,
    )
    consumer.subscribe([topic.name])
    found: dict[int, list[int]] = {}

    def read_until(count: int) -> None:
        def has_enough() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.setdefault(message.partition(), []).append(int(message.value()))
            return sum(map(len, found.values())) >= count

        wait_until(has_enough, timeout_s=AFTER_S, what=f"{count} records", interval_s=0)

    gone = cluster.brokers[topic.partitions()[0][0]]
    try:
        with Writer(bootstrap, topic.name, **{"enable.idempotence": True}) as writer:
            read_until(100)
            gone.kill()
            writer.wait_for_more(300)
        read_until(len(writer.acknowledged))
    finally:
        gone.restart()
        consumer.close()
    topic.wait_in_sync(3)
    assert sorted(number for numbers in found.values() for number in numbers) == list(
        range(len(writer.acknowledged))
    )
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_partitions_are_reassigned(
    cluster: Cluster, bootstrap: str, admin: KafkaAdminClient, names: Names, tmp_path: Path
) -> None:
    """A partition with one replica moves to another broker with its records, and back to more."""
    name = names.topic("moved")
    admin.create_topics([NewTopic(name, -1, -1, replica_assignments={0: [1]})])
    topic = Topic.__new__(Topic)
    topic.name, topic.cluster = name, cluster
    for number in range(5):
        assert outcome(bootstrap, name, "all") == "", number
    plan = tmp_path / "plan.json"
    for replicas in ([2], [3, 1, 2]):
        wanted = [{"topic": name, "partition": 0, "replicas": replicas}]
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        server = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan))
        run_tool(REASSIGN, *server, "--execute")
        wait_until(
            lambda r=replicas: topic.partitions()[0][1] == sorted(r),  # type: ignore[misc]
            timeout_s=AFTER_S,
            what="the new replicas",
        )
        assert "is completed" in run_tool(REASSIGN, *server, "--verify")
        assert outcome(bootstrap, name, "all") == ""
    assert len(list(read_all(bootstrap, name, 1))) == 7
