"""A run that is killed between its rows and its dead letters, then begun with other settings.

Each record is a row or a dead letter, never both and never neither.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark import rows as names
from kwire.spark.batch import Batch
from kwire.spark.batch_work import BatchWork
from kwire.spark.decided import Begun
from kwire.spark.settings import Decode, PipelineSettings, SinkSettings, Source, Transform
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.arrow_rows import TooManyRows
from kwire.spark.split import Splits
from kwire.spark.storage import storage_at
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.decoding import records_of
from spark_tests.readers import read
from spark_tests.rows import committed_offsets
from spark_tests.sink_rows import SOURCE, batch
from spark_tests.test_decode_poisoned import avro
from spark_tests.test_far_times import KINDS, given

KINDS = {name: options for name, options in KINDS.items() if name != "parquet"}
DELTAS = [one for one in KINDS if one in ("delta", "delta-rs")]
JSON = Decode(options={"schema": "c INT, s STRING"})
ONE, TWO = batch(0, 0, 1, partitions=1), batch(1, 0, 100, partitions=1)
FIRST = b'{"c": 1, "s": "x"}'


class Killed(Exception):
    """The run ends before its dead letters are written."""


class Letters:
    """Dead letters, by offset; the first attempt to write them fails."""

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}
        self.fails = True

    def write(self, dead: DataFrame, batch: Batch) -> None:
        """Keep them."""
        if self.fails:
            self.fails = False
            raise Killed
        found = dead.select(names.OFFSET, names.ERROR).collect()
        self.errors |= {row[0]: row[1] for row in found}


@dataclass
class Attempts:
    """One batch of one pipeline, again and again."""

    spark: SparkSession
    directory: Path
    values: list[Any]
    source: Source = SOURCE
    letters: Letters = field(default_factory=Letters)

    def run(
        self,
        sink: SinkSettings,
        decode: Decode = JSON,
        transform: str = "",
        one: Batch = TWO,
        *,
        with_registry: bool = False,
    ) -> None:
        """A run of its own, with settings of its own."""
        steps = (Transform(sql=transform),) if transform else ()
        settings = PipelineSettings("p", self.source, sink, "/checkpoint", decode, steps)
        made = make_sink(sink, self.source, "pipeline")
        made.open(self.spark)
        storage = storage_at(str(self.directory / "checkpoint"))
        splits = Splits(storage) if with_registry else None
        work = BatchWork(settings, made, self.letters, splits, Begun(storage))
        work.run(records_of(self.spark, self.values), one)

    def killed(self, *given: Any, **parts: Any) -> None:
        """A run that ends before its dead letters."""
        self.letters.fails = True
        with pytest.raises(Killed):
            self.run(*given, **parts)


def sink_of(kind: str, directory: Path, tombstones: str = "", **options: Any) -> SinkSettings:
    """The settings of a sink."""
    found: SinkSettings = given(kind, directory / "table")
    if "upsert" in kind:
        options["key"] = [names.OFFSET]
    return replace(found, tombstones=tombstones, options=found.options | options)


def offsets(kind: str, directory: Path) -> list[int]:
    """The offsets of the table's rows."""
    return sorted(read(kind, directory / "table")[names.OFFSET].to_pylist())


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", [*KINDS, "parquet"])
def test_other_tombstones(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """What was decided of them for the batch stays; a later one has the new setting."""
    tried = Attempts(spark, tmp_path, [FIRST, None, b"garbage"])
    as_letter = replace(sink_of(kind, tmp_path, "dead letter"), metadata=("offset",))
    tried.killed(as_letter)
    for way in ("skip", "row", "dead letter"):
        tried.run(replace(as_letter, tombstones=way))
        assert offsets(kind, tmp_path) == [0]
        assert set(tried.letters.errors) == {1, 2}
    assert "tombstone" in tried.letters.errors[1]
    later = batch(2, 0, 100, partitions=1)
    tried.letters.errors.clear()
    tried.run(replace(as_letter, tombstones="skip"), one=later)
    assert set(tried.letters.errors) == {2}


@pytest.mark.both_lanes
def test_a_row_stays_one(spark: SparkSession, tmp_path: Path) -> None:
    """A tombstone that is a row becomes no dead letter as well."""
    tried = Attempts(spark, tmp_path, [FIRST, None, b"garbage"])
    sink = sink_of("delta-rs", tmp_path, "row")
    tried.killed(sink)
    tried.run(replace(sink, tombstones="dead letter"))
    assert offsets("delta-rs", tmp_path) == [0, 1]
    assert set(tried.letters.errors) == {2}


@pytest.mark.both_lanes
@pytest.mark.parametrize("transform", ["", "SELECT * FROM rows"])
@pytest.mark.parametrize("kind", DELTAS)
def test_other_partitions(kind: str, transform: str, spark: SparkSession, tmp_path: Path) -> None:
    """A value that no partition could keep stays a dead letter, with the same reason."""
    tried = Attempts(spark, tmp_path, [FIRST, b'{"c": 2, "s": ""}'])
    tried.killed(sink_of(kind, tmp_path, partition_by=["s"]), transform=transform)
    tried.run(sink_of(kind, tmp_path))
    assert offsets(kind, tmp_path) == [0]
    assert tried.letters.errors[1].startswith("value: column s is an empty text")


@pytest.mark.both_lanes
@pytest.mark.parametrize("transform", ["", "SELECT * FROM rows"])
@pytest.mark.parametrize("kind", DELTAS)
def test_other_types(kind: str, transform: str, spark: SparkSession, tmp_path: Path) -> None:
    """What fitted the table stays a row, what didn't a dead letter, whatever fits by now."""
    sink = sink_of(kind, tmp_path)
    tried = Attempts(spark, tmp_path, [FIRST])
    tried.run(sink, transform=transform, one=ONE)
    tried.values = [b'{"c": 2}', b'{"c": 1099511627776}']
    wide, text = (Decode(options={"schema": f"c {one}, s STRING"}) for one in ("BIGINT", "STRING"))
    tried.killed(sink, wide, transform)
    tried.run(sink, text, transform)
    assert offsets(kind, tmp_path) == [0, 0]
    assert set(tried.letters.errors) == {1}
    assert tried.letters.errors[1].startswith("value: column c is bigint in the record")


@pytest.mark.both_lanes
def test_another_schema(spark: SparkSession, tmp_path: Path) -> None:
    """Neither is a dead letter a row by a looser schema, nor a row also a dead letter."""
    tried = Attempts(spark, tmp_path, [b'{"c": 1}', b"{}", b'{"c": "x"}', b'{"c": 2}'])
    sink = sink_of("delta-rs", tmp_path)
    strict, loose = (Decode(options={"schema": f"c {one}"}) for one in ("STRING NOT NULL", "INT"))
    tried.killed(sink, strict)
    tried.run(sink, loose)
    assert offsets("delta-rs", tmp_path) == [0, 2, 3]
    assert set(tried.letters.errors) == {1}


@pytest.mark.both_lanes
def test_a_batch_that_the_table_lacks_is_decided_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of it is anywhere: a corrected schema helps it."""
    tried = Attempts(spark, tmp_path, [b'{"c": 1}', b"{}", None])
    strict = Decode(options={"schema": "c INT NOT NULL"})
    with pytest.raises(TooManyRows):
        tried.run(sink_of("delta-rs", tmp_path, "dead letter", max_rows=0), strict)
    tried.letters.fails = False
    tried.run(sink_of("delta-rs", tmp_path))
    assert offsets("delta-rs", tmp_path) == [0, 1]
    assert not tried.letters.errors


def test_with_a_registry(spark: SparkSession, tmp_path: Path) -> None:
    """What may be decoded later is decided once, as all else; new partitions stop nothing."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    sink = sink_of("delta-rs", tmp_path, "dead letter")
    with SchemaRegistry() as registry:
        known = registry.register("orders-value", json.dumps(schema))
        values = [avro(schema, {"s": one}, known) for one in ("x", "")]
        tried = Attempts(spark, tmp_path, [*values, None, b"garbage"])
        decode = Decode("avro", registry=registry.url)
        tried.killed(sink, decode, with_registry=True)
        again = replace(sink, tombstones="row", options={"partition_by": ["s"]})
        tried.run(again, decode, with_registry=True)
    assert offsets("delta-rs", tmp_path) == [0, 1]
    assert set(tried.letters.errors) == {2, 3}


def test_a_new_version_between_two_attempts(spark: SparkSession, tmp_path: Path) -> None:
    """It counts if the table has nothing of the batch, else those that were known then do."""
    long, double, boolean = (
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": one}]}
        for one in ("long", "double", "boolean")
    )
    sink = sink_of("delta-rs", tmp_path)
    with SchemaRegistry() as registry:
        registry.set_compatibility("NONE")
        known = registry.register("orders-value", json.dumps(long))
        values = [avro(long, {"x": one}, known) for one in (5, 2**53 + 1)]
        tried = Attempts(spark, tmp_path, [*values, b"garbage"])
        decode = Decode("avro", registry=registry.url)
        with pytest.raises(TooManyRows):
            tried.run(sink_of("delta-rs", tmp_path, max_rows=0), decode, with_registry=True)
        registry.register("orders-value", json.dumps(double))
        tried.killed(sink, decode, with_registry=True)
        assert offsets("delta-rs", tmp_path) == [0]
        registry.register("orders-value", json.dumps(boolean))
        tried.run(sink, decode, with_registry=True)
    assert offsets("delta-rs", tmp_path) == [0]
    assert set(tried.letters.errors) == {1, 2}
    assert tried.letters.errors[1].startswith("value: x is 9007199254740993 by its own version")


def kept_dead_letters(directory: Path) -> Any:
    """Where the dead letters of the newest batch are, as it is kept."""
    return json.loads((directory / "checkpoint" / "split.json").read_text())["dead_letters"]


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", ["parquet", *DELTAS])
def test_a_batch_that_was_taken_for_one_without_dead_letters(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """It is decided anew, and the batch after it has none; what passes through stays as it is."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}
    sink = replace(sink_of(kind, tmp_path), metadata=("offset", "key", "headers"))
    with SchemaRegistry() as registry:
        known = registry.register("orders-value", json.dumps(schema))
        good, other = (avro(schema, {"x": one}, known) for one in (5, 6))
        tried = Attempts(spark, tmp_path, [good, b"garbage", other])
        tried.letters.fails = False
        decode = Decode("avro", registry=registry.url)
        tried.run(sink, decode, with_registry=True)
        assert kept_dead_letters(tmp_path) == [["orders", 0, 1, 2]]
        assert not list((tmp_path / ".kwire-table" / "staging").glob("*"))
        tried.values[1] = good
        tried.run(sink, decode, one=batch(2, 100, 200, partitions=1), with_registry=True)
        assert kept_dead_letters(tmp_path) == []
    assert set(tried.letters.errors) == {1}
    found = read(kind, tmp_path / "table").to_pylist()
    assert sorted((row[names.OFFSET], row["x"]) for row in found) == [
        *((0, 5), (0, 5), (1, 5), (2, 6), (2, 6)),
    ]
    assert {row[names.KEY] for row in found} == {b"k"}
    assert [len(row[names.HEADERS]) for row in found] == [1] * 5


@pytest.mark.both_lanes
def test_into_a_topic(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A topic has batches as tables have them."""
    topic = new_topic(1)
    tried = Attempts(spark, tmp_path, [FIRST, None, b"garbage"], Source(broker, ("orders",)))
    sink = SinkSettings("topic", options={"topic": topic}, tombstones="dead letter")
    tried.killed(sink)
    assert len(committed_offsets(broker, topic)) == 1
    tried.run(replace(sink, tombstones="row"))
    assert len(committed_offsets(broker, topic)) == 1
    assert set(tried.letters.errors) == {1, 2}
