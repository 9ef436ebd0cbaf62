"""JSON as Avro: bytes that the format's specification has, and the way back of what is read."""

import json
from typing import Any

import pytest

from kwire.schemas.avro_names import schema_and_names
from kwire.schemas.avro_readable import readable
from kwire.schemas.avro_writable import avro_bytes
from kwire.schemas.undecodable import Unwritable

Schema = Any


def logical(kind: str, of: str, **more: Any) -> Schema:
    """A type with a logical type."""
    return {"type": kind, "logicalType": of, **more}


def record(*fields: tuple[str, Schema], **defaults: Any) -> Schema:
    """A record R."""
    given = [{"name": name, "type": of} for name, of in fields]
    for one in given:
        if one["name"] in defaults:
            one["default"] = defaults[one["name"]]
    return {"type": "record", "name": "R", "fields": given}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
UUID = logical("fixed", "uuid", name="U", size=16)
DECIMAL = logical("bytes", "decimal", precision=5, scale=2)
LIST = record(("value", "long"), ("next", ["null", "R"]), next=None)


def written(schema: Schema, value: Any) -> bytes:
    """The bytes of a value."""
    parsed, names = schema_and_names(json.dumps(schema))
    return avro_bytes(parsed, names, value)


@pytest.mark.parametrize(
    ("schema", "value", "content"),
    [
        ("int", -64, b"\x7f"),
        ("long", 64, b"\x80\x01"),
        ("long", -(1 << 63), b"\xff" * 9 + b"\x01"),
        ("long", (1 << 63) - 1, b"\xfe" + b"\xff" * 8 + b"\x01"),
        ("string", "foo", b"\x06foo"),
        ("boolean", True, b"\x01"),
        ("float", 1, b"\0\0\x80\x3f"),
        (record(("a", "long"), ("b", "string")), {"b": "foo", "a": 27}, b"\x36\x06foo"),
        ({"type": "array", "items": "long"}, [3, 27], b"\x04\x06\x36\0"),
        ({"type": "map", "values": "int"}, {}, b"\0"),
        (["null", "string"], None, b"\0"),
        (["null", "string"], "a", b"\x02\x02a"),
        (["int", "string"], {"string": "a"}, b"\x02\x02a"),
        (["null", ENUM], "B", b"\x02\x02"),
        (DECIMAL, "-1.5", b"\x04\xff\x6a"),
        (DECIMAL, 0, b"\x02\0"),
        (record(("a", "bytes"), a="\u00ff"), {}, b"\x02\xff"),
        (logical("int", "date"), "1970-01-02", b"\x02"),
    ],
)
def test_bytes_of_values(schema: Schema, value: Any, content: bytes) -> None:
    """As the specification of Avro has them."""
    assert written(schema, value) == content


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("bytes", "00ff"),
        ("double", "-inf"),
        (FIXED, "0a0b"),
        (UUID, "12345678-1234-5678-1234-567812345678"),
        (DECIMAL, "-123.45"),
        (logical("fixed", "decimal", name="D", size=3, precision=6, scale=1), "-99999.9"),
        (logical("int", "date"), "1969-07-20"),
        (logical("int", "time-millis"), "23:59:59.999"),
        (logical("long", "time-micros"), "00:00:00.000001"),
        (logical("long", "timestamp-millis"), "1969-12-31T23:59:59.999Z"),
        (logical("long", "timestamp-nanos"), "2026-11-30T10:00:00.123456789Z"),
        (logical("long", "local-timestamp-micros"), "2026-11-30T10:00:00.123456"),
        (LIST, {"value": 1, "next": {"value": 2, "next": None}}),
        ({"type": "map", "values": {"type": "array", "items": ["null", ENUM]}}, {"a": ["A", None]}),
    ],
)
def test_what_is_read_can_be_written(schema: Schema, value: Any) -> None:
    """As consume prints it, produce takes it."""
    parsed, names = schema_and_names(json.dumps(schema))
    assert readable(parsed, names, avro_bytes(parsed, names, value)) == value


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ("int", 1 << 31, "the value: 2147483648 is not a whole number of 32 bits"),
        ("long", True, "not a whole number"),
        ("long", 1.0, "not a whole number"),
        ("float", 1e300, "not a number of a float"),
        ("string", 7, "not a text"),
        ("string", "\ud800", "not a text of whole characters"),
        ("null", 0, "not null"),
        ("bytes", "xy", "not bytes in hex"),
        (FIXED, "00", "hex of 2 bytes"),
        (ENUM, "C", "a symbol of E"),
        (DECIMAL, "1.234", "2 digits after its point"),
        (DECIMAL, "12345.67", "a decimal of 5 digits"),
        (DECIMAL, "NaN", "not a decimal"),
        (DECIMAL, "1e999999999", "not a decimal"),
        (logical("int", "date"), "30.11.2026", "not a date"),
        (logical("long", "timestamp-millis"), "2026-11-30T10:00:00", "not a timestamp-millis"),
        (record(("a", "int")), {}, "a: it is missing, and the schema has no default"),
        (record(("a", "int")), {"a": 1, "b": 2}, "b: the schema has no such field"),
        (record(("a", {"type": "array", "items": "int"})), {"a": [1, "x"]}, r"a\[1\]: 'x'"),
        (["null", "int"], "x", "not a whole number"),
        ({"type": "map", "values": "int"}, [], "not an object"),
    ],
)
def test_what_does_not_fit(schema: Schema, value: Any, problem: str) -> None:
    """The text says where and why."""
    with pytest.raises(Unwritable, match=problem):
        written(schema, value)


def test_a_value_without_end_of_nesting() -> None:
    """It is refused before the stack is full."""
    value: Any = None
    for _ in range(500):
        value = {"value": 1, "next": value}
    with pytest.raises(Unwritable, match="nested more than 64 deep"):
        written(LIST, value)
