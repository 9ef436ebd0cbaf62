"""The kind upsert: the newest row of each key, whatever runs again."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark import batch_work
from kwire.spark.batch import Batch
from kwire.spark.batch_work import BatchWork
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.settings import WrongSetting
from kwire.spark.sink import OffsetsUnknown
from kwire.spark.sinks.upsert import UpsertSink
from spark_tests.decoding import records_of
from spark_tests.sink_rows import SOURCE, batch, records, settings

pytestmark = pytest.mark.skipif(
    os.environ.get("KWIRE_SPARK_LANE") != "stock", reason="no jar of Delta and Iceberg"
)
FORMATS = ("delta", "iceberg")


def sink_of(path: Path, form: str, **options: Any) -> UpsertSink:
    """A sink with its table in a directory."""
    sink = UpsertSink(settings("upsert", path / form, format=form, **options), SOURCE, "p")
    sink.check()
    return sink


def table(spark: SparkSession, path: Path, form: str) -> DataFrame:
    """The table of a format."""
    return spark.read.format(form).load(str(path / form))


def state(spark: SparkSession, path: Path, form: str) -> dict[str, int]:
    """The value of each key."""
    return {row["_key"].decode(): row.n for row in table(spark, path, form).collect()}


@pytest.mark.parametrize("form", FORMATS)
def test_the_last_record_of_a_key_stays(form: str, spark: SparkSession, tmp_path: Path) -> None:
    """Updates, inserts and tombstones, several of a key in one batch; any batch again."""
    sink = sink_of(tmp_path, form)
    one = [(0, 0, "a", {"n": 1}), (0, 1, "b", {"n": 2}), (0, 2, "a", {"n": 3}), (0, 3, "c", None)]
    two = [(0, 4, "b", None), (0, 5, "c", {"n": 6}), (0, 6, "a", {"n": 7}), (0, 7, "d", {"n": 8})]
    sink.write(records(spark, one), batch(0, 0, 4, partitions=1))
    assert state(spark, tmp_path, form) == {"a": 3, "b": 2}
    sink.write(records(spark, two), batch(1, 4, 8, partitions=1))
    after = {"a": 7, "c": 6, "d": 8}
    assert state(spark, tmp_path, form) == after
    for rows, number in ((two, 1), (one, 0)):  # an old batch would bring the deleted b back
        again = sink_of(tmp_path, form)
        again.write(records(spark, rows), batch(number, 0, 4, partitions=1))
        assert state(spark, tmp_path, form) == after


@pytest.mark.parametrize("form", FORMATS)
def test_an_old_range_with_a_new_checkpoint(form: str, spark: SparkSession, tmp_path: Path) -> None:
    """Stored offsets keep newer rows; marked tombstones keep deleted rows away."""
    sink = sink_of(tmp_path, form, deletes="mark")
    old = [(0, 0, "a", {"n": 1}), (0, 1, "b", {"n": 2})]
    sink.write(records(spark, old), batch(0, 0, 2, partitions=1))
    new = [(0, 2, "a", {"n": 3}), (0, 3, "b", None)]
    sink.write(records(spark, new, "n int, city string"), batch(1, 2, 4, partitions=1))
    sink.write(records(spark, old), batch(0, 0, 2, query="new", partitions=1))
    rows = table(spark, tmp_path, form).orderBy("_key").collect()
    assert [(row["_key"], row.n, row["_tombstone"], row.city) for row in rows] == [
        (b"a", 3, False, None),
        (b"b", None, True, None),
    ]


def test_a_key_in_several_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """The later timestamp decides across partitions; within one the offset, whatever the time."""
    sink = sink_of(tmp_path, "delta")
    # Timestamps are those of the offsets: partition 1 is later although it has more partitions.
    both = [(0, 9, "a", {"n": 1}), (1, 10, "a", {"n": 2}), (0, 3, "a", {"n": 3})]
    sink.write(records(spark, both), batch(0, 0, 11))
    assert state(spark, tmp_path, "delta") == {"a": 2}
    sink.write(records(spark, [(0, 10, "a", {"n": 4})], seconds=-1), batch(1, 10, 11))
    assert state(spark, tmp_path, "delta") == {"a": 2}
    sink.write(records(spark, [(1, 11, "a", {"n": 5})], seconds=-100), batch(2, 11, 12))
    assert state(spark, tmp_path, "delta") == {"a": 5}


def test_keys_of_the_value(spark: SparkSession, tmp_path: Path) -> None:
    """Columns of the value are keys too; the record's key is then no column of the table."""
    sink = sink_of(tmp_path, "delta", key=["id"])
    for number in range(2):
        rows = [(0, number * 2 + one, "x", {"id": one, "n": number}) for one in range(2)]
        sink.write(records(spark, rows, "id int, n int"), batch(number, 0, 2))
    found = table(spark, tmp_path, "delta")
    assert sorted((row.id, row.n) for row in found.collect()) == [(0, 1), (1, 1)]
    assert "_key" not in found.columns


