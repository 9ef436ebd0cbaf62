"""Names that producers choose: columns of every sink, and topics in the names of files."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.column_names import DELTA, DELTA_MAPPED, FILES, ICEBERG, NameRule
from kwire.spark.sinks.files import FilesSink
from spark_tests.commands import Commands
from spark_tests.pipelines import produce_values, run, settings_of
from spark_tests.processes import toml
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, rows_of, settings
from spark_tests.test_sinks_topic import committed
from tests.support.topics import create_topics

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"

NAMES = (
    *(
        "Date Time",
        "a;b",
        "a,b",
        "a{b}",
        "(a)",
        "a\tb",
        "a\nb",
        "a=b",
        "a`b",
        "a.b",
        "",
        "%",
        "%20",
    ),
    *("it's", 'q"q', "a\\b", "a\0b", "user-agent", "2fa", "0042", "é", "$", "[0]", "x" * 300),
    *("topic", "Partition", "_file", "_POS", "_change_type", "_incarnation", "_topic_partition"),
    *("__kt", "__kwire_rank", "_metadata", "row", "value ", "ID", "x` string COMMENT 'hello', `y"),
)
KINDS = {
    "parquet": FILES,
    "json": FILES,
    "delta": DELTA,
    "mapped": DELTA_MAPPED,
    "delta-rs": DELTA,
    "iceberg": ICEBERG,
    "pyiceberg": ICEBERG,
    "upsert": DELTA,
    "topic": None,
}
"""The rule of each kind; a topic's records are JSON objects, which keep all names."""
OWN = ("_topic", "_offset", "_timestamp")
KEPT_IN_ORDER = ("parquet", "delta", "delta-rs", "iceberg")
ONLY_STOCK = ("delta", "mapped", "iceberg", "upsert", "pyiceberg")
"""The newest Spark has no jars for these, or writes Arrow as for ``delta-rs``."""


def value(number: int, names: tuple[str, ...]) -> dict[str, Any]:
    """A record's value with all names, at the top and within struct and array."""
    inner: dict[str, Any] = dict.fromkeys(names, number)
    return {**inner, "headers": inner, "items": [inner, {"user-agent": -1}]}


def stored(value: Any, rule: NameRule | None, *, is_nested: bool = False) -> Any:
    """The value as a table has it, without what is null."""
    if isinstance(value, list):
        return [stored(one, rule, is_nested=True) for one in value]
    if not isinstance(value, dict) or rule is None:
        return value
    return {
        rule.stored(name, is_nested=is_nested): stored(one, rule, is_nested=True)
        for name, one in value.items()
    }


def without_nulls(value: Any) -> Any:
    """What a reader finds, without the columns that only other rows have."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(one) for name, one in value.items() if one is not None}


def unlike(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The columns that aren't as they should be."""
    return {
        name: (found.get(name), wanted.get(name))
        for name in {*found, *wanted}
        if found.get(name) != wanted.get(name)
    }


def pipeline_for(kind: str, broker: str, topic: str, directory: Path) -> dict[str, Any]:
    """A pipeline with an inferred schema into a sink of a kind."""
    found = settings_of(broker, topic, directory, sink__metadata=[])
    found["decode"] = {
        "format": "json",
        "inferred_schema": str(directory / "schema.json"),
        "refresh_s": 0.001,
    }
    sink = {"kind": kind, "path": str(directory / "table")}
    if kind == "mapped":
        sink |= {"kind": "delta", "properties": {"delta.columnMapping.mode": "name"}}
    elif kind == "pyiceberg":
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}",
        }
        sink = {"kind": kind, "table": "sales.orders", "catalog": catalog}
    elif kind == "upsert":
        sink |= {"key": ["Date Time", "a.b"]}
    elif kind == "topic":
        sink = {"kind": kind, "topic": f"{topic}-out", "client": {}}  # of librdkafka
    found["sink"] = sink
    return found


