"""Where a pipeline begins, and how large its batches are."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kwire.spark import pipeline
from kwire.spark.broker_view import BrokerView
from kwire.spark.settings import Source
from kwire.testing.waiting import wait_until
from spark_tests.pipelines import TIMEOUT_S, numbers, run, running, settings_of
from spark_tests.rows import START_MS


def produce(
    broker: str, topic: str, first: int, last: int, size: int = 0, partitions: int = 1
) -> None:
    """Objects a second apart, in turn over the partitions, each with a name of ``size``."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for n in range(first, last):
        value = json.dumps({"n": n, "name": "x" * size}).encode()
        time_ms = START_MS + n * 1000
        producer.produce(topic, value, b"k", n % partitions, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0


def size_of(broker: str, topic: str) -> int:
    """The bytes of a topic's only partition, as its broker says."""
    with BrokerView(Source(broker, (topic,))) as view:
        return view.sizes()[topic, 0]


def test_batches_by_size(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """With a quarter of the topic's bytes there are four batches, or one more for the rest."""
    topic = new_topic(1)
    produce(broker, topic, 0, 200, size=500)
    settings = settings_of(broker, topic, tmp_path)
    settings["source"]["max_bytes_per_trigger"] = size_of(broker, topic) // 4
    status = run(spark, settings)
    assert status.batches in (4, 5)
    assert 45 <= status.max_offsets_per_trigger <= 50
    assert numbers(tmp_path) == list(range(200))


def test_the_limit_follows_the_size_of_records(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the pipeline runs: larger records make fewer of them a batch; each is there once."""
    monkeypatch.setattr(pipeline, "LOOK_S", 0.1)
    monkeypatch.setattr(pipeline, "RENEW_S", 0.2)
    topic = new_topic(1)
    produce(broker, topic, 0, 100)
    settings = settings_of(broker, topic, tmp_path, trigger="100 milliseconds")
    settings["source"]["max_bytes_per_trigger"] = 20 * size_of(broker, topic)

    def limit() -> int:
        file = tmp_path / "checkpoint" / "status.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found.get("max_offsets_per_trigger", 0)

    def wait_for(is_there: Callable[[], bool], what: str) -> None:
        wait_until(is_there, timeout_s=TIMEOUT_S, what=what)

    with running(spark, settings):
        wait_for(lambda: limit() == 2000, "the first limit")
        produce(broker, topic, 100, 200, size=2000)
        wait_for(lambda: 0 < limit() < 500, "another limit")
        produce(broker, topic, 200, 220, size=2000)
        wait_for(lambda: len(numbers(tmp_path)) >= 220, "all rows")
    assert numbers(tmp_path) == list(range(220))


@pytest.mark.both_lanes
def test_a_pattern_a_time_and_offsets(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Topics whose whole name matches, from the first record of a time on; or given offsets."""
    one, other, third = new_topic(2, "starts-a"), new_topic(1, "starts-a"), new_topic(1, "not")
    produce(broker, one, 0, 20, partitions=2)
    produce(broker, other, 100, 110)
    produce(broker, third, 1000, 1010)
    since = datetime.datetime.fromtimestamp(START_MS / 1000 + 8, datetime.UTC)
    settings = settings_of(broker, one, tmp_path / "time", source__starting=since.isoformat())
    del settings["source"]["topics"]
    settings["source"]["pattern"] = f"({one}|{other}|{third[:-1]})"
    run(spark, settings)
    assert numbers(tmp_path / "time") == [*range(8, 20), *range(100, 110)]
    starting = {one: {"0": 7, "1": -2}, other: {"0": -1}}
    changes = {"source__topics": [one, other], "source__starting": starting}
    settings = settings_of(broker, one, tmp_path / "offsets", **changes)
    run(spark, settings)
    assert numbers(tmp_path / "offsets") == sorted([14, 16, 18, *range(1, 20, 2)])
    produce(broker, other, 110, 112)
    run(spark, settings)
    assert numbers(tmp_path / "offsets")[-2:] == [110, 111]
