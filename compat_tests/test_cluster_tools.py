"""Kafka's command line tools, and single requests, at a cluster of three brokers.

``make compat-cluster`` runs them; with ``BOOTSTRAP=a:1,b:2,c:3`` they run against Apache Kafka.
"""

import json
import re
from collections import Counter

import pytest

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import VERSION
from compat_tests.raw_client import RawClient, RawConnection
from compat_tests.test_java_tools import TOPICS
from kwire.errors import ErrorCode
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.waiting import wait_until

CLUSTER = "org.apache.kafka.tools.ClusterTool"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
BROKER, LOGGER = 4, 8
LEVEL = r"(4.3-IV0|UNKNOWN \[33\])" if VERSION == "4.3.1" else "4.4-IV2"
"""The metadata.version of a new cluster; an older tool doesn't know that of Kafka 4.4."""


@pytest.fixture
def nodes(bootstrap: str) -> dict[int, str]:
    """The addresses of three brokers, by node id."""
    if bootstrap.count(",") != 2:
        pytest.skip("needs three brokers: make compat-cluster")
    with RawClient(bootstrap) as raw:
        brokers = raw.ask(MetadataRequest(topics=[]), 12).brokers
    found = {node.node_id: f"{node.host}:{node.port}" for node in brokers}
    assert sorted(found.values()) == sorted(bootstrap.split(","))
    return found


def table(printed: str) -> list[list[str]]:
    """The columns of each line below the head, which tabs or spaces separate."""
    return [line.split() for line in printed.splitlines()[1:] if line.strip()]


def test_the_quorum(nodes: dict[int, str]) -> None:
    """Three voters with a directory and an address each, one of them the leader."""
    server = ("--bootstrap-server", nodes[2])
    printed = run_tool(QUORUM, *server, "describe", "--status")
    status = dict(line.split(":", 1) for line in printed.splitlines() if ":" in line)
    assert int(status["LeaderId"]) in nodes
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) > 0
    voters = json.loads(status["CurrentVoters"])
    assert {voter["id"] for voter in voters} == set(nodes)
    assert all(len(voter["directoryId"]) == 22 for voter in voters)
    assert len({voter["directoryId"] for voter in voters}) == 3
    assert all(len(voter["endpoints"]) == 1 for voter in voters)
    assert json.loads(status["CurrentObservers"]) == []
    rows = table(run_tool(QUORUM, *server, "describe", "--replication"))
    assert {int(row[0]): row[-1] for row in rows} == {
        node: "Leader" if node == int(status["LeaderId"]) else "Follower" for node in nodes
    }
    assert {voter["directoryId"] for voter in voters} == {row[1] for row in rows}


def test_the_cluster_and_its_features(nodes: dict[int, str]) -> None:
    """The brokers give the same id, brokers and finalised levels."""
    some = nodes[1], nodes[3]
    ids = {run_tool(CLUSTER, "cluster-id", "--bootstrap-server", at) for at in some}
    [told] = ids
    assert re.fullmatch(r"Cluster ID: \S{22}\n", told)
    server = ("--bootstrap-server", nodes[2], "--include-fenced-brokers")
    rows = table(run_tool(CLUSTER, "list-endpoints", *server))
    assert {int(row[0]): f"{row[1]}:{row[2]}" for row in rows} == nodes
    assert {tuple(row[3:]) for row in rows} == {("null", "unfenced", "broker")}
    levels = {run_tool(FEATURES, "--bootstrap-server", at, "describe") for at in some}
    parts = {re.sub(r"Epoch: \d+", "", one) for one in levels}
    [features] = parts
    assert re.search(rf"Feature: metadata.version.*FinalizedVersionLevel: {LEVEL}", features)
    assert re.search(r"Feature: transaction.version.*FinalizedVersionLevel: 2", features)


