"""Data directories go from Apache Kafka to kwire and back: the same records, offsets and topics.

Each test starts the brokers that it needs: a kwire, a real Apache Kafka, or one after the
other on the same directory.
"""

import base64
import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from compat_tests import exchange
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import CONFIGS
from kwire.log import open_partition
from kwire.testing.process import BrokerFailed, BrokerProcess
from tests.support.ports import free_port

DATA = Path(__file__).parent.parent / "tests" / "data"


def text(value: bytes | None) -> str | None:
    """Bytes as the expected rows have them."""
    return None if value is None else base64.b64encode(value).decode()


def test_what_kafka_wrote_comes_to_a_consumer(tmp_path: Path) -> None:
    """A directory of Kafka 4.4.0 behind kwire: all codecs, both isolation levels, both groups."""
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    with gzip.open(DATA / "kafka-4.4-expected.json.gz") as file:
        expected = json.load(file)
    with BrokerProcess(tmp_path / "logs", exchange.SETTINGS) as broker:
        assert "took over 12 topics" in broker.log()
        for key, rows in expected.items():
            name, isolation = key.split("/")
            topic, _, index = name.rpartition("-")
            partition = (topic, int(index))
            found = exchange.read(broker.bootstrap, [partition], isolation)[partition]
            shown = [
                [offset, kind, at, text(k), text(v), [[n, text(h)] for n, h in headers]]
                for offset, kind, at, k, v, headers in found
            ]
            assert shown == rows, key
        for group in ("classic-group", "next-gen-group"):
            wanted = {("plain", 0): 369, ("plain", 1): 631}
            assert exchange.committed(broker.bootstrap, group) == wanted
    assert "bug in" not in broker.log()


ACCESS = ("SCRAM-SHA-512=[iterations=8192,password=hush]", "producer_byte_rate=1048576")


class Left:
    """What a broker showed before it stopped."""

    def __init__(self, home: Path, bootstrap: str) -> None:
        self.home = home
        self.seen = {level: exchange.seen(bootstrap, level) for level in exchange.LEVELS}
        self.committed = exchange.committed(bootstrap)
        self.topics = exchange.described(bootstrap)

    def is_shown_by(self, bootstrap: str) -> None:
        """Another broker shows the same."""
        for level in exchange.LEVELS:
            assert exchange.seen(bootstrap, level) == self.seen[level]
        assert exchange.committed(bootstrap) == self.committed


@pytest.fixture(scope="module")
def kafkas_directory(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What a real Kafka left behind after the load, and what its clients saw of it."""
    home = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(home, exchange.SETTINGS) as kafka:
        for value in ACCESS:
            user = ("--entity-type", "users", "--entity-name", "alice", "--alter", "--add-config")
            run_tool(CONFIGS, "--bootstrap-server", kafka.bootstrap, *user, value)
        exchange.create_all_topics(kafka.bootstrap)
        exchange.write(kafka.bootstrap)
        exchange.commit_offsets(kafka.bootstrap)
        return Left(home, kafka.bootstrap)


def test_there_and_back_again(kafkas_directory: Left) -> None:
    """Each goes on where the other stopped, or was killed; two metadata are never mixed."""
    left = kafkas_directory
    logs = left.home / "logs"
    with BrokerProcess(logs, exchange.SETTINGS) as kwire:
        left.is_shown_by(kwire.bootstrap)
        assert exchange.described(kwire.bootstrap) == left.topics
        exchange.write(kwire.bootstrap, seed=2)
        exchange.commit_offsets(kwire.bootstrap)
        after = Left(left.home, kwire.bootstrap)
    assert after.seen != left.seen
    assert "bug in" not in kwire.log()
    kafka = ApacheKafka(left.home, exchange.SETTINGS).start()
    try:
        after.is_shown_by(kafka.bootstrap)
        assert exchange.described(kafka.bootstrap) == left.topics
        exchange.write(kafka.bootstrap, seed=3)
        last = Left(left.home, kafka.bootstrap)
    finally:
        kafka.kill()
    with pytest.raises(BrokerFailed, match="Apache Kafka has used"):
        BrokerProcess(logs, exchange.SETTINGS).start()
    for path in logs.glob("kwire-metadata.db*"):
        path.unlink()
    with BrokerProcess(logs, exchange.SETTINGS) as kwire:
        last.is_shown_by(kwire.bootstrap)
        exchange.write(kwire.bootstrap, seed=4)


def test_users_and_quotas_of_kafka_count_on(kafkas_directory: Left, tmp_path: Path) -> None:
    """A password that kafka-configs has set, and a quota, in a copy of the directory."""
    logs = shutil.copytree(kafkas_directory.home / "logs", tmp_path / "logs")
    for path in logs.glob("kwire-metadata.db*"):
        path.unlink()
    address = f"127.0.0.1:{free_port()}"
    options = ["--listen", f"SASL_PLAINTEXT://{address}"]
    settings = {**exchange.SETTINGS, "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    with BrokerProcess(logs, settings, options=options) as kwire:
        assert "not taken over" not in kwire.log()
        plain = next(one for one in kwire.bootstrap.split(",") if one != address)
        user = ("--describe", "--entity-type", "users", "--entity-name", "alice")
        said = run_tool(CONFIGS, "--bootstrap-server", plain, *user)
        assert "producer_byte_rate=1048576" in said
        assert "SCRAM-SHA-512=iterations=8192" in said
        login = {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "alice",
        }
        KafkaAdminClient(**login, sasl_plain_password="hush").close()
        with pytest.raises(KafkaError):
            KafkaAdminClient(**login, sasl_plain_password="guess", bootstrap_timeout_ms=3000)


def test_kafka_serves_the_partitions_that_kwire_wrote(tmp_path: Path) -> None:
    """Put into the directory of a Kafka, under its topic ids, they are its own."""
    with BrokerProcess(tmp_path / "kwire", exchange.SETTINGS) as kwire:
        exchange.create_all_topics(kwire.bootstrap)
        exchange.write(kwire.bootstrap)
        exchange.commit_offsets(kwire.bootstrap)
        left = Left(tmp_path / "kwire", kwire.bootstrap)
    with ApacheKafka(tmp_path / "kafka", exchange.SETTINGS) as kafka:
        exchange.create_all_topics(kafka.bootstrap)
        exchange.write_internal_topics(kafka.bootstrap)
    moved = 0
    for source in sorted((tmp_path / "kwire").iterdir()):
        target = tmp_path / "kafka" / "logs" / source.name
        if source.is_dir():
            metadata = (target / "partition.metadata").read_bytes()
            shutil.rmtree(target)
            shutil.copytree(source, target)
            (target / "partition.metadata").write_bytes(metadata)
            moved += 1
    assert moved == sum(topic.partitions for topic in left.topics.values())
    with ApacheKafka(tmp_path / "kafka", exchange.SETTINGS) as kafka:
        left.is_shown_by(kafka.bootstrap)
    for topic in exchange.topics():
        assert open_partition(tmp_path / "kafka" / "logs" / f"{topic}-0").end_offset > 0
