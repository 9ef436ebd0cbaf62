"""The commands of a pipeline, one after the other: run, verify, compact, expire, replay, status."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kwire.spark import dead_letters
from kwire.testing.waiting import wait_until
from spark_tests.commands import Commands, produce_all_kinds, write_file
from spark_tests.pipelines import (
    TIMEOUT_S,
    files,
    numbers,
    produce_json,
    produce_values,
    running,
    settings_of,
)
from spark_tests.processes import toml
from spark_tests.rows import committed_offsets

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
LONG_ICEBERG = pytest.param("iceberg", marks=pytest.mark.long)
KINDS = ["delta", LONG_ICEBERG] if STOCK else ["parquet", "delta-rs"]
"""Each kind in one of the lanes: a sink's way to write doesn't depend on the version of Spark.

What the commands do to an Iceberg table is in ``test_upkeep``, in less time.
"""


def in_batches(kind: str, records: int = 20) -> dict[str, object]:
    """What the pipeline's file says of small batches, and of the timestamps of rows."""
    return {
        "source__max_offsets_per_trigger": records,
        "sink__kind": kind,
        "sink__metadata": ["topic", "partition", "offset", "timestamp"],
    }


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_of_a_table(
    kind: str,
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """The table is exact after each of them, with markers, aborted records and dead letters."""
    topic = new_topic(1)
    produce_all_kinds(broker, topic, 0, 40)
    # Compaction of files leaves the newest one as it is, so there have to be more than two.
    records = {"delta": 22, "parquet": 10}.get(kind, 20)
    write_file(broker, topic, tmp_path, **in_batches(kind, records))
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["broker"], found["sink"], found["dead_letters"]) == (41, 40, 1)
    compacted = json.loads(commands("compact", "--json"))[0]
    assert compacted["files_after"] < compacted["files_before"]
    assert commands.verify()["sink"] == 40
    commands("replay", "--topic", topic, "--from-offset", 5, "--to-offset", 15)
    assert commands.verify()["sink"] == 40
    file = tmp_path / "p.toml"
    right = file.read_text()
    file.write_text(right.replace("name string", "name int"))
    again = ("--topic", topic, "--from-offset", 5, "--to-offset", 15)
    assert "aren't dead letters can't be decoded now" in commands("replay", *again, code=1)
    file.write_text(right)
    produce_all_kinds(broker, topic, 40, 60)
    commands("run", "--quiet")
    assert commands.verify()["sink"] == 40 + 20
    cut = ("--topic", topic, "--partition", 0, "--before-offset", 43)
    commands("expire", *cut)
    found = commands.verify()
    assert found["first"] > 0
    assert 0 < found["sink"] < 60
    status = json.loads(commands("status", "--json"))
    assert (status["lag"], status["dead_letters"]) == (0, 1), "those of the last run"


