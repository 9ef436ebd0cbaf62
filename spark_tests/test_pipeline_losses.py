"""Pipelines that meet lost data: deleted records, topics created again, partitions added."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

from kwire.spark.lost_records import DataLost
from kwire.testing.waiting import wait_until
from spark_tests.pipelines import (
    TIMEOUT_S,
    claimed,
    files,
    numbers,
    produce_json,
    run,
    running,
    settings_of,
)
from spark_tests.rows import end_offsets
from spark_tests.test_pipeline_files import forget_commit, span


class Case:
    """A topic with one partition, and a pipeline that reads it."""

    def __init__(self, broker: str, admin: AdminClient, topic: str, directory: Path) -> None:
        self.topic = topic
        self.directory = directory
        self.broker = broker
        self.admin = admin

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The pipeline's settings."""
        return settings_of(self.broker, self.topic, self.directory, **changes)

    def produce(self, first: int, last: int, partitions: int = 1) -> None:
        """Objects of the topic."""
        produce_json(self.broker, self.topic, first, last, partitions)


@pytest.fixture
def case(broker: str, admin: AdminClient, new_topic: Callable[..., str], tmp_path: Path) -> Case:
    """A topic of a test's own."""
    return Case(broker, admin, new_topic(1), tmp_path)


def create_again(admin: AdminClient, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it anew."""
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, what="deletion")
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def lost(directory: Path) -> list[dict[str, Any]]:
    """The table of lost ranges."""
    rows = [json.loads(one.read_text()) for one in sorted((directory / "_lost").glob("*.json"))]
    return [{key: row[key] for key in ("partition", "first", "end", "reason")} for row in rows]


@pytest.mark.both_lanes
def test_a_deleted_range(spark: SparkSession, case: Case) -> None:
    """It stops the pipeline with one line, or is written into a table, exactly."""
    settings = case.settings()
    case.produce(0, 10)
    run(spark, settings)
    case.produce(10, 30)
    gone = TopicPartition(case.topic, 0, 20)
    case.admin.delete_records([gone])[gone].result(TIMEOUT_S)
    said = f"{case.topic}-0: offsets 10 to 19 are deleted; set source.on_data_loss"
    for _ in range(2):
        with pytest.raises(DataLost, match=said):
            run(spark, settings)
    assert numbers(case.directory) == list(range(10))
    settings["source"]["on_data_loss"] = "record"
    assert run(spark, settings).lost_offsets == 10
    assert numbers(case.directory) == [*range(10), *range(20, 30)]
    found = {"partition": 0, "first": 10, "end": 20, "reason": "deleted"}
    assert lost(case.directory / "table") == [found]


@pytest.mark.both_lanes
def test_a_topic_created_again(
    spark: SparkSession, case: Case, new_topic: Callable[..., str]
) -> None:
    """Seen by its id, though its end has passed the old one; the new one is read from its start.

    The other topic goes on where it was, also through a batch that was in the sink in part.
    """
    topic, other = case.topic, new_topic(1)
    settings = case.settings(source__topics=[topic, other])
    case.produce(0, 10)
    produce_json(case.broker, other, 100, 105)
    run(spark, settings)
    produce_json(case.broker, other, 105, 110)
    run(spark, settings)
    forget_commit(case.directory, 1)
    create_again(case.admin, topic)
    case.produce(1000, 1020)
    produce_json(case.broker, other, 110, 112)
    with pytest.raises(DataLost, match=f"{topic}-0: the topic was created again"):
        run(spark, settings)
    settings["source"]["on_data_loss"] = "record"
    run(spark, settings)
    expected = sorted([*range(10), *range(100, 112), *range(1000, 1020)])
    assert numbers(case.directory) == expected
    assert claimed([one for one in files(case.directory) if topic in one]) == sorted(
        [f"0/{span(0, 10)}", f"0/{span(0, 20)}-i1"]
    )
    assert [one["reason"] for one in lost(case.directory / "table")] == ["created again"]
    case.produce(1020, 1025)
    run(spark, settings)
    assert numbers(case.directory) == sorted([*expected, *range(1020, 1025)])


def test_a_topic_created_again_while_the_pipeline_runs(spark: SparkSession, case: Case) -> None:
    """The running query ends, and another goes on from the new beginning."""
    settings = case.settings(trigger="100 milliseconds", source__on_data_loss="record")
    case.produce(0, 10)
    table = case.directory / "table"
    with running(spark, settings):
        wait_until(lambda: list(table.rglob("[0-9]*.parquet")), timeout_s=TIMEOUT_S, what="a batch")
        create_again(case.admin, case.topic)
        case.produce(1000, 1020)
        wait_until(
            lambda: list(table.rglob("[0-9]*-i1.*")), timeout_s=TIMEOUT_S, what="the new topic"
        )
    assert numbers(case.directory) == [*range(10), *range(1000, 1020)]


def test_a_partition_added_is_read_from_its_beginning(spark: SparkSession, case: Case) -> None:
    """What was written into it before the pipeline saw it counts."""
    settings = case.settings(source__starting="latest")
    run(spark, settings)
    new = NewPartitions(case.topic, 2)
    case.admin.create_partitions([new])[case.topic].result(TIMEOUT_S)
    wait_until(lambda: len(end_offsets(case.broker, case.topic, 2)) == 2, what="the new partition")
    case.produce(0, 10, partitions=2)
    run(spark, settings)
    assert numbers(case.directory) == list(range(10))
    assert claimed(files(case.directory)) == [f"{at}/{span(0, 5)}" for at in (0, 1)]
