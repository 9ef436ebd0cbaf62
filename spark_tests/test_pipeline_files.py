"""Pipelines into files: names, exactness, transforms, replays and what ``verify`` is told."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from compat_tests.java_tools import MissingTool, run_tool
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.sink import OffsetsUnknown
from kwire.spark.upkeep.commands import sink_of
from spark_tests.pipelines import (
    TIMEOUT_S,
    claimed,
    files,
    numbers,
    produce_json,
    produce_values,
    run,
    settings_of,
)

NewTopic = Callable[..., str]


def span(first: int, end: int) -> str:
    """A range as file names have it."""
    return f"{first:020}-{end:020}"


def forget_commit(tmp_path: Path, batch: int) -> None:
    """Make Spark run a batch again, as after a kill between the sink and the commit."""
    commits = tmp_path / "checkpoint" / "spark-0" / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def double(rows: DataFrame) -> DataFrame:
    """A transform: each row twice, over two tasks."""
    return rows.unionAll(rows).repartition(2)


@pytest.mark.both_lanes
def test_names_say_partition_and_offsets(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """One file for each partition and batch; nothing else that a reader could see."""
    topic = new_topic(2)
    settings = settings_of(broker, topic, tmp_path)
    produce_json(broker, topic, 0, 1000, partitions=2)
    status = run(spark, settings)
    assert (status.records, status.dead_letters, status.lag) == (1000, 0, 0)
    produce_json(broker, topic, 1000, 1100, partitions=2)
    run(spark, settings)
    assert numbers(tmp_path) == list(range(1100))
    assert files(tmp_path) == [
        f"topic={topic}/partition={partition}/{span(first, end)}.parquet"
        for partition in (0, 1)
        for first, end in ((0, 500), (500, 550))
    ]
    assert list((tmp_path / ".kwire-table" / "staging").iterdir()) == []


def test_kafka_s_own_tool_shows_the_lag(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The group has the offsets of what the sink has, and no member; the rest is lag."""
    topic = new_topic(2)
    settings = settings_of(broker, topic, tmp_path, group=f"{topic}-group")
    produce_json(broker, topic, 0, 10, partitions=2)
    run(spark, settings)
    produce_json(broker, topic, 10, 13, partitions=2)
    try:
        said = run_tool(
            *("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe"),
            *("--bootstrap-server", broker, "--group", settings["group"]),
        )
    except MissingTool as missing:
        pytest.skip(str(missing))
    titles, *rows = (
        line.split() for line in said.splitlines() if f"{topic}-group " in line or "LAG" in line
    )
    places = [titles.index(one) for one in ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
    assert sorted([row[place] for place in places] for row in rows) == [
        ["0", "5", "7", "2"],
        ["1", "5", "6", "1"],
    ]


@pytest.mark.both_lanes
def test_a_batch_that_runs_again_gives_its_new_rows(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Also if the transform gives others by then: fewer files, or none; never old and new ones."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 10)
    twice = [{"function": f"{__name__}:double"}]
    run(spark, settings_of(broker, topic, tmp_path, transform=twice))
    assert numbers(tmp_path) == sorted([*range(10), *range(10)])
    assert claimed(files(tmp_path)) == [f"0/{span(0, 10)}-{part}" for part in (0, 1)]
    for sql, left in (("SELECT * FROM rows WHERE n < 5", 5), ("SELECT * FROM rows WHERE n < 0", 0)):
        forget_commit(tmp_path, 0)
        run(spark, settings_of(broker, topic, tmp_path, transform=[{"sql": sql}]))
        assert claimed(files(tmp_path)) == ([f"0/{span(0, 10)}"] if left else [])
        assert not left or numbers(tmp_path) == list(range(left))


def test_what_a_kill_leaves_aside_is_removed(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Files beside the table's directory are of no batch any more when a pipeline starts."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 10)
    left = tmp_path / ".kwire-table" / "staging" / "old"
    left.mkdir(parents=True)
    (left / "part-00000.parquet").write_bytes(b"torn")
    run(spark, settings_of(broker, topic, tmp_path))
    assert not left.exists()
    assert numbers(tmp_path) == list(range(10))


def test_the_sink_says_what_it_holds(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Ranges with their offsets; a range without rows is covered nevertheless."""
    topic = new_topic(1)
    settings = settings_of(broker, topic, tmp_path)
    produce_json(broker, topic, 0, 3)
    run(spark, settings)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b'{"n": -1}', partition=0)
    assert producer.flush(TIMEOUT_S) == 0  # what waits in the client would not be sent at all
    producer.abort_transaction(TIMEOUT_S)
    run(spark, settings)
    produce_json(broker, topic, 3, 5)
    produce_values(broker, topic, b"garbage", None)
    assert run(spark, settings).dead_letters == 1
    sink = sink_of(pipeline_of(settings))
    held = list(sink.held(spark))
    assert {(0, 3), (3, 5), (5, 9)} <= {(one.range.first, one.range.end) for one in held}
    assert sorted(at for one in held for at in one.offsets or ()) == [0, 1, 2, 5, 6]
    assert sum(one.rows for one in held) == 5


@pytest.mark.both_lanes
def test_steps_of_sql_and_python(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """One after the other; rows without topic and partition are in files named by batch."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 6)
    steps = [
        {"sql": "SELECT n % 2 AS odd, count(*) AS many FROM rows GROUP BY n % 2"},
        {"function": f"{__name__}:with_greeting"},
    ]
    settings = settings_of(broker, topic, tmp_path, transform=steps, sink__kind="json")
    run(spark, settings)
    assert {one.partition("-")[0] for one in files(tmp_path)} == {"batch"}
    lines = [
        json.loads(line)
        for one in (tmp_path / "table").glob("*.json")
        for line in one.read_text().splitlines()
    ]
    greeting = {"many": 3, "greeting": "hello"}
    assert sorted(lines, key=lambda line: line["odd"]) == [
        {"odd": 0, **greeting},
        {"odd": 1, **greeting},
    ]
    with pytest.raises(OffsetsUnknown, match="named by batch"):
        list(sink_of(pipeline_of(settings)).held(spark))


def with_greeting(rows: DataFrame) -> DataFrame:
    """A transform of a user's."""
    return rows.withColumn("greeting", f.lit("hello"))


@pytest.mark.both_lanes
def test_compressed_json_keeps_its_ending(
    spark: SparkSession, broker: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Readers find out by the ending that a file is compressed."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 5)
    changes = {"sink__kind": "json", "sink__compression": "gzip"}
    run(spark, settings_of(broker, topic, tmp_path, **changes))
    assert files(tmp_path) == [f"topic={topic}/partition=0/{span(0, 5)}.json.gz"]
    assert spark.read.json(str(tmp_path / "table")).count() == 5
