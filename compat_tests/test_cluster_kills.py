"""Kafka's verifiable clients and tools while brokers of a replicated cluster are killed.

The cluster is the tests' own; see ``three_brokers``. Longer tests of this kind are in
``test_cluster_chaos.py``.
"""

import re
import struct
from collections import Counter
from pathlib import Path

from compat_tests import own_cluster
from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.reading import read_all
from compat_tests.test_streams_fleet import new_fleet
from compat_tests.three_brokers import (
    AFTER_S,
    PARTITIONS,
    Cluster,
    Topic,
    partition_directories,
)
from compat_tests.verifiable import PATIENCE_S, Consuming, Producing
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.testing.asking import Asker
from kwire.testing.waiting import wait_until

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
HEAD = struct.Struct(">qi")
"""The beginning of a batch: its base offset, and the number of bytes that follow."""
EPOCH = re.compile(r"partitionLeaderEpoch: (\d+)")

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
durable = own_cluster.durable
names = own_cluster.names
topic = own_cluster.topic


def named(printed: str) -> set[int]:
    """The partitions that kafka-topics shows."""
    return {int(number) for number in re.findall(r"Partition: (\d+)", printed)}


def test_kafka_topics_shows_what_lacks_replicas(cluster: Cluster, topic: Topic) -> None:
    """After a kill the tool names the partitions whose ISR lacks the broker, and none later."""
    victim = topic.partitions()[0][0]
    cluster.brokers[victim].kill()
    try:
        topic.wait_in_sync(2)
        assert named(topic.tool("--under-replicated-partitions")) == set(range(PARTITIONS))
        assert named(topic.tool("--at-min-isr-partitions")) == set(range(PARTITIONS))
        assert named(topic.tool("--under-min-isr-partitions")) == set()
    finally:
        cluster.brokers[victim].restart()
    topic.wait_in_sync(3)
    assert named(topic.tool("--under-replicated-partitions")) == set()
    assert named(topic.tool("--at-min-isr-partitions")) == set()


def test_verifiable_clients_and_equal_logs(
    cluster: Cluster, topic: Topic, names: Names, durable: tuple[str, str]
) -> None:
    """Each leader is killed: what was acknowledged is consumed, once, and no error is told.

    Afterwards all replicas hold the same bytes, Kafka's tool reads them, and leader epochs ascend.
    """
    where = cluster.bootstrap
    with (
        Producing(where, topic.name, options=durable) as producing,
        Consuming(where, topic.name, names.group()) as consuming,
    ):
        for victim in cluster.brokers.values():
            producing.wait_for_more(300)
            victim.kill()
            producing.wait_for_more(300)
            victim.restart()
            topic.wait_in_sync(3)
        producing.stop()
        told = producing.acknowledged
        wait_until(
            lambda: set(told) <= set(consuming.values), timeout_s=PATIENCE_S, what="all records"
        )
    assert not producing.errors
    found = [int(value) for _, _, value in read_all(where, topic.name, PARTITIONS)]
    assert not [value for value, times in Counter(found).items() if times > 1]
    assert set(told) <= set(found)
    for number in range(PARTITIONS):
        check_replicas(partition_directories(cluster, f"{topic.name}-{number}"))


def test_instances_of_streams_outlive_their_coordinator(
    cluster: Cluster, names: Names, tmp_path: Path
) -> None:
    """It is killed twice; meanwhile one instance leaves and one joins, and all is counted once."""
    with new_fleet(cluster.bootstrap, names, tmp_path, replicas=3) as fleet:
        for name in ("a", "b"):
            fleet.say("start", name)
        fleet.write()
        fleet.wait_until_shared("a", "b")
        for leaving, staying, joining in (("a", "b", "c"), ("b", "c", "a")):
            victim = cluster.brokers[coordinator_of(cluster, fleet.group)]
            victim.kill()
            fleet.write()
            fleet.say("stop", leaving)
            fleet.say("start", joining)
            fleet.wait_until_shared(joining, staying)
            fleet.wait_until_counted()
            victim.restart()
        fleet.check_counts()


def coordinator_of(cluster: Cluster, group: str) -> int:
    """The broker that coordinates a group."""
    asker = Asker()
    request = FindCoordinatorRequest(key=group)
    try:
        for broker in cluster.brokers.values():
            told = asker.ask(broker.bootstrap, request, 3, FindCoordinatorResponse)
            if not told.error_code:
                return int(told.node_id)
    finally:
        asker.close()
    raise AssertionError(f"nobody coordinates {group}")


def check_replicas(directories: list[Path], start: int = 0) -> None:
    """All replicas of a partition hold the same batches, as Kafka's DumpLogSegments shows them.

    ``start`` is the log start offset: what lies before it may be gone from some replicas alone.
    """
    held = [log_bytes(directory, start) for directory in directories]
    wait_until(
        lambda: len({log_bytes(one, start) for one in directories}) == 1,
        timeout_s=AFTER_S,
        what=f"equal logs, not {[len(one) for one in held]}",
    )
    files = [
        ",".join(str(file) for file in sorted(directory.glob("*.log"))) for directory in directories
    ]
    shown = [batches(run_tool(DUMP, "--deep-iteration", "--files", one), start) for one in files]
    assert bool(shown[0]) == bool(log_bytes(directories[0], start))
    assert all(one == shown[0] for one in shown)
    assert all("isvalid: true" in line for line in shown[0])
    epochs = [int(match[1]) for line in shown[0] if (match := EPOCH.search(line))]
    assert epochs == sorted(epochs)


def batches(printed: str, start: int) -> list[str]:
    """The lines of batches without their places, which differ where segments roll differently."""
    lines = [line for line in printed.splitlines() if line.startswith("baseOffset: ")]
    lines = [line for line in lines if int(line.split()[1]) >= start]
    return [re.sub(r" position: \d+", "", line) for line in lines]


def log_bytes(directory: Path, start: int = 0) -> bytes:
    """All records of a partition from ``start`` on; zeros that a file got in advance don't count.

    ``start`` is the base offset of a batch.
    """
    segments = sorted(directory.glob("*.log"))
    held = b"".join(segment.read_bytes() for segment in segments).rstrip(b"\0")
    place = 0
    while place + HEAD.size <= len(held):
        base_offset, size_bytes = HEAD.unpack_from(held, place)
        if base_offset >= start:
            break
        place += HEAD.size + size_bytes
    return held[place:]
