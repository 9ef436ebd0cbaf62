"""``kwire pipeline verify`` where rows don't have every offset: upserts by key, and a topic."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from kwire.spark.column_names import INCARNATION
from kwire.spark.comparison_by_key import outcomes_of
from kwire.spark.comparison_by_transaction import NOTE
from kwire.spark.key_outcomes import Bounds
from kwire.spark.rows import KEY, OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, TOPIC
from kwire.spark.settings import SinkSettings, Source
from kwire.spark.sinks.iceberg_table import IcebergTable
from kwire.spark.sinks.upsert import UpsertSink
from spark_tests.commands import Commands, produce_all_kinds, write_file
from spark_tests.pipelines import TIMEOUT_S, produce_values, settings_of
from spark_tests.processes import toml

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"


def produce(broker: str, topic: str, *records: tuple[str, int | None]) -> None:
    """Objects and tombstones by their keys."""
    producer = Producer({"bootstrap.servers": broker})
    for key, n in records:
        value = None if n is None else json.dumps({"n": n, "name": "x"}).encode()
        producer.produce(topic, value, key.encode(), 0)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.skipif(not STOCK, reason="no jar of Delta and Iceberg")
@pytest.mark.parametrize("form", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_verify_of_upserts(
    form: str,
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Exact with tombstones, aborted records and dead letters; then each kind of a wrong row.

    Without the table every key is a gap.
    """
    topic = new_topic(1)
    produce_all_kinds(broker, topic, 0, 20)
    produce(broker, topic, ("1", 101), ("2", None), ("3", 103), ("new", 1), ("new", None))
    path = tmp_path / "table"
    sink = {"kind": "upsert", "format": form, "path": str(path)}
    write_file(broker, topic, tmp_path, sink=sink)
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["broker"], found["sink"], found["dead_letters"]) == (19, 19, 1)
    name = f"delta.`{path}`" if form == "delta" else _iceberg_name(path)
    for change in (
        "DELETE FROM {} WHERE n = 4",  # missing
        "UPDATE {} SET _offset = 3, n = 3 WHERE n = 103",  # older than the newest
        "UPDATE {} SET _offset = 21 WHERE n = 5",  # newer: a dead letter or a marker
        "UPDATE {} SET _key = encode('2', 'utf-8') WHERE n = 6",  # 6 is missing, 2 was deleted
        "INSERT INTO {0} SELECT * FROM {0} WHERE n = 7",  # twice
    ):
        spark.sql(change.format(name))
    found = commands.verify(code=1)
    assert (found["gaps"], found["strangers"], found["doubles"]) == (3, 2, 1)
    assert [one for one, _ in found["examples"]["gaps"]] == [4, 6, 48]
    assert [one for one, _ in found["examples"]["doubles"]] == [7]
    shutil.rmtree(path)
    assert f"{topic}-0: 19 gaps (offsets 0-0, 4-4" in commands("verify", code=1)


def _iceberg_name(path: Path) -> str:
    return IcebergTable(SinkSettings("upsert", str(path), (), {"format": "iceberg"})).name


WANTED = f"""{KEY} string,
newest struct<{TIMESTAMP}:long,{PARTITION}:int,{TOPIC}:string,{OFFSET}:long,{TOMBSTONE}:boolean>,
is_deleted_later boolean, is_deleted boolean, partitions long"""
HELD = f"{KEY} string, {TOPIC} string, {PARTITION} int, {OFFSET} long, {INCARNATION} int"
LIVE, GONE, NO_ROW = (0, 20, False), (0, 20, True), None
KEYS: dict[str, tuple[Any, Any, str, str]] = {
    "the newest": (LIVE, (0, 20, 1), "exact", "exact"),
    "missing": (LIVE, NO_ROW, "gap", "gap"),
    "older": (LIVE, (0, 19, 1), "gap", "gap"),
    "of no record": (LIVE, (0, 21, 1), "stranger", "stranger"),
    "compacted meanwhile": ((1, 20, False), (1, 21, 1), "compacted", "compacted"),
    "deleted": (GONE, NO_ROW, "exact", "gap"),
    "marked": (GONE, (0, 20, 1), "stranger", "exact"),
    "not deleted": (GONE, (0, 19, 1), "stranger", "gap"),
    "under way": (LIVE, (0, 55, 1), "unfinished", "unfinished"),
    "first seen under way": (None, (0, 55, 1), "unfinished", "unfinished"),
    "deleted under way": (LIVE, NO_ROW, "unfinished", "gap"),
    "beyond the end": (LIVE, (0, 60, 1), "stranger", "stranger"),
    "before the range": (None, (0, 9, 1), "deleted", "deleted"),
    "invented": (None, (0, 15, 1), "stranger", "stranger"),
    "removed by compaction": (None, (1, 15, 1), "compacted", "compacted"),
    "of the topic before": (None, (0, 99, 0), "earlier", "earlier"),
    "of before, replaced": (LIVE, (0, 99, 0), "gap", "gap"),
    "of before, deleted": (GONE, (0, 99, 0), "stranger", "gap"),
    "moved": ((1, 20, False), (0, 20, 1), "spread", "spread"),
    "in two, another": (LIVE, (0, 18, 1), "spread", "spread"),
    "in two, the newest": (LIVE, (0, 20, 1), "exact", "exact"),
    "in two, missing": (LIVE, NO_ROW, "gap", "gap"),
    "not there yet": (None, NO_ROW, "exact", "exact"),
}
"""The newest record as partition, offset, and whether it is a tombstone; the row as partition,
offset and incarnation; the outcome if tombstones remove rows, and if they mark them.
"""


