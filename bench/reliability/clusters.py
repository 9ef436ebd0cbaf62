"""Three brokers to be hurt: kwire on three etcds, or Apache Kafka, with the same methods.

Rules:

- Both have three replicas of everything, two of which have to be in sync.
- Both have the defaults of Apache Kafka otherwise, but for kwire's session: its clients wait for it
  only where a machine is lost or frozen, so it is 3 s, where Kafka's is 9 s.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.load import ask
from compat_tests.apache_kafka import KafkaCluster
from compat_tests.cluster import KwireCluster
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.waiting import wait_until
from tests.support.etcd import Etcd

REPLICAS = 3
KWIRE = "kwire"
KAFKA = "Apache Kafka"
WAIT_S = 120.0
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


class Node(Protocol):
    """A broker in a process of its own."""

    bootstrap: str

    @property
    def pid(self) -> int:
        """The id of its process."""

    def kill(self) -> object:
        """End it with SIGKILL."""

    def stop(self) -> object:
        """End it with SIGTERM, and wait."""

    def restart(self) -> object:
        """Start it with the same port and data, and wait until it answers."""

    def log(self) -> str:
        """What it has logged."""


class Cables(Protocol):
    """Networks of the brokers' own; see ``bench.reliability.network``."""

    def cut(self, node_id: int, side: str) -> None:
        """Pull a broker's cable to one side."""

    def heal(self, node_id: int, side: str) -> None:
        """Plug it in."""

    def heal_all(self) -> None:
        """Plug in every cable."""


class Row(NamedTuple):
    """A partition as a broker tells it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int = 0


class Trial:
    """A running cluster."""

    def __init__(
        self,
        name: str,
        nodes: dict[int, Node],
        directories: dict[int, Path],
        etcd: Etcd | None,
        network: Cables | None = None,
    ) -> None:
        self.name = name
        self.network = network
        self.nodes = nodes
        self.directories = directories
        """Where the partitions of each broker are."""
        self.etcd = etcd
        self.down: set[int] = set()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def kill(self, node_id: int) -> float:
        """End a broker with SIGKILL; when it was gone, by time.monotonic."""
        self.down.add(node_id)
        self.nodes[node_id].kill()
        return time.monotonic()

    def stop(self, node_id: int) -> None:
        """Let a broker end in order."""
        self.down.add(node_id)
        self.nodes[node_id].stop()

    def start(self, node_id: int) -> None:
        """Start a broker that has ended."""
        self.nodes[node_id].restart()
        self.down.discard(node_id)

    def is_running(self, node_id: int) -> bool:
        """Whether a broker's process hasn't ended by itself."""
        try:
            state = Path(f"/proc/{self.nodes[node_id].pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return ") Z " not in state

    def freeze(self, node_id: int) -> None:
        """Let a broker stand still: its connections stay, and nothing answers."""
        self.down.add(node_id)
        os.kill(self.nodes[node_id].pid, signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        """Let a frozen broker go on."""
        os.kill(self.nodes[node_id].pid, signal.SIGCONT)
        self.down.discard(node_id)

    def start_all(self) -> None:
        """Whatever a scenario that broke off has left: bring every broker and etcd back."""
        if self.network is not None:
            self.network.heal_all()
        for node_id in sorted(self.down):
            with suppress(ProcessLookupError):
                os.kill(self.nodes[node_id].pid, signal.SIGCONT)
            self.start(node_id)
        for member in [] if self.etcd is None else self.etcd.members:
            member.kill()
            member.start()
        for member in [] if self.etcd is None else self.etcd.members:
            member.wait_ready()

    def rows(self, topic: str, node_id: int = -1) -> list[Row]:
        """The partitions of a topic as one broker that is up tells them, by default the first."""
        up = [one for one in self.nodes if one not in self.down]
        asked = self.nodes[node_id if node_id >= 0 else up[0]]
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        [told] = ask(asked.bootstrap, request, 12).topics
        ordered = sorted(told.partitions, key=lambda p: p.partition_index)
        return [
            Row(one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes), one.error_code)
            for one in ordered
        ]

    def wait_in_sync(self, topic: str) -> float:
        """Wait until every replica of a topic is in sync; the seconds that it took."""
        began_s = time.monotonic()

        def is_whole() -> bool:
            rows = self.rows(topic)
            return bool(rows) and all(
                set(row.isr) == set(row.replicas) and row.leader >= 0 for row in rows
            )

        wait_until(is_whole, timeout_s=WAIT_S, what=f"all replicas of {topic} in sync")
        return time.monotonic() - began_s

    def controller(self) -> int:
        """The broker that is the controller."""
        data = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[data])

        def told() -> int:
            up = next(node for one, node in self.nodes.items() if one not in self.down)
            answer = ask(up.bootstrap, DescribeQuorumRequest(topics=[topic]), 1)
            found: int = answer.topics[0].partitions[0].leader_id
            return found if found in self.nodes and found not in self.down else 0

        return wait_until(told, timeout_s=WAIT_S, what="a controller")


@contextmanager
def kwire(directory: Path, session: Mapping[str, str] = SESSION) -> Iterator[Trial]:
    """Three kwires on three etcds."""
    with KwireCluster(directory, {**REPLICATED, **session}, etcd_members=3) as cluster:
        nodes: dict[int, Node] = dict(cluster.brokers.items())
        places = {node_id: node.data_dir for node_id, node in cluster.brokers.items()}
        yield Trial(KWIRE, nodes, places, cluster.etcd)
        log = cluster.log()
        assert "bug in" not in log, log[-5000:]


@contextmanager
def kafka(directory: Path) -> Iterator[Trial]:
    """Three Apache Kafkas, each broker and controller."""
    with KafkaCluster(directory, REPLICATED) as cluster:
        nodes: dict[int, Node] = dict(cluster.brokers.items())
        places = {node_id: node.log_dir for node_id, node in cluster.brokers.items()}
        yield Trial(KAFKA, nodes, places, None)