def test_records_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    """They stop the pipeline and name the record, or are left out."""
    rows = [(0, 0, "a", {"n": 1}), (0, 1, None, {"n": 2})]
    with pytest.raises(Exception, match="offset 1 of orders-0"):
        sink_of(tmp_path, "delta").write(records(spark, rows), batch(0, 0, 2))
    skips = sink_of(tmp_path, "delta", null_keys="skip")
    skips.write(records(spark, rows), batch(0, 0, 2))
    assert state(spark, tmp_path, "delta") == {"a": 1}
    with pytest.raises(OffsetsUnknown):
        list(skips.held(spark))


def test_wrong_options_are_named(tmp_path: Path) -> None:
    """The option, its value and what is allowed."""
    for name, value in (("format", "orc"), ("deletes", "keep"), ("null_keys", "x"), ("key", [])):
        with pytest.raises(WrongSetting, match=rf"sink\.{name}"):
            UpsertSink(settings("upsert", tmp_path, **{name: value}), SOURCE, "p").check()


@pytest.mark.parametrize("form", FORMATS)
def test_what_cannot_be_decoded_is_a_dead_letter(
    form: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MERGE reads its rows several times or copies them first; a batch's counts are right."""
    monkeypatch.setattr(batch_work, "count_again", None)  # they are counted on the way
    dead: list[int] = []

    class Dead:
        def write(self, rows: DataFrame, batch: Batch) -> None:
            dead.append(rows.count())

    pipeline = pipeline_of(
        {
            "name": "p",
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["orders"]},
            "decode": {"schema": "n int"},
            "transform": [{"function": "spark_tests.chaos.transform:through_python"}],
            "sink": {"kind": "upsert", "path": str(tmp_path / form), "format": form},
        }
    )
    work = BatchWork(pipeline, sink_of(tmp_path, form), Dead())
    for number in range(2):
        found = records_of(spark, [b'{"n": %d}' % number, b"garbage", b"garbage"])
        counts = work.run(found, batch(number, 0, 3, partitions=1))
        assert (counts.records, counts.dead_letters) == (3, 2)
        assert counts.value_bytes == 22
    assert dead == [2, 2]


def test_records_without_a_key_may_be_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """They are if the pipeline has dead letters: the batch has its other rows."""
    dead: list[str] = []

    class Dead:
        def write(self, rows: DataFrame, batch: Batch) -> None:
            dead.extend(row["_error"] for row in rows.collect())

    sink = {"kind": "upsert", "path": str(tmp_path / "delta"), "key": ["n"]}
    pipeline = pipeline_of(
        {
            "name": "p",
            "checkpoint": str(tmp_path / "checkpoint"),
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": ["orders"]},
            "decode": {"schema": "n int, m int"},
            "sink": sink,
            "dead_letters": {"topic": "dead"},
        }
    )
    work = BatchWork(pipeline, sink_of(tmp_path, "delta", key=["n"]), Dead())
    counts = work.run(records_of(spark, [b'{"n": 1}', b'{"m": 2}']), batch(0, 0, 2, partitions=1))
    assert (counts.records, counts.dead_letters) == (2, 1)
    assert [row.n for row in table(spark, tmp_path, "delta").collect()] == [1]
    assert dead == ["value: column n has no value, and it is in the key"]
