"""Pipelines whose registry gets new versions of a schema: rows, dead letters and ``verify``.

Records of old and new versions come in the same batch and in any order, and each run is one of its
own. ``test_versions`` has what becomes of single values.
"""

import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from kwire.schemas.wire_format import header
from kwire.spark.batch import Batch
from kwire.spark.pipeline_file import pipeline_of
from kwire.spark.schema_history import read_history
from kwire.spark.sinks.delta_rs import DeltaRsSink
from kwire.spark.storage import LocalStorage
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.commands import Commands
from spark_tests.pipelines import run, settings_of
from spark_tests.processes import toml
from spark_tests.readers import read
from spark_tests.rows import TIMEOUT_S
from spark_tests.test_decode_avro import encoded
from spark_tests.test_decode_poisoned import plain_rows
from spark_tests.test_versions import decimal, protobuf, record

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
KINDS = ("parquet", "delta-rs", *(("pyiceberg", "delta", "iceberg", "upsert") if STOCK else ()))
WIDENS = ("parquet", "iceberg", "pyiceberg")
"""The kinds that get a bigint where the table began with an int."""

FIRST = record(id="int", gone="string", old="string", f="float", d=decimal(9, 2))
NEWEST = record(
    id="long",
    renamed={"type": "string", "default": "r", "aliases": ["old"]},
    f="double",
    d=decimal(12, 2),
    added={"type": "string", "default": "a"},
)
NAMES = ("id", "gone", "old", "renamed", "f", "d", "added")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry that takes every version."""
    with SchemaRegistry() as running:
        running.set_compatibility("NONE")
        yield running


def first(n: int) -> dict[str, Any]:
    """A value of the first version."""
    return {"id": n, "gone": "x", "old": "o", "f": 1.5, "d": Decimal("1.25")}


def newest(n: int) -> dict[str, Any]:
    """A value of the newest version."""
    return {
        "id": n,
        "renamed": "n",
        "f": 2.5,
        "d": Decimal("2.25"),
        "added": "b",
    }


def pipeline_for(
    kind: str, broker: str, topic: str, registry: SchemaRegistry, directory: Path, format_: str
) -> dict[str, Any]:
    """A pipeline that asks the registry, with a table of dead letters."""
    found = settings_of(broker, topic, directory, dead_letters={"path": str(directory / "dead")})
    found["decode"] = {"format": format_, "registry": registry.url}
    if kind == "pyiceberg":
        uri = f"sqlite:///{directory}/catalog.db"
        catalog = {"type": "sql", "uri": uri, "warehouse": f"file://{directory}/table"}
        found["sink"] = {"kind": kind, "table": "sales.orders", "catalog": catalog}
    else:
        found["sink"]["kind"] = kind
    (directory / "p.toml").write_text(toml(found))
    return found


def send(broker: str, topic: str, *values: bytes) -> None:
    """Values with keys of their own."""
    producer = Producer({"bootstrap.servers": broker})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"%d-%d" % (hash(value), number), 0)
    assert producer.flush(TIMEOUT_S) == 0


def table_of(kind: str, directory: Path) -> dict[int, dict[str, Any]]:
    """The value's columns of each row by ``id``, as readers without Spark have them."""
    table = directory / "table"
    rows = plain_rows(table) if kind == "parquet" else read(kind, table).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def errors(directory: Path) -> list[str]:
    """The reasons of the dead letters, in order of their offsets."""
    if not (directory / "dead").exists():
        return []
    rows = pq.read_table(directory / "dead", partitioning=None).to_pylist()
    return [row["error"] for row in sorted(rows, key=lambda row: row["offset"])]


