"""What the Python workers do with Protobuf values; these tests start no Spark.

The promise of all of them: a row that is right, or one line that says why not, and never an
exception that would fail a batch.
"""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kwire.schemas.wire_format import header
from kwire.spark.settings import WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.worker_outcomes import from_registry, given, outcomes, survives_random_bytes

UTC = datetime.UTC


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "shop/line.proto";
message Other { int32 a = 1; }
message Order {
  enum Kind { UNKNOWN = 0; BIG = 1; }
  int64 id = 1;
  optional string name = 2;
  google.protobuf.Timestamp at = 3;
  google.protobuf.Duration took = 4;
  google.protobuf.Int64Value maybe = 5;
  google.protobuf.Struct free = 6;
  Kind kind = 7;
  repeated Line lines = 8;
  map<string, Line> by_name = 9;
  oneof choice { int32 number = 10; string text = 11; }
  uint64 large = 12;
  bytes raw = 13;
}
"""
LINE = 'syntax = "proto3"; package shop; message Line { string sku = 1; repeated int32 n = 2; }'


def message(plan: Any, **fields: Any) -> bytes:
    """A message of a plan's own descriptors."""
    from google.protobuf import json_format, message_factory

    kind = message_factory.GetMessageClass(plan.readers[0][1].descriptor())
    found: bytes = json_format.ParseDict(fields, kind()).SerializeToString()
    return found


def shop(registry: SchemaRegistry) -> tuple[Any, int]:
    """The plan for orders in Protobuf, and the schema's id."""
    registry.register("line", LINE, "PROTOBUF")
    reference = {"name": "shop/line.proto", "subject": "line", "version": 1}
    number = registry.register("orders-value", PROTO, "PROTOBUF", [reference])
    return from_registry(registry, "protobuf", message="shop.Order"), number


def test_every_type_of_protobuf(registry: SchemaRegistry) -> None:
    """Well-known types, maps, oneof, enums and references arrive as their Spark types."""
    plan, number = shop(registry)
    fields = {
        "id": 1,
        "at": "2026-01-02T03:04:05.678Z",
        "took": "1.5s",
        "maybe": 0,
        "free": {"a": [1]},
        "kind": "BIG",
        "lines": [{"sku": "s", "n": [1, 2]}],
        "by_name": {"k": {"sku": "t"}},
        "text": "",
        "large": (1 << 64) - 1,
        "raw": "AQI=",
    }
    start = header(number, (1,))
    first, empty, *errors = outcomes(
        plan,
        [
            start + message(plan, **fields),
            start,
            header(number, (0,)) + message(plan, id=1),
            header(number, (7,)),
            header(99, (1,)),
            start + b"\x0a\xff",
            start + b"\x2b" * 200,
            start + message(plan, id=1) + b"\x38\x09",
        ],
    )
    assert first == {
        "id": 1,
        "name": None,
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
        "took": 1_500_000,
        "maybe": 0,
        "free": '{"a": [1.0]}',
        "kind": "BIG",
        "lines": [{"sku": "s", "n": [1, 2]}],
        "by_name": [("k", {"sku": "t", "n": []})],
        "number": None,
        "text": "",
        "large": Decimal((1 << 64) - 1),
        "raw": b"\x01\x02",
    }
    assert (empty["id"], empty["at"], empty["maybe"], empty["kind"]) == (0, None, None, "UNKNOWN")
    assert errors[-1]["kind"] == "9"
    assert errors[:-1] == [
        "value: it is a message shop.Other, not shop.Order",
        "value: its schema has no message with the indexes [7]",
        f"registry: {registry.url}, asked for schema id 99, answers 404: Schema 99 not found",
        "value: it is no message shop.Order",
        "value: it is no message shop.Order",
    ]


def test_protobuf_from_a_file(tmp_path: Path) -> None:
    """A .proto beside its imports, or a set of descriptors; by default its first message."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "line.proto").write_text(LINE)
    (tmp_path / "order.proto").write_text(PROTO)
    plan = given("protobuf", schema_file=str(tmp_path / "order.proto"))
    assert outcomes(plan, [b"\x08\x05", b"\xff"]) == [
        {"a": 5},
        "value: it is no message shop.Other",
    ]
    (tmp_path / "order.desc").write_bytes(plan.readers[0][1].descriptors)
    options = {"schema_file": str(tmp_path / "order.desc"), "message": "shop.Line"}
    assert outcomes(given("protobuf", **options), [b"\x0a\x01s"]) == [{"sku": "s", "n": []}]


@pytest.mark.parametrize(
    ("text", "message_", "why"),
    [
        ("message X {", "", "protoc: "),
        ('syntax = "proto3";', "", "it has no message"),
        ('syntax = "proto3"; message X { X x = 1; }', "", r"recursive \(X → X\)"),
        ('syntax = "proto3"; message X {}', "", "has no field"),
        ('syntax = "proto3"; message X { int32 a = 1; }', "Y", "no such message"),
    ],
)
def test_wrong_protobuf_schemas(tmp_path: Path, text: str, message_: str, why: str) -> None:
    """Before Spark starts, with the compiler's own line."""
    path = tmp_path / "x.proto"
    path.write_text(text)
    with pytest.raises(WrongSetting, match=why):
        given("protobuf", schema_file=str(path), **({"message": message_} if message_ else {}))


def test_fields_that_are_called_as_keywords(tmp_path: Path) -> None:
    """And those with the names of what reads them."""
    (tmp_path / "m.proto").write_text(
        'syntax = "proto3"; message M { int32 class = 1; optional int32 None = 2; '
        "repeated int32 in = 3; int32 value = 4; map<string, int32> key = 5; }"
    )
    plan = given("protobuf", schema_file=str(tmp_path / "m.proto"))
    body = b"\x08\x05\x10\x06\x1a\x01\x07\x20\x08\x2a\x05\x0a\x01k\x10\x09"
    assert outcomes(plan, [body]) == [
        {"class": 5, "None": 6, "in": [7], "value": 8, "key": [("k", 9)]}
    ]


def test_required_fields_of_proto2(tmp_path: Path) -> None:
    """Their absence is an error of the record."""
    path = tmp_path / "x.proto"
    path.write_text('syntax = "proto2"; message X { required int32 a = 1; optional int32 b = 2; }')
    plan = given("protobuf", schema_file=str(path))
    assert outcomes(plan, [b"\x08\x01", b"\x10\x01"]) == [
        {"a": 1, "b": None},
        "value: X lacks what it requires: a",
    ]


def test_random_bytes_never_fail_a_batch(registry: SchemaRegistry) -> None:
    """Random values, random headers, and good values with some bytes changed."""
    plan, number = shop(registry)
    good = message(plan, id=5, lines=[{"sku": "x"}], free={"a": 1}, at="2026-01-02T03:04:05Z")
    assert survives_random_bytes(plan, "orders", number, header(number, (1,)) + good)
