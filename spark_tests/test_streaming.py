"""Structured streaming: checkpoints, exactly once into Parquet, and lost data."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from kwire.testing.waiting import wait_until
from spark_tests.rows import KAFKA_QUICK_FETCH, TIMEOUT_S, end_offsets, produce
from tests.support.topics import create_topics

pytestmark = pytest.mark.both_lanes

Stream = Callable[..., DataFrame]


@pytest.fixture
def stream(spark: SparkSession, broker: str) -> Stream:
    """A streaming read from the beginning, with the options given."""

    def load(**options: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
        reader = reader.options(startingOffsets="earliest", **KAFKA_QUICK_FETCH, **options)
        return reader.load()

    return load


def to_parquet(frame: DataFrame, target: Path, **trigger: object) -> StreamingQuery:
    """Start a query that writes the values into Parquet, with a checkpoint beside."""
    values = frame.select(f.col("value").cast("string").cast("int").alias("n"), "partition")
    writer = values.writeStream.format("parquet").option("path", str(target / "data"))
    writer = writer.option("checkpointLocation", str(target / "checkpoint"))
    return writer.trigger(**trigger).start()


def run_available(frame: DataFrame, target: Path) -> StreamingQuery:
    """Run a query over everything there is, and wait for its end."""
    query = to_parquet(frame, target, availableNow=True)
    assert query.awaitTermination(TIMEOUT_S)
    return query


def numbers(spark: SparkSession, target: Path) -> list[int]:
    """What is in the Parquet sink, sorted."""
    return sorted(row.n for row in spark.read.parquet(str(target / "data")).collect())


def test_available_now_goes_on_from_its_checkpoint(
    spark: SparkSession,
    broker: str,
    admin: AdminClient,
    new_topic: Callable[..., str],
    stream: Stream,
    tmp_path: Path,
) -> None:
    """Run again it takes what is new, exactly once; partitions added meanwhile are found."""
    topic = new_topic(2)
    produce(broker, topic, 0, 5000)
    run_available(stream(subscribe=topic), tmp_path)
    assert numbers(spark, tmp_path) == list(range(5000))
    produce(broker, topic, 5000, 8000)
    run_available(stream(subscribe=topic), tmp_path)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
    wait_until(lambda: len(end_offsets(broker, topic, 4)) == 4, what="the new partitions")
    produce(broker, topic, 8000, 10000)
    run_available(stream(subscribe=topic), tmp_path)
    assert numbers(spark, tmp_path) == list(range(10000))
    partitions = spark.read.parquet(str(tmp_path / "data")).select("partition").distinct()
    assert partitions.count() == 4


def test_processing_time_with_small_batches(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], stream: Stream, tmp_path: Path
) -> None:
    """maxOffsetsPerTrigger makes batches; a query stopped in between goes on where it was."""
    topic = new_topic(3)
    produce(broker, topic, 0, 6000)
    for last in (6000, 9000):
        frame = stream(subscribe=topic, maxOffsetsPerTrigger="1500")
        query = to_parquet(frame, tmp_path, processingTime="100 milliseconds")
        query.processAllAvailable()
        query.stop()
        assert numbers(spark, tmp_path) == list(range(last))
        produce(broker, topic, last, last + 3000)


@pytest.mark.runs(
    "Spark Structured Streaming", "pyspark", "its own connector; at least once into a topic"
)
def test_topic_to_topic(
    broker: str,
    new_topic: Callable[..., str],
    stream: Stream,
    read: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    """A stream from one topic into another."""
    source, sink = new_topic(3), new_topic(3)
    produce(broker, source, 0, 5000)
    frame = stream(subscribe=source).select("key", f.concat("value", f.lit("!")).alias("value"))
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", broker)
    writer = writer.option("topic", sink).option("checkpointLocation", str(tmp_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    values = {bytes(row.value) for row in read(subscribe=sink).select("value").collect()}
    assert values == {b"%d!" % n for n in range(5000)}


def test_windows_with_a_watermark(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], stream: Stream, tmp_path: Path
) -> None:
    """Counts per minute; windows are final once the watermark has passed them."""
    topic = new_topic(1)
    produce(broker, topic, 0, 3600)
    windows = (
        stream(subscribe=topic)
        .withWatermark("timestamp", "1 minute")
        .groupBy(f.window("timestamp", "10 minutes"))
        .count()
    )
    writer = windows.select("window.start", "count").writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "data")).outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    counts = [row["count"] for row in spark.read.parquet(str(tmp_path / "data")).collect()]
    assert counts.count(600) >= 4
    assert sum(counts) <= 3600


def test_for_each_batch(
    broker: str, new_topic: Callable[..., str], stream: Stream, tmp_path: Path
) -> None:
    """foreachBatch sees every record once."""
    topic = new_topic(3)
    produce(broker, topic, 0, 5000)
    seen: list[int] = []

    def collect(frame: DataFrame, batch_id: int) -> None:
        seen.extend(int(row.value) for row in frame.select("value").collect())

    frame = stream(subscribe=topic, maxOffsetsPerTrigger="2000")
    writer = frame.writeStream.foreachBatch(collect)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert writer.start().awaitTermination(TIMEOUT_S)
    assert sorted(seen) == list(range(5000))


def test_lost_records_are_reported(
    spark: SparkSession,
    broker: str,
    admin: AdminClient,
    new_topic: Callable[..., str],
    stream: Stream,
    tmp_path: Path,
) -> None:
    """DeleteRecords beyond the checkpoint fails the query, or is skipped over if it may."""
    topic = new_topic(1)
    produce(broker, topic, 0, 1000)
    run_available(stream(subscribe=topic), tmp_path)
    produce(broker, topic, 1000, 3000)
    gone = TopicPartition(topic, 0, 2000)
    admin.delete_records([gone])[gone].result(TIMEOUT_S)
    with pytest.raises(StreamingQueryException):
        run_available(stream(subscribe=topic, failOnDataLoss="true"), tmp_path)
    run_available(stream(subscribe=topic, failOnDataLoss="false"), tmp_path)
    assert numbers(spark, tmp_path) == [*range(1000), *range(2000, 3000)]


def test_a_topic_created_anew_is_reported(
    broker: str, admin: AdminClient, new_topic: Callable[..., str], stream: Stream, tmp_path: Path
) -> None:
    """A topic that was deleted and created again has fewer offsets than the checkpoint."""
    topic = new_topic(1)
    produce(broker, topic, 0, 1000)
    run_available(stream(subscribe=topic), tmp_path)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(
        lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, what="the deletion"
    )
    create_topics(broker, topic, retention_ms=-1)
    produce(broker, topic, 0, 10)
    with pytest.raises(StreamingQueryException):
        run_available(stream(subscribe=topic, failOnDataLoss="true"), tmp_path)