def test_what_becomes_of_a_key(spark: SparkSession) -> None:
    """Each way in which a key's newest record and its row can lie; 50 offsets are finished."""
    wanted, held = [], []
    for key, (record, row, *_) in KEYS.items():
        if record is not None or row is NO_ROW:
            newest = record and (0, record[0], "t", *record[1:])
            wanted.append((key, newest, key == "deleted under way", False, 1 + ("in two" in key)))
        if row is not NO_ROW:
            held.append((key, "t", *row))
    bounds = {("t", 0): Bounds(10, 50, 60, False, 1), ("t", 1): Bounds(10, 50, 60, True, 1)}
    frames = spark.createDataFrame(wanted, WANTED), spark.createDataFrame(held, HELD)
    for marks in (False, True):
        settings = SinkSettings("upsert", "/t", (), {"deletes": "mark" if marks else "remove"})
        sink = UpsertSink(settings, Source("h:1", ("t",)), "p")
        found = outcomes_of(spark, sink, *frames, bounds).collect()
        outcomes = {row[KEY]: row["outcome"] for row in found}
        assert outcomes == {key: of[-1 if marks else -2] for key, of in KEYS.items()}


def test_verify_of_a_topic(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """What transactions have committed is all that was finished; an offset behind it is a gap."""
    topic, target = new_topic(1), new_topic(1)
    produce_all_kinds(broker, topic, 0, 20)
    sink = {"kind": "topic", "topic": target, "client": {"linger.ms": "5"}}
    write_file(broker, topic, tmp_path, sink=sink)
    commands("run", "--quiet")
    printed = commands("verify")
    assert NOTE in printed
    assert "UNFINISHED" in printed
    metadata = json.loads((tmp_path / "checkpoint" / "spark-0" / "metadata").read_text())
    group = f"kwire-topic-pipeline-{topic}-{metadata['id']}-{topic}-0"
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    consumer.commit(offsets=[TopicPartition(target, 0, 15)], asynchronous=False)
    consumer.close()
    assert "6 gaps (offsets 15-19, 21-21)" in commands("verify", code=1)


@pytest.mark.skipif(not STOCK, reason="no jar of Delta and Iceberg")
def test_verify_misses_what_is_no_dead_letter(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Without [dead_letters] records that the table can't keep are nowhere, also without a key.

    A row is compared by where it comes from, not by its values.
    """
    topic = new_topic(1)
    produce_values(broker, topic, b'{"n": 1, "name": "a"}', b'{"n": 2, "name": ""}', b'{"n": null}')
    sink: dict[str, Any] = {"kind": "upsert", "path": str(tmp_path / "table"), "key": ["n"]}
    sink |= {"partition_by": ["name"], "null_keys": "dead letter"}
    settings = settings_of(broker, topic, tmp_path, sink=sink)
    (tmp_path / "p.toml").write_text(toml(settings))
    commands("run", "--quiet")
    assert f"{topic}-0: 2 gaps (offsets 1-2)" in commands("verify", code=1)
    spark.sql(f"UPDATE delta.`{tmp_path}/table` SET name = 'b'")
    found = commands.verify(code=1)
    assert (found["gaps"], found["strangers"], found["sink"]) == (2, 0, 1)
