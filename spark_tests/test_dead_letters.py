"""Dead letters through the commands: into topics and tables, replayed, and tried again."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.decode import decode
from kwire.spark.decode.resolved_decoding import decode_resolved, resolve_decoding
from kwire.spark.settings import Decode
from kwire.spark.split import Splits
from kwire.spark.storage import storage_at
from kwire.testing.schema_registry import SchemaRegistry
from kwire.testing.waiting import wait_until
from spark_tests.commands import Commands
from spark_tests.decoding import records_of
from spark_tests.pipelines import numbers, produce_values, settings_of
from spark_tests.processes import START_TIMEOUT_S, kill_group, kwire, process, toml
from spark_tests.rows import end_offsets
from spark_tests.test_decode_poisoned import avro
from spark_tests.test_pipeline_losses import create_again

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"

RECORDS = 1500
"""So many that going back takes several transactions."""
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
STRICT, LOOSE = "n BIGINT NOT NULL, name STRING", "n BIGINT, name STRING"


def write_file(directory: Path, settings: dict[str, Any], **changes: Any) -> None:
    """The pipeline's file, with other settings for decoding."""
    settings["decode"] |= changes
    (directory / "p.toml").write_text(toml(settings))


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", ["topic", "delta"] if STOCK else ["parquet"])
def test_dead_letters_come_back(
    kind: str,
    spark: SparkSession,
    broker: str,
    admin: AdminClient,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """A plan, then each is sent once; they are rows after the mistake in the schema was mended.

    Those of a topic that was created again are others, though they have the same offsets: here in a
    table, in a topic in tests/spark.
    """
    topic = new_topic(1)
    place = {"topic": new_topic(1)} if kind == "topic" else {"path": str(tmp_path / "dead")}
    settings = settings_of(broker, topic, tmp_path, source__on_data_loss="record")
    settings["dead_letters"] = place | ({"kind": kind} if kind != "topic" else {})
    write_file(tmp_path, settings, schema=STRICT)
    values = [b'{"n": 1}', b'{"name": "a"}', b'{"name": "b"}', b"garbage"]
    produce_values(broker, topic, *values)
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["sink"], found["dead_letters"]) == (1, 3)
    status = json.loads(commands("status", "--json"))
    assert sorted(status["dead_letters_by_reason"].values()) == [1, 2]
    assert (status["files_written"], status["files"]) == (1, 1)
    assert "3 would be sent" in commands("replay", "--dead-letters")
    select = ("replay", "--dead-letters", "--error", "required", "--execute")
    assert "2 sent; 0 were sent before" in commands(*select)
    assert "0 sent; 2 were sent before" in commands(*select)
    write_file(tmp_path, settings, schema=LOOSE)
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["broker"], found["sink"], found["dead_letters"]) == (6, 3, 3)
    if kind == "topic":
        return

    create_again(admin, topic)
    write_file(tmp_path, settings, schema=STRICT)
    produce_values(broker, topic, *values)
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["sink"], found["dead_letters"], found["earlier"]) == (1, 3, 3)
    assert "2 sent; 2 were sent before" in commands(*select)


@pytest.mark.long
@pytest.mark.skipif(not STOCK, reason="two starts of Spark; one lane is enough")
def test_retries_through_a_kill(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """The driver dies while records of an unknown schema go back: each becomes a row once."""
    topic = new_topic(1)
    file, log, table = tmp_path / "p.toml", tmp_path / "log", tmp_path / "table"
    with SchemaRegistry() as registry:
        known = registry.register(f"{topic}-value", json.dumps(SCHEMA))
        settings = settings_of(broker, topic, tmp_path, trigger="0 seconds")
        settings["decode"] = {"format": "avro", "registry": registry.url}
        settings["spark"] = {"spark.sql.shuffle.partitions": "2"}
        settings["dead_letters"] = {"path": str(tmp_path / "dead"), "retry_delays_s": [0.5, 2]}
        file.write_text(toml(settings))
        values = [avro(SCHEMA, {"n": n}, known + bool(n % 3)) for n in range(RECORDS)]
        produce_values(broker, topic, *values)
        with process(kwire("run", file), log) as child:
            wait_until(
                lambda: end_offsets(broker, topic, 1) > [RECORDS],
                timeout_s=START_TIMEOUT_S,
                what="the first records that went back",
                interval_s=0.2,
            )
            kill_group(child)
        assert registry.register(f"{topic}-value", json.dumps(SCHEMA | {"doc": "2"})) == known + 1
        with process(kwire("run", file), log) as child:
            wait_until(
                lambda: table.exists() and len(numbers(tmp_path)) >= RECORDS,
                timeout_s=START_TIMEOUT_S,
                what="all records in the table",
                interval_s=0.2,
            )
            child.send_signal(signal.SIGTERM)
            assert child.wait(START_TIMEOUT_S) == 0, log.read_text()
        commands("run", "--once", "--quiet")
    assert numbers(tmp_path) == list(range(RECORDS))
    found = commands.verify()
    assert found["dead_letters"] >= 2 * RECORDS // 3, "the places of those that were retried"
    assert "0 would be sent" in commands("replay", "--dead-letters")


@pytest.mark.both_lanes
def test_the_split_of_a_batch_is_decided_once(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that runs again has the same dead letters, whatever can be decoded by then."""
    records = records_of(spark, [b'{"n": 1}', b"{}", b'{"n": 2}', b"{}"])
    strict, loose, other = (
        decode(records, Decode(options={"schema": one}))
        for one in ("n INT NOT NULL", "n INT", "n BOOLEAN NOT NULL")
    )
    batch = Batch("p", "query", 3, (OffsetRange("orders", 0, 0, 4),))
    for frame in (strict, loose):
        splits = Splits(storage_at(str(tmp_path)))
        rows = splits.decided(frame, batch).orderBy("_offset").collect()
        assert [row["_error"] is None for row in rows] == [True, False, True, False]
        assert [row["_row"] is None for row in rows] == [False, True, False, True]
    with pytest.raises(PySparkException, match="it has to be read again"):
        splits.decided(other, batch).collect()
    following = Batch("p", "query", 4, batch.ranges)
    assert splits.decided(loose, following).where("_error IS NULL").count() == 4
    with pytest.raises(PySparkException, match="it has to be read again"):
        splits.decided(strict, following).collect()


@pytest.mark.both_lanes
def test_a_way_of_decoding_is_kept_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Avro and Protobuf decode the same from what was kept, after their files are gone."""
    avro = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
    proto = 'syntax = "proto3"; message R { int64 n = 1; }'
    for form, text in (("avro", avro), ("protobuf", proto)):
        file = tmp_path / ("r.proto" if form == "protobuf" else "r.avsc")
        file.write_text(text)
        kept = resolve_decoding(None, Decode(form, options={"schema_file": str(file)}), ["orders"])
        file.unlink()
        frame = decode_resolved(records_of(spark, [b"\x08\x07", b"\x0e"]), kept)
        [first, second] = frame.orderBy("_offset").collect()
        good, bad = (first, second) if form == "protobuf" else (second, first)
        assert good["_row"].n == 7
        assert bad["_error"] is not None
