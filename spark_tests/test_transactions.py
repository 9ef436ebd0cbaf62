"""Spark reads read_committed from topics in which transactions were aborted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_tests.rows import KAFKA_QUICK_FETCH, TIMEOUT_S

pytestmark = pytest.mark.both_lanes

ROUNDS, PER_ROUND = 20, 30
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture
def topic(broker: str, new_topic: Callable[..., str]) -> Iterator[str]:
    """Rounds of rows 0, 1, 2 …; every third round is aborted, and one more stays open for now."""
    name = new_topic()
    producer = Producer({"bootstrap.servers": broker, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    for number in range(ROUNDS + 1):
        producer.begin_transaction()
        for n in range(number * PER_ROUND, (number + 1) * PER_ROUND):
            producer.produce(name, b"%d" % n, partition=n % 3)
        producer.flush(TIMEOUT_S)
        if number == ROUNDS:
            break
        if number % 3 == 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    yield name
    producer.abort_transaction(TIMEOUT_S)


EXPECTED = [
    n
    for number in range(ROUNDS)
    if number % 3 != 2
    for n in range(number * PER_ROUND, (number + 1) * PER_ROUND)
]


def numbers(frame: DataFrame) -> list[int]:
    """The values, as numbers, sorted."""
    values = frame.select(f.col("value").cast("string").cast("int").alias("n"))
    return sorted(row.n for row in values.collect())


def test_a_batch_read_leaves_out_what_was_aborted(
    topic: str, read: Callable[..., DataFrame]
) -> None:
    """Nothing of an aborted or an open transaction; without the option everything."""
    assert numbers(read(subscribe=topic, **COMMITTED)) == EXPECTED
    everything = numbers(read(subscribe=topic))
    assert everything == list(range((ROUNDS + 1) * PER_ROUND))


def test_a_stream_leaves_out_what_was_aborted(
    topic: str, spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    """Micro-batches whose ends fall among markers and aborted records lose and repeat nothing."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    reader = reader.options(
        **KAFKA_QUICK_FETCH,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="100",
        **COMMITTED,
    )
    values = reader.load().select(f.col("value").cast("string").cast("int").alias("n"))
    writer = values.writeStream.format("parquet").option("path", str(tmp_path / "data"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    found = spark.read.parquet(str(tmp_path / "data")).collect()
    assert sorted(row.n for row in found) == EXPECTED
