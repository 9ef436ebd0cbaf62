"""Replicas fall behind, and move to other brokers: a part of what ``make cluster-chaos`` runs.

The cases are those of Apache Kafka's system tests replication_replica_failure_test and
reassign_partitions_test. They run on four brokers, so that three replicas can move.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import NewTopic
from kafka.structs import TopicPartition

from compat_tests import own_cluster
from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.reading import read_all
from compat_tests.test_cluster_kills import REASSIGN, check_replicas, log_bytes
from compat_tests.three_brokers import (
    AFTER_S,
    Cluster,
    Topic,
    partition_directories,
    three_brokers,
)
from compat_tests.verifiable import Producing
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.testing.asking import Asker
from kwire.testing.waiting import wait_until

NODES = (1, 2, 3, 4)
SETTINGS = {
    "replica.lag.time.max.ms": "6000",
    # A broker that stands still is not fenced. Apache Kafka registers one that was the controller,
    # and starts again, only when its old session is over.
    "broker.session.timeout.ms": "25000",
}
PARTITIONS = 20
PATIENCE_S = 150

bootstrap = own_cluster.bootstrap
durable = own_cluster.durable
names = own_cluster.names


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four brokers, whose followers are out of sync long before a session ends."""
    with three_brokers(tmp_path_factory.mktemp("moves"), SETTINGS, len(NODES)) as cluster:
        yield cluster


def in_sync(cluster: Cluster, node: int, name: str) -> list[int]:
    """The ISR of partition 0 as this broker tells it: another one may stand still."""
    asker = Asker()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    try:
        [told] = asker.ask(cluster.brokers[node].bootstrap, request, 12, MetadataResponse).topics
    finally:
        asker.close()
    [found] = [one.isr_nodes for one in told.partitions if one.partition_index == 0]
    return list(found)


def test_a_follower_that_stands_still(cluster: Cluster, names: Names) -> None:
    """It is out of sync after the lag limit, producers go on, and it is in sync when it goes on.

    Records have keys of all partitions. Without keys, a producer may write to others for longer
    than the lag limit, and a follower that lacks no record isn't behind. How long it takes is for
    tests in virtual time.
    """
    topic = Topic(cluster, names.topic("still"), 2)
    leader, replicas = topic.partitions()[0]
    follower = next(node for node in replicas if node != leader)
    pid = cluster.brokers[follower].pid
    keys = ("--repeating-keys", "30")
    with Producing(cluster.bootstrap, topic.name, options=keys) as producing:
        producing.wait_for_more(200)
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(
                lambda: follower not in in_sync(cluster, leader, topic.name),
                timeout_s=AFTER_S,
                what="the ISR to shrink",
            )
            producing.wait_for_more(200)
        finally:
            os.kill(pid, signal.SIGCONT)
        topic.wait_in_sync(3)


def _check_places(
    cluster: Cluster, name: str, after: dict[int, list[int]], starts: dict[int, int]
) -> None:
    """Each partition has directories on its replicas alone, which are equal from its start on."""
    for number, replicas in after.items():
        places = dict(zip(NODES, partition_directories(cluster, f"{name}-{number}"), strict=True))
        wait_until(
            lambda places=places, replicas=replicas: (  # type: ignore[misc]
                {node for node, place in places.items() if place.exists()} == {*replicas}
            ),
            timeout_s=AFTER_S,
            what=f"the replicas of {name}-{number} on {replicas} alone",
        )
        held, start = [places[node] for node in replicas], starts[number]
        wait_until(
            lambda held=held, start=start: (  # type: ignore[misc]
                len({log_bytes(one, start) for one in held}) == 1
            ),
            timeout_s=AFTER_S,
            what=f"equal replicas of {name}-{number}",
        )
    for number in (0, PARTITIONS - 1):  # as Kafka's own tool reads them
        places = dict(zip(NODES, partition_directories(cluster, f"{name}-{number}"), strict=True))
        start = starts[number]
        check_replicas([places[node] for node in after[number]], start)


def test_a_reassignment_while_brokers_bounce(
    cluster: Cluster,
    admin: KafkaAdminClient,
    names: Names,
    tmp_path: Path,
    durable: tuple[str, str],
) -> None:
    """Twenty partitions that begin behind offset 0 move to a broker that had none of them.

    Each keeps two of its three brokers, min.insync.replicas is 3, and nothing is lost. In the end
    the three replicas are equal, and the fourth broker keeps no directory, although it may have
    been down when its replica was removed.
    """
    where, name = cluster.bootstrap, names.topic("moved")
    configs = {"min.insync.replicas": "3"}
    before = {
        number: [1 + number % 3, 1 + (number + 1) % 3, 1 + (number + 2) % 3]
        for number in range(PARTITIONS)
    }
    admin.create_topics([NewTopic(name, -1, -1, replica_assignments=before, topic_configs=configs)])
    rows = [(b"", b"-1", [])] * 400
    produce_confluent(where, name, rows, partitioner="random")
    consumer = KafkaConsumer(bootstrap_servers=where)
    places = [TopicPartition(name, number) for number in range(PARTITIONS)]
    ends = consumer.end_offsets(places)
    consumer.close()
    admin.delete_records(ends)
    after = {number: [NODES[-1], *replicas[:2]] for number, replicas in before.items()}
    wanted = [
        {"topic": name, "partition": number, "replicas": replicas}
        for number, replicas in after.items()
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    tool = ("--bootstrap-server", where, "--reassignment-json-file", str(plan))
    with Producing(where, name, options=durable) as producing:
        producing.wait_for_more(1000)
        run_tool(REASSIGN, *tool, "--execute")
        for broker in cluster.brokers.values():
            broker.stop()
            broker.restart()
        wait_until(
            lambda: run_tool(REASSIGN, *tool, "--verify").count("is completed") == PARTITIONS,
            timeout_s=PATIENCE_S,
            what="the reassignment",
        )
        producing.wait_for_more(200)
        producing.stop()
    found = [int(value) for _, _, value in read_all(where, name, PARTITIONS)]
    assert -1 not in found
    assert len(found) == len(set(found))
    assert set(producing.acknowledged) <= set(found)
    _check_places(cluster, name, after, {one.partition: end for one, end in ends.items()})