def rows_in(kind: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table, as a reader without Spark sees them where there is one."""
    path = found["sink"].get("path", "")
    if kind == "json":
        files = sorted(Path(path).glob("topic=*/*/*.json"))
        return [json.loads(line) for one in files for line in one.read_text().splitlines()]
    if kind == "topic":
        records = committed(found["source"]["bootstrap_servers"], found["sink"]["topic"], 1)
        return [json.loads(one.value()) for one in records]
    directory = Path(path or found["sink"]["catalog"]["warehouse"].removeprefix("file://"))
    return list(read(kind, directory).to_pylist())


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", [one for one in KINDS if STOCK or one not in ONLY_STOCK])
def test_no_name_of_a_property_stops_a_pipeline(
    kind: str,
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    commands: Commands,
    tmp_path: Path,
) -> None:
    """At the start or later, in all depths: each value is there, under a name that says its own."""
    topic = new_topic(partitions=1)
    found = pipeline_for(kind, broker, topic, tmp_path)
    if kind == "topic":
        create_topics(broker, found["sink"]["topic"], partitions=1)
    batches = [value(1, (*NAMES[:12],)), value(2, NAMES), value(3, NAMES[5:])]
    for number, one in enumerate(batches):
        one |= {"Date Time": number, "a.b": number}
        produce_values(broker, topic, json.dumps(one).encode())
        assert run(spark, found).dead_letters == 0
    (tmp_path / "p.toml").write_text(toml(found))
    commands("verify")
    if kind in KEPT_IN_ORDER:
        commands("replay", "--topic", topic)
        commands("compact")
    rule = KINDS[kind]
    own = (*OWN, "_topic_partition" if rule is ICEBERG else "_partition")
    rows = [
        {name: one for name, one in without_nulls(row).items() if name not in own}
        for row in rows_in(kind, found)
    ]
    wanted = [stored(one, rule) for one in batches]
    rows.sort(key=lambda row: row.get("Date Time", row.get("Date%20Time")))
    assert [unlike(*both) for both in zip(rows, wanted, strict=True)] == [{}] * len(batches)


TOPICS = ("0042", "1e5", "2024-01-31", "9" * 248, "a" * 249, "...", "__HIVE_DEFAULT_PARTITION__")


@pytest.mark.both_lanes
@pytest.mark.parametrize("by_number", [True, False])
def test_every_topic_is_read_back_as_its_name(
    by_number: bool, spark: SparkSession, tmp_path: Path
) -> None:
    """Alone in a directory: no other name makes a text of it. With a transform or without."""
    for topic in TOPICS:
        path = tmp_path / topic[:20]
        sink = FilesSink(settings("parquet", path, ("offset",)), SOURCE, "pipeline")
        sink.open(spark)
        one = Batch("pipeline", "q", 0, (OffsetRange(topic, 0, 0, 5), OffsetRange(topic, 1, 0, 5)))
        if by_number:
            sink.write_prepared(sink.prepared(rows_of(spark, one), one), one)
        else:
            sink.write(rows_of(spark, one), one)
        by_spark = {row["topic"] for row in spark.read.parquet(str(path)).collect()}
        rows = pyarrow.dataset.dataset(path, partitioning="hive").to_table()
        assert by_spark == set(rows["topic"].to_pylist())
        assert [one.removeprefix("@") for one in by_spark] == [topic]
        held = {(one.range.topic, one.rows) for one in sink.held(spark) if one.rows}
        assert held == {(topic, 5)}


def test_directories_of_earlier_versions_get_their_mark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A pipeline that goes on, with a batch that runs again, has each row once."""
    sink = FilesSink(settings("parquet", tmp_path / "t", ("offset",)), SOURCE, "pipeline")
    sink.open(spark)
    one = Batch("pipeline", "q", 0, (OffsetRange("0042", 0, 0, 5),))
    sink.write(rows_of(spark, one), one)
    (tmp_path / "t" / "topic=@0042").rename(tmp_path / "t" / "topic=0042")
    sink.open(spark)
    sink.write(rows_of(spark, one), one)
    rows = pyarrow.dataset.dataset(tmp_path / "t", partitioning="hive").to_table().to_pylist()
    assert [(row["topic"], row["_offset"]) for row in rows] == [("@0042", n) for n in range(5)]
