"""Three brokers of a test's own, which it stops and kills; a topic with three replicas, a writer.

The brokers are three kwires on an etcd (``make compat-cluster``), or with ``KWIRE_CLUSTER=kafka``
three Apache Kafkas.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.apache_kafka import ApacheKafka, KafkaCluster
from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.cluster import KwireCluster
from compat_tests.conftest import NODES, OWN
from compat_tests.java_tools import run_tool
from compat_tests.test_java_tools import TOPICS
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, find_etcd
from tests.support.topics import create_topics

PARTITIONS = 3
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "auto.leader.rebalance.enable": "false",
}
AFTER_S = 60
"""How long something may take that follows the end of a broker."""

IS_KAFKA = os.environ.get("KWIRE_CLUSTER") == "kafka"

Cluster = KwireCluster | KafkaCluster


@contextmanager
def three_brokers(
    directory: Path, settings: Mapping[str, str] | None = None, nodes: int = 3
) -> Iterator[Cluster]:
    """Three brokers, or more, in the ``with`` block; the test is skipped where there are none."""
    if NODES < PARTITIONS or os.environ.get("KWIRE_BOOTSTRAP"):
        pytest.skip("needs three brokers of its own: make compat-cluster")
    both = {**SETTINGS, **(settings or {})}
    if IS_KAFKA:
        with KafkaCluster(directory, both, nodes) as kafka:
            yield kafka
        return
    if find_etcd() is None:
        pytest.skip(MISSING)
    with KwireCluster(directory, both, nodes) as kwire:
        yield kwire
        log = kwire.log()
    assert "bug in" not in log, f"{OWN}: {log}"


def partition_directories(cluster: Cluster, name: str) -> list[Path]:
    """Where each broker keeps a partition, by ``topic-number``."""
    return [
        (broker.log_dir if isinstance(broker, ApacheKafka) else broker.data_dir) / name
        for broker in cluster.brokers.values()
    ]


class Topic:
    """A topic with three replicas for each partition."""

    def __init__(self, cluster: Cluster, name: str, min_isr: int) -> None:
        self.name = name
        self.cluster = cluster
        where = cluster.bootstrap
        create_topics(where, name, partitions=PARTITIONS, replicas=3, min_insync_replicas=min_isr)
        self.wait_in_sync(3)

    @cached_property
    def _client(self) -> AdminClient:
        """One for all looks, of which there are fifty in a second while a test waits."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap}, logger=QUIET)

    def partitions(self) -> dict[int, tuple[int, list[int]]]:
        """The leader and the replicas in sync of each partition."""
        found = self._client.list_topics(self.name, timeout=READ_TIMEOUT_S).topics[self.name]
        return {one.id: (one.leader, sorted(one.isrs)) for one in found.partitions.values()}

    def wait_in_sync(self, count: int) -> None:
        """Until so many replicas of each partition are in sync."""

        def are_in_sync() -> bool:
            found = self.partitions()
            return len(found) == PARTITIONS and all(
                leader >= 0 and len(isr) == count for leader, isr in found.values()
            )

        wait_until(are_in_sync, timeout_s=AFTER_S, what=f"{count} replicas in sync")

    def tool(self, *arguments: str) -> str:
        """What kafka-topics prints of the topic."""
        server = ("--bootstrap-server", self.cluster.bootstrap)
        return run_tool(TOPICS, *server, "--describe", "--topic", self.name, *arguments)


class Writer:
    """Writes numbered records, from a thread of its own, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, **options: object) -> None:
        config = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1, **options}
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._topic = topic
        self._producer = Producer(config, logger=QUIET)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            value = str(number)
            self._producer.produce(
                self._topic, value, partition=number % PARTITIONS, on_delivery=self._told
            )
            number += 1
            self._producer.poll(0.002)
        assert not self._producer.flush(AFTER_S)

    def _told(self, error: KafkaError | None, message: object) -> None:
        value = message.value().decode()  # type: ignore[attr-defined]
        if error is None:
            self.acknowledged.append(value)
        else:
            self.failed.append(f"{value}: {error}")

    def wait_for_more(self, count: int) -> None:
        """Until so many more records are acknowledged."""
        enough = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= enough, timeout_s=AFTER_S, what="acknowledgements"
        )

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
