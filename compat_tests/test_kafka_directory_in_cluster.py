"""A directory that Apache Kafka closed becomes broker 1 of a cluster of kwires, and is replicated.

The test starts the Kafka, the kwires and their etcd that it needs.
"""

import json
import shutil
from pathlib import Path

import pytest

from compat_tests import exchange
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.cluster import KwireCluster
from compat_tests.java_tools import run_tool
from compat_tests.test_cluster_kills import REASSIGN, log_bytes
from kwire.log import open_partition
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, find_etcd

BROKERS = [1, 2, 3]


def test_a_directory_of_kafka_is_replicated(tmp_path: Path) -> None:
    """Byte for byte: all records and committed offsets stay, and leader epochs go on."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with ApacheKafka(tmp_path / "kafka", exchange.SETTINGS) as kafka:
        exchange.create_all_topics(kafka.bootstrap)
        exchange.write(kafka.bootstrap)
        exchange.commit_offsets(kafka.bootstrap)
        seen = {level: exchange.seen(kafka.bootstrap, level) for level in exchange.LEVELS}
        committed = exchange.committed(kafka.bootstrap)
    shutil.move(tmp_path / "kafka" / "logs", tmp_path / "1")
    with BrokerProcess(tmp_path / "1", exchange.SETTINGS) as alone:
        assert "took over" in alone.log()
    kafkas = {path.name: log_bytes(path) for path in partitions(tmp_path / "1")}
    with KwireCluster(tmp_path, exchange.SETTINGS) as cluster:
        assert {x: exchange.seen(cluster.bootstrap, x) for x in exchange.LEVELS} == seen
        replicate(cluster, tmp_path, sorted(kafkas))
        exchange.write(cluster.bootstrap, seed=2)
        after = {level: exchange.seen(cluster.bootstrap, level) for level in exchange.LEVELS}
        for name, kafkas_bytes in kafkas.items():
            copies = [tmp_path / str(number) / name for number in BROKERS]
            wait_until(
                lambda c=copies: len({log_bytes(one) for one in c}) == 1,  # type: ignore[misc]
                what=f"equal copies of {name}",
            )
            assert log_bytes(copies[1]).startswith(kafkas_bytes), name
        cluster.brokers[1].kill()
        assert {x: exchange.seen(cluster.bootstrap, x) for x in exchange.LEVELS} == after
        assert exchange.committed(cluster.bootstrap) == committed
        log = cluster.log()
    assert "bug in" not in log, log
    reader = open_partition(tmp_path / "2" / f"{exchange.PLAIN}-0")
    epochs = [batch.partition_leader_epoch for batch in reader.batches()]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1


def partitions(directory: Path) -> list[Path]:
    """The directories of partitions that are to be replicated."""
    found = [path.parent for path in directory.glob("*/partition.metadata")]
    return [path for path in found if not path.name.startswith("__cluster_metadata-")]


def replicate(cluster: KwireCluster, tmp_path: Path, names: list[str]) -> None:
    """Give each partition, which broker 1 has alone, to all brokers."""
    wanted = []
    for name in names:
        topic, _, number = name.rpartition("-")
        wanted.append({"topic": topic, "partition": int(number), "replicas": BROKERS})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}), encoding="utf-8")
    tool = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))
    run_tool(REASSIGN, *tool, "--execute")
    wait_until(
        lambda: run_tool(REASSIGN, *tool, "--verify").count("is completed") == len(wanted),
        timeout_s=120,
        what="all copies",
    )
