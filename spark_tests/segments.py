"""A broker whose data directory the tests of segments read, and what they write into it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from kwire.log.checkpoints import HIGH_WATERMARKS, read_offsets
from kwire.log.disk import Disk
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from spark_tests.rows import KAFKA_QUICK_FETCH, START_MS, TIMEOUT_S
from tests.support.topics import create_topics

SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "60000",
}

ALL = "key, value, topic, partition, offset, timestamp, timestampType, headers"


class Written:
    """A running broker, its directory, and both ways to read it."""

    def __init__(self, process: BrokerProcess, directory: Path, spark: SparkSession) -> None:
        self.bootstrap = process.bootstrap
        self.directory = directory
        self.spark = spark
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create(self, topic: str, partitions: int = 2, **config: str) -> str:
        """Create a topic that keeps its records."""
        settings = {"retention.ms": "-1", **config}
        create_topics(self.bootstrap, topic, partitions=partitions, **settings)
        return topic

    def producer(self, **config: Any) -> Producer:
        """A stock producer."""
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 5,
                "batch.num.messages": 40,
                **config,
            }
        )

    def wait(self, topic: str, partitions: int = 2) -> None:
        """Wait until the checkpoint on the disk has the topic's high watermarks."""
        uncommitted = {"isolation.level": "read_uncommitted", "group.id": "unused"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **uncommitted})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S)[1]
            for number in range(partitions)
        ]
        consumer.close()

        def written() -> bool:
            found = read_offsets(self.directory / HIGH_WATERMARKS, Disk())
            return [found.get((topic, n), 0) for n in range(partitions)] == ends

        wait_until(written, timeout_s=TIMEOUT_S, what=f"the high watermarks of {topic}")

    def connector(self, topic: str, **options: str) -> DataFrame:
        """A batch read with the stock connector."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.options(subscribe=topic, includeHeaders="true", **KAFKA_QUICK_FETCH)
        return reader.options(**options).load()

    def segments(self, topic: str, **options: str) -> DataFrame:
        """A batch read of the segments."""
        reader = self.spark.read.format("kwire").option("includeHeaders", "true")
        return reader.options(topics=topic, **options).load(str(self.directory))


def mixed(producer: Producer, topic: str, first: int, last: int) -> None:
    """Records of every shape: with and without key, value and headers, small and large."""
    for n in range(first, last):
        headers: list[tuple[str, bytes | None]] = []
        if n % 4 == 1:
            headers = [(f"h{i}", None if i == 2 else bytes([n % 256]) * i) for i in range(n % 5)]
        value = None if n % 11 == 0 else b'{"n":%d,"s":"%s"}' % (n, b"x" * (n % 300))
        if n % 97 == 0:
            value = bytes(20_000 + n)
        key = None if n % 7 == 0 else b"" if n % 13 == 0 else b"k%d" % (n % 50)
        time = START_MS + n * 1000 + (n * 7919) % 3000
        producer.produce(topic, value, key, n % 2, timestamp=time, headers=headers)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def hashes(rows: DataFrame) -> list[Any]:
    """For each partition, how many rows there are, and a hash of all their columns."""
    rows.createOrReplaceTempView("hashed")
    text = f"SELECT topic, partition, count(*), bit_xor(xxhash64({ALL})) FROM hashed GROUP BY 1, 2"
    return sorted(tuple(row) for row in rows.sparkSession.sql(text).collect())


def offsets(rows: DataFrame) -> list[tuple[int, int]]:
    """Partition and offset of each row, sorted."""
    return sorted(
        (row.partition, row.offset) for row in rows.select("partition", "offset").collect()
    )


def as_json(topic: str, offsets_of: Mapping[int, int]) -> str:
    """Offsets as an option has them."""
    return json.dumps({topic: {str(number): offset for number, offset in offsets_of.items()}})
