"""Streams over segments: each record once, over restarts and limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.spark.segments import register
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from spark_tests.rows import TIMEOUT_S, produce
from spark_tests.segments import SETTINGS, Written


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A broker without topics."""
    register(spark)
    directory = tmp_path_factory.mktemp("segments") / "data"
    with BrokerProcess(directory, SETTINGS) as process:
        yield Written(process, directory, spark)


def start(written: Written, topic: str, place: Path, **options: str) -> Any:
    """A query that writes values into Parquet files."""
    reader = written.spark.readStream.format("kwire").options(topics=topic, **options)
    rows = reader.load(str(written.directory)).selectExpr("CAST(value AS string) AS v", "offset")
    writer = rows.writeStream.format("parquet").option("path", str(place / "out"))
    return writer.option("checkpointLocation", str(place / "checkpoint")).start()


def values(written: Written, place: Path) -> list[int]:
    """The numbers that were written."""
    return sorted(int(row.v) for row in written.spark.read.parquet(str(place / "out")).collect())


@pytest.mark.parametrize("limit", ["maxRecordsPerTrigger", "maxBytesPerTrigger"])
def test_each_record_is_read_once_over_a_restart(
    written: Written, tmp_path: Path, limit: str
) -> None:
    """Limited batches, a restart from the checkpoint, then more records."""
    topic = written.create(f"once-{limit}")
    produce(written.bootstrap, topic, 0, 2000, **{"batch.num.messages": 50})
    written.wait(topic)
    options = {"startingOffsets": "earliest", limit: "500" if "Records" in limit else "10000"}
    query = start(written, topic, tmp_path, **options)
    wait_until(lambda: query.lastProgress and query.lastProgress["batchId"] >= 1, timeout_s=60)
    query.stop()
    batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert batches
    assert max(batches) < 1500
    produce(written.bootstrap, topic, 2000, 2500)
    written.wait(topic)
    query = start(written, topic, tmp_path, **options)
    query.processAllAvailable()
    query.stop()
    assert max(p["numInputRows"] for p in query.recentProgress) < 1500
    assert values(written, tmp_path) == list(range(2500))


def test_a_stream_begins_at_the_end_unless_told(written: Written, tmp_path: Path) -> None:
    """As the connector's streams do; what comes later is read."""
    topic = written.create("later")
    produce(written.bootstrap, topic, 0, 100)
    written.wait(topic)
    query = start(written, topic, tmp_path)
    wait_until(lambda: (tmp_path / "checkpoint" / "offsets").exists(), timeout_s=TIMEOUT_S)
    query.processAllAvailable()
    produce(written.bootstrap, topic, 100, 150)
    written.wait(topic)
    query.processAllAvailable()
    query.stop()
    assert values(written, tmp_path) == list(range(100, 150))


def test_a_topic_that_was_created_again_stops_the_stream(written: Written, tmp_path: Path) -> None:
    """Even if its end has passed that of the old one."""
    topic = written.create("again", 1)
    produce(written.bootstrap, topic, 0, 100)
    written.wait(topic, 1)
    query = start(written, topic, tmp_path, startingOffsets="earliest")
    query.processAllAvailable()
    query.stop()
    written.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: not (written.directory / f"{topic}-0").exists(), timeout_s=TIMEOUT_S)
    written.create(topic, 1)
    produce(written.bootstrap, topic, 0, 200)
    written.wait(topic, 1)
    query = start(written, topic, tmp_path, startingOffsets="earliest")
    with pytest.raises(Exception, match="The topic again was created again"):
        query.processAllAvailable()
    query.stop()


def test_available_now_ends_with_what_was_there(written: Written, tmp_path: Path) -> None:
    """Read_committed, until the last stable offset."""
    topic = written.create("now")
    producer = written.producer(**{"transactional.id": "now"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(3):
        producer.begin_transaction()
        for n in range(number * 100, number * 100 + 100):
            producer.produce(topic, b"%d" % n, partition=n % 2)
        if number == 1:
            producer.abort_transaction(TIMEOUT_S)
        elif number == 0:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
    written.wait(topic)
    reader = written.spark.readStream.format("kwire").options(
        topics=topic, startingOffsets="earliest", isolation="read_committed"
    )
    rows = reader.load(str(written.directory)).selectExpr("CAST(value AS string) AS v")
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    assert values(written, tmp_path) == list(range(100))
    producer.abort_transaction(TIMEOUT_S)
