"""Values of all versions of a registry's subject, old and new ones in the same batch.

These tests start no Spark. They say what becomes of a value when a field is new, renamed, removed
or of another type: no value changes without a word, and nothing stops a batch.
"""

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from kwire.schemas.wire_format import header
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import registry_struct
from kwire.spark.decode.spark_types import text_of
from kwire.spark.decode.subjects import MOST_OLDER
from kwire.spark.settings import Decode, WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.test_decode_avro import encoded
from spark_tests.worker_outcomes import from_registry, outcomes

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
LOCAL_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}
DATE = {"type": "int", "logicalType": "date"}
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
AT_NS = 1_767_323_045_678_000_000
NO_HEADER = b"\0"
"""The message index of the first message, as Confluent's wire format has it."""


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry that takes every version."""
    with SchemaRegistry() as running:
        running.set_compatibility("NONE")
        yield running


def record(name: str = "Order", /, **fields: Any) -> dict[str, Any]:
    """A record; a field is its type, or an object with it."""
    made = [
        {"name": field, **(one if isinstance(one, dict) and "default" in one else {"type": one})}
        for field, one in fields.items()
    ]
    return {"type": "record", "name": name, "fields": made}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """A decimal's type."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def enum(*symbols: str) -> dict[str, Any]:
    """An enum's type."""
    return {"type": "enum", "name": "E", "symbols": list(symbols)}


class Case(NamedTuple):
    """A field ``x`` of two versions; a value of the older one, and what it is as the newer one."""

    old: Any
    new: Any
    value: Any
    found: Any
    """None and a reason for a dead letter: its beginning after ``value: ``."""
    why: str = ""


