"""Kafka's own programs while brokers end again and again: what ``make cluster-chaos`` runs.

The cases are those of Apache Kafka's system tests: replication_test, transactions, consumer_test,
streams_broker_bounce. They take some minutes. ``test_cluster_moves`` has more.
"""

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests import own_cluster
from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import command, quick
from compat_tests.raw_client import RawClient
from compat_tests.reading import count_of, read_all, read_rows
from compat_tests.test_cluster_kills import check_replicas
from compat_tests.test_copiers import Copiers, copying
from compat_tests.test_streams import (
    LINES_PER_ROUND,
    SOURCE,
    TARGET,
    WORD_COUNT,
    running,
    settings,
    write_lines,
)
from compat_tests.three_brokers import (
    PARTITIONS,
    Cluster,
    Topic,
    partition_directories,
)
from compat_tests.verifiable import Consuming, Producing
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
PATIENCE_S = 150
BOUNCES = 3

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
durable = own_cluster.durable
names = own_cluster.names
topic = own_cluster.topic


def controller(cluster: Cluster) -> int:
    """The broker that is the controller."""
    data = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[data])
    with RawClient(cluster.bootstrap.split(",")[0]) as raw:
        answer = raw.ask(DescribeQuorumRequest(topics=[topic]), 1)
    found: int = answer.topics[0].partitions[0].leader_id
    return found


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("whom", ["leader", "controller"])
@pytest.mark.parametrize("times", [1, BOUNCES])
def test_verifiable_clients(
    cluster: Cluster,
    topic: Topic,
    names: Names,
    durable: tuple[str, str],
    end: str,
    whom: str,
    times: int,
) -> None:
    """What was acknowledged is consumed, once; the producer never learns of it."""
    where = cluster.bootstrap
    with (
        Producing(where, topic.name, options=durable) as producing,
        Consuming(where, topic.name, names.group()) as consuming,
    ):
        for _ in range(times):
            producing.wait_for_more(200)
            node = controller(cluster) if whom == "controller" else topic.partitions()[0][0]
            getattr(cluster.brokers[node], end)()
            producing.wait_for_more(200)
            cluster.brokers[node].restart()
            topic.wait_in_sync(3)
        producing.stop()
        told = set(producing.acknowledged)
        wait_until(lambda: told <= set(consuming.values), timeout_s=PATIENCE_S, what="all records")
    assert not producing.errors
    found = [int(value) for _, _, value in read_all(where, topic.name, PARTITIONS)]
    assert len(found) == len(set(found))
    assert told <= set(found)
    for number in range(PARTITIONS):
        check_replicas(partition_directories(cluster, f"{topic.name}-{number}"))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_copiers_and_brokers_that_bounce(cluster: Cluster, names: Names, end: str) -> None:
    """Each record is copied once, in order, whichever broker or copier ends meanwhile, and how."""
    source, target = names.topic("source"), names.topic("target")
    create_topics(
        cluster.bootstrap, source, target, partitions=2, replicas=3, min_insync_replicas=2
    )
    expected = [f"{number:05d}" for number in range(6000)]
    rows = [(value.encode(), value.encode(), []) for value in expected]
    where = cluster.bootstrap
    produce_confluent(where, source, rows, partitioner="murmur2")
    extra = ["--enable-random-aborts", "--use-group-metadata"]
    with copying(Copiers(where, source, target, names.group("copiers"), *extra)) as copiers:
        for broker in cluster.brokers.values():
            copiers.wait_for_loops(0, 4)
            getattr(broker, end)()
            broker.restart()
            getattr(copiers, end)(1)
            copiers.start(1)

        def is_done() -> bool:
            copiers.replace_ended()
            return count_of(where, target, 2) >= len(expected)

        wait_until(is_done, timeout_s=PATIENCE_S, what="every record to be copied")
    found = list(read_all(where, target, 2))
    assert sorted(value for _, _, value in found) == expected
    for partition in range(2):
        mine = [value for index, _, value in found if index == partition]
        assert mine == [v for index, _, v in read_all(where, source, 2) if index == partition]


def test_consumers_go_on_without_a_rebalance(
    cluster: Cluster, topic: Topic, names: Names, durable: tuple[str, str]
) -> None:
    """Brokers restart in turn: two members keep their partitions and see each record."""
    where, group = cluster.bootstrap, names.group()
    with (
        Producing(where, topic.name, 200, durable) as producing,
        Consuming(where, topic.name, group) as first,
        Consuming(where, topic.name, group) as second,
    ):
        both = (first, second)
        wait_until(
            lambda: all(one.of("record_data") for one in both),
            timeout_s=PATIENCE_S,
            what="records for both members",
        )
        before = [len(one.of("partitions_assigned")) for one in both]
        for broker in cluster.brokers.values():
            broker.stop()
            broker.restart()
            topic.wait_in_sync(3)
            producing.wait_for_more(100)
        producing.stop()
        told = set(producing.acknowledged)
        wait_until(
            lambda: told <= {*first.values, *second.values}, timeout_s=PATIENCE_S, what="records"
        )
        assert [len(one.of("partitions_assigned")) for one in both] == before
    assert not producing.errors


def test_a_word_count_while_brokers_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Streams with exactly once: of every word each count comes out once, in order.

    Lines are counted while a broker bounces, and while it is down.
    """
    create_topics(
        cluster.bootstrap, SOURCE, TARGET, partitions=2, replicas=3, min_insync_replicas=2
    )
    where, written = cluster.bootstrap, 0
    file = settings(tmp_path / "a", where, "words-chaos")
    with Path(file).open("a", encoding="utf-8") as more:
        more.write("replication.factor=3\n")

    def wait_for_counts(lines: int) -> None:
        wait_until(
            lambda: count_of(where, TARGET, 2) >= lines * 4, timeout_s=PATIENCE_S, what="counts"
        )

    with running(WORD_COUNT, file):
        for broker in cluster.brokers.values():
            write_lines(where, written)
            written += LINES_PER_ROUND
            wait_for_counts(written - LINES_PER_ROUND // 2)
            broker.kill()
            write_lines(where, written)
            written += LINES_PER_ROUND
            wait_for_counts(written)
            broker.restart()
    counts: dict[str, list[int]] = {}
    for key, value in read_rows(where, TARGET, 2):
        counts.setdefault(key.decode(), []).append(int.from_bytes(value))
    assert sum(map(len, counts.values())) == written * 4
    for word, found in counts.items():
        assert found == list(range(1, len(found) + 1)), word


def test_the_performance_tool_while_a_leader_is_killed(cluster: Cluster, topic: Topic) -> None:
    """kafka-producer-perf-test writes everything that it was told to, and nothing twice."""
    count = 20_000
    size = ("--num-records", str(count), "--record-size", "100", "--throughput", "2000")
    properties = ("--command-property", "acks=all")
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic.name)
    victim = cluster.brokers[topic.partitions()[0][0]]
    start = command(PERFORMANCE, *arguments, *size, *properties, options=quick())
    with subprocess.Popen(
        start, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        wait_until(
            lambda: count_of(cluster.bootstrap, topic.name, PARTITIONS) > count // 10,
            timeout_s=PATIENCE_S,
            what="some records",
        )
        victim.kill()
        try:
            said = run.communicate(timeout=PATIENCE_S)[0]
        finally:
            victim.restart()
            run.kill()
    topic.wait_in_sync(3)
    assert re.search(rf"^{count} records sent", said, re.MULTILINE), said
    assert count_of(cluster.bootstrap, topic.name, PARTITIONS) == count
