"""A streaming query while the brokers that it reads from and writes to restart and are killed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from compat_tests.cluster import KwireCluster
from kwire.testing.waiting import wait_until
from spark_tests.rows import KAFKA_QUICK_FETCH, TIMEOUT_S
from tests.support.etcd import MISSING, find_etcd
from tests.support.topics import create_topics

PATIENCE_S = 150
PARTITIONS = 3
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KwireCluster]:
    """Three kwires on an etcd."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with KwireCluster(tmp_path / "brokers", SETTINGS) as running:
        yield running
        log = running.log()
    assert "bug in" not in log, log


class Writing:
    """An idempotent producer that writes numbers, in a thread, during the ``with`` block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._ends = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        while not self._ends.is_set():
            number = b"%d" % self.sent
            self._producer.produce(self._topic, number, partition=self.sent % PARTITIONS)
            self.sent += 1
            self._producer.poll(0.002)

    def __enter__(self) -> "Writing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        assert not self._producer.flush(TIMEOUT_S)


@pytest.mark.long
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_each_number_arrives_once(
    spark: SparkSession, cluster: KwireCluster, tmp_path: Path, end: str
) -> None:
    """T19: into Parquet exactly once, whether brokers restart in turn (P5) or are killed (P1)."""
    create_topics(cluster.bootstrap, "numbers", partitions=PARTITIONS, replicas=3)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    reader = reader.options(
        startingOffsets="earliest", subscribe="numbers", failOnDataLoss="true", **KAFKA_QUICK_FETCH
    )
    values = reader.load().selectExpr("cast(cast(value as string) as int) as n")
    writer = values.writeStream.format("parquet").option("path", str(tmp_path / "data"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def numbers() -> list[int]:
        frame = spark.read.schema("n int").parquet(str(tmp_path / "data"))
        return sorted(row.n for row in frame.collect())

    def wait_for(count: Callable[[], int]) -> None:
        wanted = count()
        wait_until(lambda: len(numbers()) >= wanted, timeout_s=PATIENCE_S, what="numbers")

    with Writing(cluster.bootstrap, "numbers") as writing:
        query = writer.trigger(processingTime="100 milliseconds").start()
        for broker in cluster.brokers.values():
            wait_for(lambda: writing.sent)
            getattr(broker, end)()
            wait_for(lambda: writing.sent)
            broker.restart()
    wait_for(lambda: writing.sent)
    query.stop()
    assert numbers() == list(range(writing.sent))
