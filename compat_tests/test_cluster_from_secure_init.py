"""Three kwires on an etcd run with the files of ``kwire secure init --brokers 3``, as they stand.

Brokers reach each other over TLS and show their certificates; clients log in over TLS.
``make compat-cluster`` runs it, on a cluster of its own.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata

from compat_tests.conftest import NODES
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, Etcd, find_etcd
from tests.support.ports import free_ports
from tests.support.topics import create_topics

KWIRE = [sys.executable, "-m", "kwire"]
TOPIC, PARTITIONS, RECORDS = "orders", 6, 60


class Made(NamedTuple):
    """The files, the addresses for clients, and what the brokers have logged."""

    directory: Path
    bootstrap: str
    logs: list[Path]

    def login(self) -> dict[str, Any]:
        """The settings of librdkafka for the first user."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": (self.directory / "admin.password").read_text(),
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The brokers that the printed commands start."""
    if NODES < 3:
        pytest.skip("needs three brokers of its own: make compat-cluster")
    if find_etcd() is None:
        pytest.skip(MISSING)
    parent = tmp_path_factory.mktemp("made")
    directory, first = parent / "secured", free_ports(3)
    with Etcd() as etcd, ExitStack() as stack:
        words = ("--brokers", "3", "--port", str(first), "--metadata-store", f"{etcd.url}/kwire")
        command = [*KWIRE, "secure", "init", str(directory), *words]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        serve = [line for line in said.splitlines() if line.startswith("kwire serve")]
        logs = [parent / f"{number}.log" for number in range(len(serve))]
        brokers = [
            stack.enter_context(
                subprocess.Popen(
                    [*KWIRE, *shlex.split(line)[1:]],
                    stdout=subprocess.PIPE,
                    stderr=stack.enter_context(log.open("w")),
                    text=True,
                )
            )
            for line, log in zip(serve, logs, strict=True)
        ]
        for broker in brokers:
            stack.callback(broker.terminate)
        for broker, log in zip(brokers, logs, strict=True):
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline(), log.read_text()
        yield Made(directory, ",".join(f"127.0.0.1:{first + n}" for n in range(3)), logs)


def test_three_replicas_are_in_sync_over_tls(made: Made) -> None:
    """What a client is told is written is on all brokers, and comes back."""
    admin = AdminClient(made.login())
    wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 3, what="all brokers")
    create_topics(made.login(), TOPIC, partitions=PARTITIONS, replicas=3)
    producer = Producer({**made.login(), "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    partitions: list[PartitionMetadata] = []

    def in_sync() -> set[int]:
        partitions[:] = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.values()
        return {len(partition.isrs) for partition in partitions}

    wait_until(lambda: in_sync() == {3}, what="all replicas in sync")
    assert {one.leader for one in partitions} == {1, 2, 3}
    consumer = Consumer({**made.login(), "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    wait_until(
        lambda: found.extend(m.value() for m in consumer.consume(100, 1)) or len(found) >= RECORDS,
        what="the records",
    )
    consumer.close()
    assert sorted(found) == sorted(b"%d" % number for number in range(RECORDS))
    assert not [log.read_text() for log in made.logs if "bug in" in log.read_text()]


def test_the_listener_of_brokers_wants_a_certificate(made: Made) -> None:
    """Who has none gets nothing there, although the CA is known."""
    ports = [int(address.rpartition(":")[2]) + 10_000 for address in made.bootstrap.split(",")]
    how = {
        "bootstrap.servers": f"127.0.0.1:{ports[0]}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(made.directory / "ca.pem"),
        "group.id": "g",
    }
    consumer = Consumer(how)
    with pytest.raises(KafkaException):
        consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=5)
    consumer.close()
