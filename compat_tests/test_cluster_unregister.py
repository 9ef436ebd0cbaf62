"""A broker leaves the cluster for good, with ``kafka-cluster.sh unregister`` and an admin client;
or for a while, and stays eligible to lead.

The cluster is the tests' own, because they end its brokers; see ``three_brokers``.
"""

import re

from confluent_kafka.admin import AdminClient

from compat_tests import own_cluster
from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.raw_client import RawConnection
from compat_tests.test_cluster_tools import CLUSTER
from compat_tests.three_brokers import AFTER_S, PARTITIONS, Cluster, Topic
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.testing.waiting import wait_until

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
names = own_cluster.names
topic = own_cluster.topic

LEAVES = 3


def unregister(cluster: Cluster, node_id: int, *, fails: bool = False) -> str:
    """What the tool prints."""
    at = ("--bootstrap-server", cluster.brokers[1].bootstrap, "--id", str(node_id))
    return run_tool(CLUSTER, "unregister", *at, fails=fails)


def described(cluster: Cluster) -> dict[int, bool]:
    """The brokers that DescribeCluster names, and whether they are fenced."""
    raw = RawConnection(cluster.brokers[1].bootstrap)
    try:
        answer = raw.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    finally:
        raw.close()
    return {broker.broker_id: broker.is_fenced for broker in answer.brokers}


def listed(cluster: Cluster) -> dict[int, str]:
    """The state of each broker that the tool lists."""
    at = ("--bootstrap-server", cluster.brokers[1].bootstrap, "--include-fenced-brokers")
    printed = run_tool(CLUSTER, "list-endpoints", *at)
    rows = re.findall(r"^(\d+)\s.*\s(fenced|unfenced)\s", printed, re.MULTILINE)
    return {int(node): state for node, state in rows}


def test_an_unknown_broker(cluster: Cluster) -> None:
    """It can't leave."""
    assert "Broker ID 9 is not currently registered" in unregister(cluster, 9, fails=True)


def test_a_stopped_broker_leaves(cluster: Cluster, topic: Topic) -> None:
    """Nobody names it any more, but as a replica; with its data it joins again."""
    leaving = cluster.brokers[LEAVES]
    leaving.stop()
    try:
        wait_until(
            lambda: described(cluster) == {1: False, 2: False, 3: True},
            timeout_s=AFTER_S,
            what="its fence",
        )
        assert listed(cluster) == {1: "unfenced", 2: "unfenced", 3: "fenced"}
        assert unregister(cluster, LEAVES) == f"Broker {LEAVES} is no longer registered.\n"
        wait_until(
            lambda: described(cluster) == {1: False, 2: False}, timeout_s=AFTER_S, what="its end"
        )
        assert listed(cluster) == {1: "unfenced", 2: "unfenced"}
        admin = AdminClient({"bootstrap.servers": cluster.brokers[1].bootstrap}, logger=QUIET)
        found = admin.list_topics(topic.name, timeout=READ_TIMEOUT_S)
        assert sorted(found.brokers) == [1, 2]
        rows = found.topics[topic.name].partitions.values()
        assert all(sorted(row.replicas) == [1, 2, 3] for row in rows)
        topic.wait_in_sync(2)
        assert f"Broker ID {LEAVES} is not" in unregister(cluster, LEAVES, fails=True)
    finally:
        leaving.restart()
    topic.wait_in_sync(3)
    assert described(cluster) == {1: False, 2: False, 3: False}


def test_an_eligible_replica_is_shown(cluster: Cluster, names: Names) -> None:
    """One that had all records when fewer were left than min.insync.replicas (KIP-966)."""
    topic = Topic(cluster, names.topic(), 3)
    away = cluster.brokers[LEAVES]
    assert eligible(topic) == {("", "")}
    away.stop()
    try:
        topic.wait_in_sync(2)
        assert eligible(topic) == {(str(LEAVES), "")}
    finally:
        away.restart()
    topic.wait_in_sync(3)
    assert eligible(topic) == {("", "")}


def eligible(topic: Topic) -> set[tuple[str, str]]:
    """The eligible and the last known eligible leader replicas that the tool shows."""
    rows = re.findall(r"Elr: ([0-9,]*)\s*LastKnownElr: ([0-9,]*)\s*$", topic.tool(), re.MULTILINE)
    assert len(rows) == PARTITIONS
    return set(rows)