def test_topics_are_spread(nodes: dict[int, str], names: Names) -> None:
    """Two of six partitions for each broker, one more with each alteration, or as the user says."""
    topic, placed = names.topic("java"), names.topic("java")
    server = ("--bootstrap-server", nodes[1])
    once = ("--partitions", "6", "--replication-factor", "1")
    run_tool(TOPICS, *server, "--create", "--topic", topic, *once)
    run_tool(TOPICS, *server, "--create", "--topic", placed, "--replica-assignment", "3,1,2,2")
    refused = run_tool(
        TOPICS,
        *server,
        "--create",
        "--topic",
        f"{topic}-4",
        "--replication-factor",
        "4",
        fails=True,
    )
    assert (
        "InvalidReplicationFactorException: Unable to replicate the partition 4 time(s)" in refused
    )
    assert "only 3 broker(s) are registered" in refused

    def leaders(name: str, at: str) -> list[int]:
        printed = run_tool(TOPICS, "--bootstrap-server", at, "--describe", "--topic", name)
        rows = re.findall(r"Leader: (\d+)\s+Replicas: (\d+)\s+Isr: (\d+)\s", printed)
        assert all(len(set(row)) == 1 for row in rows)
        return [int(row[0]) for row in rows]

    assert Counter(leaders(topic, nodes[2])) == dict.fromkeys(nodes, 2)
    assert leaders(placed, nodes[3]) == [3, 1, 2, 2]
    run_tool(TOPICS, *server, "--alter", "--topic", topic, "--partitions", "9")
    assert len(leaders(topic, nodes[3])) == 9
    described = run_tool(LOG_DIRS, *server, "--describe", "--topic-list", placed)
    found = json.loads(next(line for line in described.splitlines() if line.startswith("{")))
    held = {
        broker["broker"]: sorted(p["partition"] for d in broker["logDirs"] for p in d["partitions"])
        for broker in found["brokers"]
    }
    assert held == {1: [f"{placed}-1"], 2: [f"{placed}-2", f"{placed}-3"], 3: [f"{placed}-0"]}


def test_brokers_have_the_same_versions(nodes: dict[int, str]) -> None:
    """One block for each broker, with its address."""
    printed = run_tool(VERSIONS, "--bootstrap-server", nodes[1])
    blocks = re.findall(
        r"^(\S+) \(id: (\d+) rack: null isFenced: false\) -> \((.*?)^\)",
        printed,
        re.MULTILINE | re.DOTALL,
    )
    assert {int(node): address for address, node, _ in blocks} == nodes
    assert len({versions for _, _, versions in blocks}) == 1
    assert "Fetch(1): 4 to 18 [usable: 18]" in blocks[0][2]


def test_a_broker_knows_the_configs_of_itself_alone(nodes: dict[int, str]) -> None:
    """Those of another broker have to be asked for there; the cluster's own are everywhere."""
    raw = RawConnection(nodes[1])
    for kind, expected in ((BROKER, "1 or empty string, but"), (LOGGER, "1 but")):
        resources = [DescribeConfigsResource(resource_type=kind, resource_name="2")]
        [answer] = raw.ask(DescribeConfigsRequest(resources=resources), 4).results
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == f"Unexpected broker id, expected {expected} received 2"
    everywhere = [DescribeConfigsResource(resource_type=BROKER, resource_name="")]
    [answer] = raw.ask(DescribeConfigsRequest(resources=everywhere), 4).results
    assert answer.error_code == ErrorCode.NONE
    raw.close()


def test_a_fetch_names_the_new_leader(nodes: dict[int, str], names: Names) -> None:
    """The partition was here until its topic was deleted and created elsewhere (KIP-951)."""
    topic = names.topic("moved")
    raw = RawConnection(nodes[1])

    def create(node: int) -> bytes:
        placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=[node])]
        wanted = CreatableTopic(
            name=topic, num_partitions=-1, replication_factor=-1, assignments=placed
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)

        def created() -> bytes | None:
            [told] = raw.ask(request, 7).topics
            return told.topic_id if told.error_code == ErrorCode.NONE else None

        topic_id = wait_until(created, what="the topic")
        wait_until(lambda: leader() == node, what="its leader")
        return topic_id

    def leader() -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        [told] = raw.ask(request, 12).topics
        return told.partitions[0].leader_id if told.partitions else -1

    def fetch(topic_id: bytes) -> tuple[ErrorCode, tuple[int, int] | None, dict[int, str]]:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic_id=topic_id, partitions=[wanted])]
        answer = raw.ask(FetchRequest(topics=topics, max_wait_ms=0, min_bytes=1), 17)
        [row] = answer.responses[0].partitions
        now = row.current_leader
        told = {one.node_id: f"{one.host}:{one.port}" for one in answer.node_endpoints}
        return ErrorCode(row.error_code), now and (now.leader_id, now.leader_epoch), told

    here = create(1)
    wait_until(lambda: fetch(here) == (ErrorCode.NONE, None, {}), what="a leader")
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    assert raw.ask(gone, 6).responses[0].error_code == ErrorCode.NONE
    elsewhere = create(3)
    assert fetch(elsewhere) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, (3, 0), {3: nodes[3]})
    raw.close()
