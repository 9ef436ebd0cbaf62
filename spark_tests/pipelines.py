"""Pipelines for tests: their settings, and what a plain reader finds in their files."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kwire.spark.pipeline import Pipeline
from kwire.spark.progress import Status
from spark_tests.rows import QUICK_FETCH, TIMEOUT_S

SCHEMA = "n long, name string"


def settings_of(broker: str, topic: str, directory: Path, **changes: Any) -> dict[str, Any]:
    """A pipeline from JSON to Parquet, which reads what is there and ends.

    A name such as ``source__on_data_loss`` changes a key of a table.
    """
    found: dict[str, Any] = {
        "name": f"pipeline-{topic}",
        "checkpoint": str(directory / "checkpoint"),
        "trigger": "once",
        "source": {"bootstrap_servers": broker, "topics": [topic], "client": QUICK_FETCH},
        "decode": {"format": "json", "schema": SCHEMA},
        "sink": {
            "kind": "parquet",
            "path": str(directory / "table"),
            "metadata": ["topic", "partition", "offset"],
        },
    }
    for key, value in changes.items():
        table, _, name = key.rpartition("__")
        (found[table] if table else found)[name] = value
    return found


def run(spark: SparkSession, settings: dict[str, Any], **parts: Any) -> Status:
    """Run a pipeline to its end."""
    return Pipeline(settings, spark=spark, **parts).run()


@contextmanager
def running(spark: SparkSession, settings: dict[str, Any]) -> Iterator[Pipeline]:
    """A pipeline that runs in a thread, and is stopped after the block."""
    pipeline = Pipeline(settings, spark=spark)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            pipeline.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield pipeline
    finally:
        pipeline.stop()
        thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def produce_json(broker: str, topic: str, first: int, last: int, partitions: int = 1) -> None:
    """Objects ``first`` to ``last``, in turn over the partitions."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for n in range(first, last):
        value = json.dumps({"n": n, "name": f"name {n}"}).encode()
        producer.produce(topic, value, b"%d" % n, n % partitions)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def produce_values(broker: str, topic: str, *values: bytes | None) -> None:
    """Values as they are, into partition 0."""
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(topic, value, b"key", 0)
    assert producer.flush(TIMEOUT_S) == 0


def numbers(directory: Path) -> list[int]:
    """The column ``n`` of all files, as pyarrow reads them without Spark, sorted.

    A pipeline makes the directory before it writes its first file; until then there is no column.
    """
    top = directory / "table"
    found = pyarrow.dataset.dataset(top, format="parquet") if top.exists() else None
    if found is None or not found.files:
        return []
    return sorted(found.to_table(["n"])["n"].to_pylist())


def files(directory: Path) -> list[str]:
    """What ``ls -R`` shows of a table's directory, apart from what readers ignore."""
    top = directory / "table"
    found = [*top.glob("topic=*/*/[!._]*"), *top.glob("batch-*")]
    return sorted(one.relative_to(top).as_posix() for one in found)


def claimed(files: list[str]) -> list[str]:
    """The part of names after the topic: partition, offsets, and what follows."""
    return sorted(one.partition("/partition=")[2].partition(".")[0] for one in files)
