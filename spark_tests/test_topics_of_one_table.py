"""Topics whose schemas have other types for a column share a table all the same.

The first topic has the say; a value of another type makes its record a dead letter, with both.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, message_factory
from pyspark.sql import SparkSession

from kwire.schemas.wire_format import header
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import registry_plan
from kwire.spark.settings import Decode
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.commands import Commands
from spark_tests.pipelines import produce_values, settings_of
from spark_tests.processes import toml
from spark_tests.readers import read
from spark_tests.test_decode_poisoned import avro

pytestmark = pytest.mark.both_lanes

FIELDS = {"one": ("int", "long"), "two": ("string", "int"), "three": ("int", "long")}
"""The types of the columns ``c`` and ``n`` in Avro, by topic."""


def avro_schema(kinds: tuple[str, str]) -> dict[str, Any]:
    """A record whose columns may be null."""
    fields = [
        {"name": name, "type": ["null", kind]} for name, kind in zip("cn", kinds, strict=True)
    ]
    return {"type": "record", "name": "R", "fields": fields}


def in_avro(registry: SchemaRegistry, topic: str, kinds: tuple[str, str], rows: Any) -> list[bytes]:
    """Values of a topic, whose schema the registry has."""
    schema = avro_schema(kinds)
    number = registry.register(f"{topic}-value", json.dumps(schema))
    return [avro(schema, row, number) for row in rows]


def in_protobuf(
    registry: SchemaRegistry, topic: str, kinds: tuple[str, str], rows: Any
) -> list[bytes]:
    """The same in Protobuf."""
    of = {"int": "int32", "long": "int64", "string": "string"}
    fields = " ".join(
        f"optional {of[kind]} {name} = {place};"
        for place, (name, kind) in enumerate(zip("cn", kinds, strict=True), 1)
    )
    text = f'syntax = "proto3"; message R {{ {fields} }}'
    number = registry.register(f"{topic}-value", text, "PROTOBUF")
    options = options_of(Decode("protobuf", registry=registry.url))
    plan: Any = registry_plan(options, [topic])
    kind = message_factory.GetMessageClass(plan.readers[0][1].descriptor())
    found = []
    for row in rows:
        given = {name: value for name, value in row.items() if value is not None}
        found.append(
            header(number) + b"\0" + json_format.ParseDict(given, kind()).SerializeToString()
        )
    return found


def in_json(registry: SchemaRegistry, topic: str, kinds: tuple[str, str], rows: Any) -> list[bytes]:
    """The same in JSON."""
    of = {"int": "integer", "long": "integer", "string": "string"}
    properties = {
        name: {"type": ["null", of[kind]]} for name, kind in zip("cn", kinds, strict=True)
    }
    text = json.dumps({"type": "object", "properties": properties})
    number = registry.register(f"{topic}-value", text, "JSON")
    return [header(number) + json.dumps(row).encode() for row in rows]


MAKERS = {"avro": in_avro, "protobuf": in_protobuf, "json": in_json}


@pytest.mark.parametrize("form", MAKERS)
def test_types_that_do_not_meet_make_dead_letters(
    form: str,
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    commands: Commands,
) -> None:
    """Whichever topics a batch has records of; numbers still become wider."""
    topics = {name: new_topic(1, prefix=name) for name in FIELDS}
    settings = settings_of(broker, topics["one"], tmp_path)
    settings["source"]["topics"] = list(topics.values())
    settings["sink"] = {"kind": "delta-rs", "path": str(tmp_path / "table")}
    settings["dead_letters"] = {"path": str(tmp_path / "dead")}
    rows = {
        "one": [{"c": 1, "n": 1 << 40}, {"c": None, "n": 2}],
        "two": [{"c": "x", "n": 3}, {"c": None, "n": 4}],
        "three": [{"c": 5, "n": 5}],
    }
    with SchemaRegistry() as registry:
        settings["decode"] = {"format": form, "registry": registry.url}
        (tmp_path / "p.toml").write_text(toml(settings))
        values = {
            name: MAKERS[form](registry, topics[name], FIELDS[name], rows[name]) for name in FIELDS
        }
        for names in (["one", "two", "three"], ["two"]):
            for name in names:
                produce_values(broker, topics[name], *values[name])
            commands("run", "--quiet")
        found = json.loads(commands("verify", "--json"))
    assert sum(one["dead_letters"] for one in found) == 2
    table = read("delta-rs", tmp_path / "table").to_pylist()
    assert sorted(row["n"] for row in table) == [2, 4, 4, 5, 1 << 40]
    assert {row["c"] for row in table} == {1, None, 5}
    dead = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert {row["topic"] for row in dead} == {topics["two"]}
    if form != "json":
        why = "value: column c is string, not int as in topics before it, which share the table"
        assert {row["error"] for row in dead} == {why}