AVRO = {
    "int to long": Case("int", "long", 5, 5),
    "float to double": Case("float", "double", 1.5, 1.5),
    "int to double": Case("int", "double", 5, 5.0),
    "long to double": Case("long", "double", 2**53, float(2**53)),
    "a long that is no double": Case("long", "double", 2**53 + 1, None, "x is 9007199254740993 by"),
    "an int that is no float": Case("int", "float", 2**24 + 1, None, "x is 16777217 by its own"),
    "within an array": Case(*({"type": "array", "items": one} for one in ("long", "double")),
        [1, 2**53 + 1], None, "x[] is 9007199254740993"),
    "within a map": Case(*({"type": "map", "values": one} for one in ("long", "double")),
        {"k": 2**53 + 1}, None, "x{} is 9007199254740993"),
    "long to int": Case("long", "int", 5, None, "Schema mismatch"),
    "string to bytes": Case("string", "bytes", "é", "é".encode()),
    "bytes to string": Case("bytes", "string", "é".encode(), "é"),
    "bytes that are no text": Case("bytes", "string", b"\xff", None, "'utf-8' codec"),
    "a wider decimal": Case(decimal(9, 2), decimal(12, 2), Decimal("1.25"), Decimal("1.25")),
    "a decimal of more scale": Case(decimal(9, 2), decimal(12, 4), *[Decimal("1.25")] * 2),
    "a decimal of less scale": Case(decimal(9, 4), decimal(9, 2), Decimal("1.2345"), None, "Resc"),
    "millis to micros": Case(MILLIS, MICROS, AT, AT),
    "long to time": Case("long", MILLIS, int(AT.timestamp() * 1000), AT),
    "time to long": Case(MILLIS, "long", AT, None, "Could not convert datetime"),
    "int to date": Case("int", DATE, 5, datetime.date(1970, 1, 6)),
    "date to time": Case(DATE, MILLIS, AT.date(), None, "object of type"),
    "into a union with null": Case("int", ["null", "int"], 5, 5),
    "out of a union with null": Case(["null", "int"], "int", 5, 5),
    "null out of a union": Case(["null", "int"], "int", None, None, "schema mismatch"),
    "into a union": Case("int", ["int", "string"], 5, {"member_int": 5, "member_string": None}),
    "a wider member": Case(["int", "string"], ["long", "string"], 5,
        {"member_long": 5, "member_string": None}),
    "another member": Case(["int", "string"], ["int", "string", "boolean"], "s",
        {"member_int": None, "member_string": "s", "member_boolean": None}),
    "a union with fewer types": Case(["null", "int", "string"], ["null", "int"], 5, 5),
    "a type that a union had": Case(["null", "int", "string"], ["null", "int"], "s", None, "sch"),
    "a symbol less": Case(enum("A", "B"), enum("B"), "A", None, "A not found"),
    "a symbol more": Case(enum("A"), enum("A", "B"), "A", "A"),
    "enum to string": Case(enum("A"), "string", "A", None, "Schema mismatch"),
    "boolean to int": Case("boolean", "int", True, None, "Schema mismatch"),
    "a new field with a default": Case(record("I", a="int"),
        record("I", a="int", b={"type": "int", "default": 7}), {"a": 1}, {"a": 1, "b": 7}),
    "a removed field of a record": Case(record("I", a="int", b="int"), record("I", a="int"),
        {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    "a removed field in an array": Case(
        *({"type": "array", "items": one}
          for one in (record("I", a="int", b="int"), record("I", a="int"))),
        [{"a": 1, "b": 2}], [{"a": 1, "b": 2}]),
    "a removed field in a map": Case(
        *({"type": "map", "values": one}
          for one in (record("I", a="int", b="int"), record("I", a="int"))),
        {"k": {"a": 1, "b": 2}}, [("k", {"a": 1, "b": 2})]),
    "nanos to micros": Case(NANOS, MICROS, AT_NS, AT),
    "nanos to micros, within an array": Case(
        *({"type": "array", "items": one} for one in (NANOS, MICROS)), [AT_NS], [AT]),
    "nanos to micros, within a map": Case(
        *({"type": "map", "values": one} for one in (NANOS, MICROS)), {"k": AT_NS}, [("k", AT)]),
    "nanos to micros, behind null": Case(["null", NANOS], ["null", MICROS], AT_NS, AT),
    "nanos to micros, within a union": Case([NANOS, "string"], [MICROS, "string"], AT_NS,
        {"member_long": AT, "member_string": None}),
    "nanos into a union": Case(NANOS, [MICROS, "string"], AT_NS, None, "x has another type"),
    "local nanos to micros": Case(LOCAL_NANOS, LOCAL_MICROS, AT_NS, AT.replace(tzinfo=None)),
    "nanos to long": Case(NANOS, "long", AT_NS, None, "x has another type in a newer"),
    "micros to nanos": Case(MICROS, NANOS, AT, AT),
    "a long within unions": Case(["null", "long"], ["null", "double", "string"], 2**53 + 1, None,
        "x is 9007199254740993 by its own version of the schema, and {'member_double': 900719925"),
    "a long of a union that is no double": Case(["long", "string"], ["double", "string"],
        2**53 + 1, None, "x is {'member_long': 9007199254740993} by"),
    "a long of a union that is a double": Case(["long", "string"], ["double", "string"], 5,
        {"member_double": 5.0, "member_string": None}),
    "an int of a union that is no float": Case(["int", "string"], ["float", "string"],
        2**24 + 1, None, "x is {'member_int': 16777217} by"),
    "a removed field in a union": Case(["string", record("I", a="int", b="int")],
        ["string", record("I", a="int")], {"a": 1, "b": 2},
        {"member_string": None, "member_I": {"a": 1, "b": 2}}),
    "a record that becomes a member": Case(record("I", a="int", b="int"),
        ["string", record("I", a="int")], {"a": 1, "b": 2}, None, "x is {'a': 1, 'b': 2} by its"),
    "a removed symbol with a default": Case(
        *({"type": one, "default": "B"} for one in (enum("A", "B"), enum("B") | {"default": "B"})),
        "A", "B"),
    "a removed field behind null": Case(["null", record("I", a="int", b="int")],
        ["null", record("I", a="int")], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", AVRO)
def test_a_field_of_avro_gets_another_type(name: str, registry: SchemaRegistry) -> None:
    """The value of an older version is the same as the newest one has it, or a dead letter."""
    case = AVRO[name]
    old, new = record(id="int", x=case.old), record(id="int", x=case.new)
    number = registry.register("orders-value", json.dumps(old))
    registry.register("orders-value", json.dumps(new))
    written = encoded(old, {"id": 1, "x": case.value}, number)
    [row] = outcomes(from_registry(registry, "avro"), [written])
    if case.why:
        assert row.startswith(f"value: {case.why}")
    else:
        assert row == {"id": 1, "x": case.found}


def test_fields_come_and_go(registry: SchemaRegistry) -> None:
    """Each value is in the column of its field, whichever version is the newest."""
    versions: list[tuple[Any, Any]] = [
        (record(id="int", gone="string"), {"id": 1, "gone": "x"}),
        (record(id="int", n={"type": "string", "default": "d"}), {"id": 2, "n": "n"}),
        (
            record(id="int", m={"type": "string", "default": "e", "aliases": ["n"]}),
            {"id": 3, "m": "m"},
        ),
        (record(id="long"), {"id": 4}),
    ]
    values = []
    for schema, value in versions:
        number = registry.register("orders-value", json.dumps(schema))
        values.append(encoded(schema, value, number))
    assert outcomes(from_registry(registry, "avro"), values) == [
        {"id": 1, "m": None, "gone": "x"},
        {"id": 2, "m": "n", "gone": None},
        {"id": 3, "m": "m", "gone": None},
        {"id": 4, "m": None, "gone": None},
    ]
    newest = record(id="long", last={"type": "string", "default": "e", "aliases": ["m"]})
    values.append(
        encoded(
            newest,
            {"id": 5, "last": "l"},
            registry.register("orders-value", json.dumps(newest)),
        )
    )
    found = outcomes(from_registry(registry, "avro"), values)
    assert [row["last"] for row in found] == ["e", "e", "m", "e", "l"]
    assert [row["n"] for row in found] == [None, "n", None, None, None]
    assert list(found[0]) == ["id", "last", "n", "gone"]


def test_a_name_changes_its_case(registry: SchemaRegistry) -> None:
    """It is the same column to a table, so the value is there, or the record is a dead letter."""
    versions: list[Any] = [
        record(id="int", customerID="int", n=record("I", theKey="int")),
        record(
            id="int",
            customerId={"type": "int", "default": 0},
            n=record("I", thekey={"type": "int", "default": 0}),
        ),
    ]
    value = {"id": 1, "customerID": 5, "n": {"theKey": 6}}
    number = registry.register("orders-value", json.dumps(versions[0]))
    early = from_registry(registry, "avro")
    last = registry.register("orders-value", json.dumps(versions[1]))
    found = {"id": 1, "customerId": 5, "n": {"thekey": 6}}
    assert outcomes(from_registry(registry, "avro"), [encoded(versions[0], value, number)]) == [
        found
    ]
    [error] = outcomes(early, [encoded(versions[1], found, last)])
    assert error.startswith(f"registry: schema id {last} has other columns")
    two = record(id="int", ID={"type": ["null", "int"], "default": None})
    number = registry.register("orders-value", json.dumps(two))
    registry.register("orders-value", json.dumps(record(id="int")))
    values = [encoded(two, {"id": 1, "ID": one}, number) for one in (None, 2)]
    assert outcomes(from_registry(registry, "avro"), values) == [
        {"id": 1, "customerId": None, "n": None},
        "value: ID is in no column of the newest version of the schema",
    ]


def test_versions_are_compared_once(registry: SchemaRegistry) -> None:
    """Not for each batch, however many topics there are; once more if a subject has a new one."""
    topics = [f"t{number}" for number in range(70)]
    for topic in topics:
        for one in ("int", "long"):
            registry.register(f"{topic}-value", json.dumps(record(id=one)))
    plan, again = (from_registry(registry, "avro", *topics) for _ in range(2))
    assert plan == again
    hows = [[how for *_, how in one.older] for one in (plan, again)]
    assert len(hows[0]) == len(topics)
    assert all(one is other for one, other in zip(*hows, strict=True))
    registry.register("t5-value", json.dumps(record(id="double")))
    assert len(from_registry(registry, "avro", *topics).older) == len(topics) + 1


def test_a_removed_column_with_two_types(registry: SchemaRegistry) -> None:
    """The newer one counts; a value of the older one is a dead letter, and none another value."""
    versions: list[tuple[Any, Any]] = [
        (record(id="int", x="long"), {"id": 1, "x": 5}),
        (record(id="int", x=["null", "long"]), {"id": 2, "x": None}),
        (record(id="int", x=MILLIS), {"id": 3, "x": AT}),
        (record(id="int"), {"id": 4}),
    ]
    values = [
        encoded(schema, value, registry.register("orders-value", json.dumps(schema)))
        for schema, value in versions
    ]
    first, *others = outcomes(from_registry(registry, "avro"), values)
    assert first == "value: x has another type in a newer version of the schema"
    assert others == [{"id": 2, "x": None}, {"id": 3, "x": AT}, {"id": 4, "x": None}]


def test_a_version_that_can_be_no_columns(registry: SchemaRegistry) -> None:
    """It stops nothing: the columns are those of the others; only all of them would."""
    recursive = record(id="int", next=["null", "Order"])
    bad = registry.register("orders-value", json.dumps(recursive))
    with pytest.raises(WrongSetting, match=f"schema id {bad} of the registry"):
        from_registry(registry, "avro")
    good = registry.register("orders-value", json.dumps(record(id="int")))
    registry.register("orders-value", json.dumps({**recursive, "doc": "again"}))
    other = registry.register("orders-value", '{"type": "object"}', "JSON")
    values = [
        encoded(record(id="int"), {"id": 1}, good),
        encoded(recursive, {"id": 1, "next": None}, bad),
        header(other) + b"{}",
    ]
    assert [str(one)[:36] for one in outcomes(from_registry(registry, "avro"), values)] == [
        "{'id': 1}",
        f"value: schema id {bad}: it is recursive ",
        f"value: schema id {other} is of type JSON, ",
    ]


def test_a_version_that_came_too_late(registry: SchemaRegistry) -> None:
    """Its new column isn't lost: the value is worth a retry. Without one it is a row."""
    registry.register("orders-value", json.dumps(record(id="int", x="int")))
    plan = from_registry(registry, "avro")
    more, less = record(id="int", x="int", y="int"), record(id="long", x="int")
    number = registry.register("orders-value", json.dumps(more))
    values = [encoded(more, {"id": 1, "x": 2, "y": 3}, number)]
    [error] = outcomes(plan, values)
    assert error.startswith(f"registry: schema id {number} has other columns")
    assert outcomes(from_registry(registry, "avro"), values) == [{"id": 1, "x": 2, "y": 3}]
    less = record(x="int", id="int")
    number = registry.register("orders-value", json.dumps(less))
    assert outcomes(plan, [encoded(less, {"id": 1, "x": 2}, number)]) == [{"id": 1, "x": 2}]


def test_versions_of_long_ago(registry: SchemaRegistry) -> None:
    """Only so many are asked for; what an older one alone has isn't lost silently."""
    versions = [
        record(id="int", **{f"x{n}": {"type": "int", "default": 0}}) for n in range(MOST_OLDER + 2)
    ]
    numbers = [registry.register("orders-value", json.dumps(one)) for one in versions]
    values = [
        encoded(one, {"id": n, f"x{n}": n}, number)
        for n, (one, number) in enumerate(zip(versions, numbers, strict=True))
    ]
    first, *others = outcomes(from_registry(registry, "avro"), values)
    assert first.startswith("registry: schema id 1 has other columns")
    assert not [one for one in others if isinstance(one, str)]
    assert [row[f"x{n}"] for n, row in enumerate(others, 1)] == list(range(1, MOST_OLDER + 2))


def protobuf(body: str) -> str:
    """A file with one message."""
    return f'syntax = "proto3"; message Order {{ {body} }}'


PROTOBUF = {
    "int32 to int64": ("int32 x = 2;", "int64 x = 2;", b"\x10\x05", 5),
    "a number that int32 has": ("int64 x = 2;", "int32 x = 2;", b"\x10\x05", 5),
    "a number that int32 lacks": ("int64 x = 2;", "int32 x = 2;", b"\x10\x85\x80\x80\x80\x80\x40",
        "value: x is 2199023255557 by its own version of the schema, and 5 by the newest"),
    "sint32 to int32": ("sint32 x = 2;", "int32 x = 2;", b"\x10\x01", "value: x is -1 by its own"),
    "float to double": ("float x = 2;", "double x = 2;", b"\x15\0\0\xc0\x3f", "value: x is 1.5 by"),
    "string to bytes": ("string x = 2;", "bytes x = 2;", b"\x12\x01a", b"a"),
    "bytes to string": ("bytes x = 2;", "string x = 2;", b"\x12\x01a", "a"),
    "int32 to string": ("int32 x = 2;", "string x = 2;", b"\x10\x05", "value: x is 5 by its own"),
    "bool to int32": ("bool x = 2;", "int32 x = 2;", b"\x10\x01", 1),
    "renamed": ("int32 old = 2;", "int32 x = 2;", b"\x10\x05", 5),
    "removed": ("int32 x = 2;", "int32 y = 3;", b"\x10\x05", 5),
    "removed, zero": ("int32 x = 2;", "int32 y = 3;", b"", 0),
    "another number": ("int32 x = 2;", "int32 x = 3;", b"\x10\x05", "value: x is 5 by its own"),
    "its name is another field's": ("int32 x = 3; int32 y = 2;", "int32 x = 2;", b"\x18\x05",
        "value: x is in no column of the newest version"),
    "its name is another field's, zero": ("int32 x = 3; int32 y = 2;", "int32 x = 2;", b"\x10\x05",
        5),
    "its name changes its case": ("string X = 2;", "string x = 3;", b"\x12\x01a",
        "value: x is a by its own"),
    "into a oneof": ("int32 x = 2;", "oneof o { int32 x = 2; }", b"\x10\x05", 5),
    "into a oneof, zero": ("int32 x = 2;", "oneof o { int32 x = 2; }", b"", None),
    "into a oneof, an enum's zero": ("enum E { A = 0; B = 1; } E x = 2; int32 y = 3;",
        "enum E { A = 0; B = 1; } oneof o { E x = 2; int32 y = 3; }", b"\x18\x05", None),
    "into a oneof of which another is there": ("int32 x = 2; int32 y = 3;",
        "oneof o { int32 x = 2; int32 y = 3; }", b"\x10\x05\x18\x06", "value: x is 5 by its own"),
    "another joins its oneof": ("oneof o { int32 x = 2; } int32 y = 3;",
        "oneof o { int32 x = 2; int32 y = 3; }", b"\x10\x05\x18\x06", "value: x is 5 by its own"),
    "gets presence": ("int32 x = 2;", "optional int32 x = 2;", b"", None),
    "its number is another field's": ("int32 x = 2;", "string y = 2;", b"\x10\x05", 5),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOBUF)
def test_a_field_of_protobuf_changes(name: str, registry: SchemaRegistry) -> None:
    """The value of an older version is the same as the newest one has it, or a dead letter."""
    old, new, value, found = PROTOBUF[name]
    number = registry.register("orders-value", protobuf(f"int32 id = 1; {old}"), "PROTOBUF")
    registry.register("orders-value", protobuf(f"int32 id = 1; {new}"), "PROTOBUF")
    plan = from_registry(registry, "protobuf")
    [row] = outcomes(plan, [header(number) + NO_HEADER + b"\x08\x01" + value])
    if isinstance(row, str):
        assert row.startswith(str(found))
    else:
        assert (row["id"], row["x"], "old" in row) == (1, found, False)


def test_fields_of_protobuf_come_and_go(registry: SchemaRegistry) -> None:
    """A removed one is null for newer records; a version that came too late is worth a retry."""
    bodies = ["int32 id = 1; I i = 2;", "int32 id = 1; I i = 2; string n = 3;"]
    inner = ["message I { int32 a = 1; int32 b = 2; }", "message I { int32 a = 1; }"]
    first, second = (
        registry.register("orders-value", f"{protobuf(body)} {one}", "PROTOBUF")
        for body, one in zip(bodies, inner, strict=True)
    )
    value = b"\x08\x01\x12\x04\x08\x05\x10\x06"
    plan = from_registry(registry, "protobuf")
    values = [header(one) + NO_HEADER + value for one in (first, second)]
    assert outcomes(plan, values) == [
        {"id": 1, "i": {"a": 5, "b": 6}, "n": ""},
        {"id": 1, "i": {"a": 5, "b": None}, "n": ""},
    ]
    third = registry.register("orders-value", protobuf("int32 id = 1; int32 z = 9;"), "PROTOBUF")
    [error] = outcomes(plan, [header(third) + NO_HEADER + b"\x08\x01\x48\x05"])
    assert error.startswith(f"registry: schema id {third} has other columns")
    [row] = outcomes(plan, [header(third) + NO_HEADER + b"\x08\x01"])
    assert row["id"] == 1


def test_properties_of_json_come_and_go(registry: SchemaRegistry) -> None:
    """The columns are those of all versions; the newest one says the type."""

    def schema(**properties: Any) -> str:
        return json.dumps(
            {"type": "object", "properties": properties, "required": list(properties)}
        )

    of = {name: {"type": name} for name in ("integer", "number", "string", "boolean")}
    inner = {"type": "object", "properties": {"a": of["integer"], "b": of["integer"]}}
    less = {"type": "object", "properties": {"a": of["integer"]}}
    versions = [
        schema(id=of["integer"], gone=of["string"], i=inner),
        schema(id=of["number"], new=of["boolean"], i=less),
        '"string"',
    ]
    for one in versions:
        registry.keep("orders-value", one, "JSON")
    settings = Decode("json", registry=registry.url)
    columns = registry_struct(options_of(settings), ["orders"])
    assert text_of(columns) == (
        "struct<id: double, new: boolean, i: struct<a: bigint, b: bigint>, gone: string>"
    )
    assert [one["nullable"] for one in columns["fields"]] == [False, False, False, True]


def test_a_registry_is_asked_before_each_batch(registry: SchemaRegistry) -> None:
    """Once, while the subject has no new version; what is known isn't fetched again."""
    for one in (record(id="int"), record(id="int", x={"type": "int", "default": 0})):
        registry.register("orders-value", json.dumps(one))
    plan = from_registry(registry, "avro")
    registry.requests.clear()
    assert from_registry(registry, "avro") == plan
    assert registry.requests == ["GET /subjects/orders-value/versions/latest"]
    registry.register("orders-value", json.dumps(record(id="long")))
    registry.requests.clear()
    from_registry(registry, "avro")
    assert registry.requests == [
        "GET /subjects/orders-value/versions/latest",
        "GET /subjects/orders-value/versions",
    ]