class Watching(DeltaRsSink):
    """A sink that sees what the history has when a batch is about to be written."""

    seen: ClassVar[list[int]] = []
    checkpoint: ClassVar[Path]

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Count the entries, then write."""
        self.seen.append(len(read_history(LocalStorage(self.checkpoint))))
        super().write(rows, batch)


def test_the_history_is_written_before_a_batch(
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """With the offsets at which the columns changed, and the registry's schemas."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta-rs", broker, topic, registry, tmp_path, "avro")
    settings = pipeline_of(found)
    Watching.checkpoint = tmp_path / "checkpoint"
    schemas = [record(id="int"), record(id="int", x={"type": "int", "default": 0})]
    ids = []
    for number, schema in enumerate((schemas[0], schemas[0], schemas[1])):
        ids.append(registry.register(f"{topic}-value", json.dumps(schema)))
        send(broker, topic, encoded(schema, {"id": number, "x": 1}, ids[-1]))
        sink = Watching(settings.sink, settings.source, settings.name)
        run(spark, found, sink=sink)
    assert Watching.seen == [1, 1, 2]
    history = json.loads(commands("schema", "--json"))
    assert [(one["batch"], one["added"], one["offsets"]) for one in history] == [
        (0, {"id": "int"}, {topic: {"0": 0}}),
        (2, {"x": "int"}, {topic: {"0": 2}}),
    ]
    assert [one["schema_ids"] for one in history] == [{topic: ids[0]}, {topic: ids[2]}]


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_versions_of_avro(
    kind: str,
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """Columns come and none goes; each value is in a column, or its record is a dead letter."""
    topic = new_topic(partitions=1)
    found = pipeline_for(kind, broker, topic, registry, tmp_path, "avro")
    subject = f"{topic}-value"
    old = registry.register(subject, json.dumps(FIRST))
    send(broker, topic, encoded(FIRST, first(1), old))
    run(spark, found)
    commands("verify")
    new = registry.register(subject, json.dumps(NEWEST))
    send(
        broker,
        topic,
        encoded(FIRST, first(2), old),
        encoded(NEWEST, newest(3), new),
        encoded(NEWEST, newest(2**40), new),
    )
    run(spark, found)
    commands("verify")
    send(broker, topic, encoded(FIRST, first(4), old), encoded(NEWEST, newest(5), new))
    run(spark, found)
    commands("verify")

    rows = table_of(kind, tmp_path)
    earlier = dict.fromkeys(NAMES) | first(1)
    moved = {"old": None, "renamed": "o"}
    large = dict.fromkeys(NAMES) | newest(2**40)
    wanted = {
        1: earlier,
        2: earlier | moved | {"id": 2, "added": "a"},
        3: large | {"id": 3},
        4: earlier | moved | {"id": 4, "added": "a"},
        5: large | {"id": 5},
    }
    dead = errors(tmp_path)
    if kind in WIDENS:
        wanted[2**40] = large
        assert dead == []
    else:
        [error] = dead
        assert error.startswith("value: column id is bigint in the record")
    assert {n: {name: row.get(name) for name in NAMES} for n, row in rows.items()} == wanted


VERSIONS = {
    "protobuf": (
        protobuf("int32 id = 1; string gone = 2; string old = 3;"),
        protobuf("int64 id = 1; string renamed = 3; optional string added = 4;"),
    ),
    "json": tuple(
        json.dumps({"type": "object", "properties": {one: {"type": of} for one, of in given}})
        for given in (
            (("id", "integer"), ("gone", "string"), ("old", "string")),
            (("id", "integer"), ("renamed", "string"), ("added", "string")),
        )
    ),
}
VALUES = {
    "protobuf": (b"\0\x08%c\x12\1x\x1a\1o", b"\0\x08%c\x1a\1n\x22\1b"),
    "json": (
        b'{"id": %d, "gone": "x", "old": "o"}',
        b'{"id": %d, "renamed": "n", "added": "b"}',
    ),
}


@pytest.mark.both_lanes
@pytest.mark.parametrize("format_", VERSIONS)
def test_versions_of_other_formats(
    format_: str,
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """Protobuf knows a renamed field by its number; for JSON it is a new property."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta-rs", broker, topic, registry, tmp_path, format_)
    before, after = VALUES[format_]
    old, new = VERSIONS[format_]
    one = header(registry.register(f"{topic}-value", old, format_.upper()))
    send(broker, topic, one + before % 1)
    run(spark, found)
    commands("verify")
    two = header(registry.register(f"{topic}-value", new, format_.upper()))
    send(broker, topic, one + before % 2, two + after % 3, one + before % 4)
    run(spark, found)
    commands("verify")
    rows = table_of("delta-rs", tmp_path)
    assert errors(tmp_path) == []
    texts = [tuple(rows[n][name] for name in ("gone", "old", "renamed", "added")) for n in rows]
    moved = ("x", None, "o", None) if format_ == "protobuf" else ("x", "o", None, None)
    assert sorted(zip(rows, texts, strict=True)) == [
        (1, ("x", "o", None, None)),
        (2, moved),
        (3, (None, None, "n", "b")),
        (4, moved),
    ]


def test_replay_after_a_field_was_removed(
    spark: SparkSession,
    broker: str,
    registry: SchemaRegistry,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """It takes no value away: each record still has what its own version has."""
    topic = new_topic(partitions=1)
    found = pipeline_for("delta-rs", broker, topic, registry, tmp_path, "avro")
    subject = f"{topic}-value"
    old, less = record(id="int", gone="string"), record(id="int")
    number = registry.register(subject, json.dumps(old))
    send(broker, topic, encoded(old, {"id": 1, "gone": "x"}, number))
    run(spark, found)
    registry.register(subject, json.dumps(less))
    commands("replay", "--topic", topic)
    assert table_of("delta-rs", tmp_path)[1]["gone"] == "x"
    commands("verify")