def test_verify_finds_a_gap_and_a_double(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """A file that was deleted, and one that was copied; a copy of another name has no range.

    Without the table everything is a gap.
    """
    topic = new_topic(1)
    produce_all_kinds(broker, topic, 0, 40)
    write_file(broker, topic, tmp_path, **in_batches("parquet"))
    commands("run", "--quiet")
    names = sorted((tmp_path / "table").glob("topic=*/partition=0/*"))
    copy = names[1].with_name(names[1].stem + "-7.parquet")
    shutil.copy(names[1], copy)
    names[0].unlink()
    found = commands.verify(code=1)
    assert (found["gaps"], found["doubles"]) == (20, 20)
    assert "20 gaps (offsets 0-19), 20 doubles (offsets 20-39)" in commands("verify", code=1)
    copy.rename(copy.with_name("copy.parquet"))
    assert "isn't named as the sink names files" in commands("verify", code=1)
    shutil.rmtree(tmp_path / "table")
    found = commands.verify(code=1)
    assert (found["sink"], found["gaps"], found["dead_letters"]) == (0, 40, 1)


def test_verify_after_tombstones_have_changed(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Each tombstone is compared by the setting with which it was read, or replayed."""
    topic = new_topic(1)
    for way in ("skip", "row", "dead letter", "skip", "row"):
        produce_values(broker, topic, b'{"n": 1}', None)
        sink = {"kind": "parquet", "path": str(tmp_path / "table"), "tombstones": way}
        write_file(broker, topic, tmp_path, sink=sink)
        commands("run", "--quiet")
        commands.verify()
    found = commands.verify()
    assert (found["sink"], found["dead_letters"]) == (7, 1)
    for offset, rows in ((0, 8), (6, 9)):
        commands("replay", "--topic", topic, "--from-offset", offset, "--to-offset", offset + 2)
        assert commands.verify()["sink"] == rows
    for one in (tmp_path / "table").glob("topic=*/partition=0/*"):
        if int(one.name[:20]) == 8:
            one.unlink()
    assert commands.verify(code=1)["gaps"] == 2, "the last tombstone is a row that is missing"


def test_verify_of_a_compacted_topic(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Rows whose record compaction has removed are neither strangers nor doubles.

    There are markers and aborted records too; a row that is missing is a gap all the same.
    """
    compaction = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = new_topic(1, **{"cleanup.policy": "compact"}, **compaction)
    produce_all_kinds(broker, topic, 0, 20)
    write_file(broker, topic, tmp_path, **in_batches("parquet"))
    commands("run", "--quiet")
    before = committed_offsets(broker, topic)

    def is_compacted() -> bool:
        produce_all_kinds(broker, topic, 0, 20)  # also so that segments are rolled
        return not set(before) & set(committed_offsets(broker, topic))

    wait_until(is_compacted, timeout_s=TIMEOUT_S, what="compaction")
    commands("run", "--quiet")
    found = commands.verify()
    assert found["compacted"] >= 20
    assert found["broker"] < found["sink"]
    last = committed_offsets(broker, topic)[-1]
    [newest] = [
        one
        for one in (tmp_path / "table").glob("topic=*/partition=0/*")
        if int(one.name[:20]) <= last < int(one.name[21:41])
    ]
    newest.unlink()
    assert commands.verify(code=1)["gaps"] >= 1


def test_verify_beside_a_batch_under_way(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch whose rows are there and whose dead letters aren't yet has no gaps."""
    topic = new_topic(1)
    produce_all_kinds(broker, topic, 0, 40)
    write_file(broker, topic, tmp_path, **in_batches("parquet"))

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(dead_letters.ParquetTable, "write", fail)
        assert "the disk is full" in commands("run", "--quiet", code=1)
    found = commands.verify()
    assert (found["sink"], found["dead_letters"], found["unfinished"]) == (40, 0, 1)
    commands("run", "--quiet")
    found = commands.verify()
    assert (found["sink"], found["dead_letters"], found["unfinished"]) == (40, 1, 0)


@pytest.mark.both_lanes
@pytest.mark.skipif(STOCK, reason="one lane is enough: there is more time in the other one")
def test_the_commands_beside_a_running_pipeline(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """It writes files while others are merged, replayed and expired; ``verify`` is content."""
    topic = new_topic(1)
    changes = {"trigger": "50 milliseconds", "source__max_offsets_per_trigger": 25}
    settings = settings_of(broker, topic, tmp_path, **changes)
    (tmp_path / "p.toml").write_text(toml(settings))
    place = ("--topic", topic, "--partition", 0)
    end = 0

    def more(count: int) -> None:
        nonlocal end
        produce_json(broker, topic, end, end + count)
        end += count

    with running(spark, settings):
        more(100)
        for command in (
            ("expire", *place, "--before-offset", 50),
            ("compact",),
            ("replay", *place, "--from-offset", 60, "--to-offset", 90),
        ):
            wait_until(
                lambda: files(tmp_path) and max(numbers(tmp_path)) >= end - 50,
                timeout_s=TIMEOUT_S,
                what="some batches",
            )
            more(75)  # so that batches are written while the command works
            commands(*command)
            rows = numbers(tmp_path)
            assert rows == list(range(rows[0], rows[-1] + 1))
        wait_until(
            lambda: max(numbers(tmp_path)) == end - 1, timeout_s=TIMEOUT_S, what="all batches"
        )
        commands("verify")
    found = commands.verify()
    assert numbers(tmp_path) == list(range(found["first"], end))
    assert found["first"] == 50
    assert len(files(tmp_path)) < end // 25
