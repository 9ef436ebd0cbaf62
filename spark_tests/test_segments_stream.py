"""Streams over segments: each record once, over restarts and limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from pyspark.sql import SparkSession

from kwire.spark.segments import register
from kwire.spark.segments.files import list_segments
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from spark_tests.rows import TIMEOUT_S, end_offsets, produce
from spark_tests.segments import SETTINGS, Written

pytestmark = pytest.mark.both_lanes


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
    wait_until(
        lambda: query.lastProgress and query.lastProgress["batchId"] >= 1, timeout_s=TIMEOUT_S
    )
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


def retain(written: Written, topic: str, partitions: int = 1) -> None:
    """Let retention delete all that is there, then nothing more."""
    ends = dict(enumerate(end_offsets(written.bootstrap, topic, partitions)))

    def is_empty() -> bool:
        return all(
            list_segments(written.directory / f"{topic}-{n}").bases == [ends[n]] for n in ends
        )

    for milliseconds in ("1", "-1"):
        entry = ConfigEntry(
            "retention.ms", milliseconds, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for altered in written.admin.incremental_alter_configs([resource]).values():
            altered.result(TIMEOUT_S)
        if milliseconds != "-1":
            wait_until(is_empty, timeout_s=TIMEOUT_S, what="retention")


@pytest.mark.long
def test_segments_roll_and_go_while_a_stream_reads(written: Written, tmp_path: Path) -> None:
    """What was read may be deleted; what wasn't stops the stream, or is left out if that is said.

    A partition that is new meanwhile is read from its start.
    """
    topic = written.create("retained", 1, **{"segment.ms": "1"})
    options = {"startingOffsets": "earliest", "maxRecordsPerTrigger": "150"}

    def more(first: int, partitions: int = 1) -> None:
        for begin in range(first, first + 100, 20):  # each in a segment of its own
            produce(written.bootstrap, topic, begin, begin + 20)
        written.wait(topic, partitions)

    more(0)
    query = start(written, topic, tmp_path, **options)
    more(100)
    assert len(list_segments(written.directory / f"{topic}-0").bases) >= 10
    query.processAllAvailable()
    retain(written, topic)
    written.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(TIMEOUT_S)
    more(200, 2)
    query.processAllAvailable()
    query.stop()
    assert values(written, tmp_path) == list(range(300))

    read = end_offsets(written.bootstrap, topic, 2)
    more(300, 2)
    retain(written, topic, 2)
    more(400, 2)
    query = start(written, topic, tmp_path, **options)
    with pytest.raises(Exception, match=f"the stream has read up to ({read[0]}|{read[1]}); failOn"):
        query.processAllAvailable()
    query = start(written, topic, tmp_path, failOnDataLoss="false", **options)
    query.processAllAvailable()
    query.stop()
    assert values(written, tmp_path) == [*range(300), *range(400, 500)]


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
