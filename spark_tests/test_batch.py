"""Batch reads and writes through Spark's stock Kafka connector."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_tests.rows import START_MS, TIMEOUT_S, end_offsets, produce

pytestmark = pytest.mark.both_lanes

ROWS = 6000


def numbers(frame: DataFrame) -> list[int]:
    """The values, as numbers, sorted."""
    values = frame.select(f.col("value").cast("string").cast("int").alias("n"))
    return sorted(row.n for row in values.collect())


def test_everything_is_read(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame]
) -> None:
    """Keys, values, partitions, offsets and timestamps of every record."""
    topic = new_topic()
    produce(broker, topic, 0, ROWS)
    frame = read(subscribe=topic)
    assert numbers(frame) == list(range(ROWS))
    counts = {
        row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()
    }
    assert [counts[index] for index in range(3)] == end_offsets(broker, topic, 3)
    row = frame.where("cast(value as string) = '17'").first()
    assert row is not None
    assert (row.key, row.topic, row.timestampType) == (b"17", topic, 0)
    assert row.timestamp.timestamp() == START_MS // 1000 + 17


def test_headers_and_tombstones(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame]
) -> None:
    """Headers come when they are asked for; null keys and values are null."""
    topic = new_topic(1)
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(topic, None, b"tombstone", headers=[("a", b"1"), ("b", None)])
    producer.produce(topic, b"value", None)
    assert producer.flush(TIMEOUT_S) == 0
    first, second = read(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    assert (first.key, first.value) == (b"tombstone", None)
    assert [(h.key, h.value) for h in first.headers] == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, second.headers) == (None, b"value", None)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame], codec: str
) -> None:
    """Compressed batches are read as they were written."""
    topic = new_topic()
    produce(broker, topic, 0, 2000, **{"compression.type": codec})
    assert numbers(read(subscribe=topic)) == list(range(2000))


def test_offset_ranges(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame]
) -> None:
    """startingOffsets and endingOffsets cut each partition; assign names partitions."""
    topic = new_topic()
    produce(broker, topic, 0, ROWS)
    starts = {topic: {"0": 100, "1": 200, "2": -2}}
    ends = {topic: {"0": 300, "1": -1, "2": 50}}
    frame = read(
        subscribe=topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends)
    )
    bounds = frame.groupBy("partition").agg(f.min("offset"), f.max("offset")).collect()
    found = {row["partition"]: (row["min(offset)"], row["max(offset)"]) for row in bounds}
    last = end_offsets(broker, topic, 3)[1] - 1
    assert found == {0: (100, 299), 1: (200, last), 2: (0, 49)}
    assigned = read(assign=json.dumps({topic: [1]}))
    assert [row["partition"] for row in assigned.select("partition").distinct().collect()] == [1]


def test_by_timestamp(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame]
) -> None:
    """startingTimestamp and startingOffsetsByTimestamp begin at the first record not older."""
    topic = new_topic()
    produce(broker, topic, 0, 3000)
    at = START_MS + 1000 * 1000
    assert numbers(read(subscribe=topic, startingTimestamp=str(at))) == list(range(1000, 3000))
    starts = json.dumps({topic: {str(i): at for i in range(3)}})
    ends = json.dumps({topic: {str(i): at + 500_000 for i in range(3)}})
    frame = read(subscribe=topic, startingOffsetsByTimestamp=starts, endingOffsetsByTimestamp=ends)
    assert numbers(frame) == list(range(1000, 1500))


def test_by_pattern_with_min_partitions(
    broker: str, new_topic: Callable[..., str], read: Callable[..., DataFrame]
) -> None:
    """subscribePattern takes every topic it fits; minPartitions splits the work."""
    topics = [new_topic(2, prefix="pattern-a"), new_topic(2, prefix="pattern-a")]
    new_topic(1, prefix="pattern-b")
    produce(broker, topics[0], 0, 1000)
    produce(broker, topics[1], 1000, 2000)
    frame = read(subscribePattern="pattern-a-.*", minPartitions="8")
    assert numbers(frame) == list(range(2000))
    assert frame.rdd.getNumPartitions() >= 8


def test_batch_write(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    read: Callable[..., DataFrame],
) -> None:
    """Keys, values, headers, the topic and the partition come from columns."""
    topic = new_topic()
    frame = spark.range(5000).select(
        f.lit(topic).alias("topic"),
        f.col("id").cast("string").cast("binary").alias("key"),
        f.col("id").cast("string").cast("binary").alias("value"),
        (f.col("id") % 3).cast("int").alias("partition"),
        f.array(f.struct(f.lit("h").alias("key"), f.lit(b"1").alias("value"))).alias("headers"),
    )
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker)
    writer.option("includeHeaders", "true").save()
    back = read(subscribe=topic, includeHeaders="true")
    assert numbers(back) == list(range(5000))
    wrong = back.where("cast(cast(value as string) as int) % 3 != partition").count()
    assert wrong == 0
    row = back.first()
    assert row is not None
    assert [(h.key, h.value) for h in row.headers] == [("h", b"1")]


def test_a_missing_topic_is_not_created(admin: AdminClient, read: Callable[..., DataFrame]) -> None:
    """Reading what isn't there fails, and leaves nothing behind."""
    with pytest.raises((PySparkException, Py4JJavaError)):
        read(subscribe="spark-missing").count()
    assert "spark-missing" not in admin.list_topics(timeout=TIMEOUT_S).topics
