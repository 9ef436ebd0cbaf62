"""Defaults of every type of Avro, nested in each other: the values of Java's library, every time.

Adding a field with a default is the compatible change: old values must stay rows, and right ones.
"""

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kwire.schemas.wire_format import header
from kwire.spark.settings import WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.avro_schemas import Schemas, resolved_by_java
from spark_tests.worker_outcomes import from_registry, given, outcomes

EMPTY = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
OLD_VALUE = b"\x0e"
"""An ``id`` of 7."""
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
AT_MS = 1767323045678
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 2}


def inner(*fields: dict[str, Any]) -> dict[str, Any]:
    """A record within the record."""
    return {"type": "record", "name": "Inner", "fields": list(fields)}


CASES: list[tuple[Any, Any, Any]] = [
    ("null", None, None),
    ("boolean", True, True),
    ("int", -5, -5),
    ("long", 1 << 60, 1 << 60),
    ("double", 5, 5.0),
    ("double", "INF", float("inf")),
    ("float", "-Infinity", float("-inf")),
    ("bytes", "\u00ff\u0000é", b"\xff\x00\xe9"),
    (FIXED, "\u00ff\u0080", b"\xff\x80"),
    ("string", "é€", "é€"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (DECIMAL, "\u0004\u00e2", Decimal("12.50")),
    (FIXED | {"logicalType": "decimal", "precision": 4, "scale": 2}, "ÿ\u0085", Decimal("-1.23")),
    (MILLIS, AT_MS, AT),
    ({"type": "long", "logicalType": "timestamp-micros"}, AT_MS * 1000, AT),
    ({"type": "long", "logicalType": "timestamp-nanos"}, AT_MS * 1_000_000, AT),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, AT_MS, AT.replace(tzinfo=None)),
    ({"type": "int", "logicalType": "date"}, 20455, AT.date()),
    ({"type": "int", "logicalType": "time-millis"}, 1005, 1005),
    ({"type": "long", "logicalType": "time-micros"}, 1_000_005, 1_000_005),
    ({"type": "string", "logicalType": "uuid"}, "12345678-1234-5678-1234-567812345678", None),
    ({"type": "array", "items": MILLIS}, [AT_MS, 0], None),
    ({"type": "array", "items": {"type": "map", "values": "int"}}, [{"a": 1}], [[("a", 1)]]),
    ({"type": "map", "values": {"type": "map", "values": "bytes"}}, {"a": {"b": "é"}}, None),
    (["null", "int"], None, None),
    (["int", "null"], 5, 5),
    (["null", "int"], 5, 5),
    (["null", MILLIS], AT_MS, AT),
    (["string", "double"], "NaN", {"member_string": "NaN", "member_double": None}),
    (["double", "string"], "NaN", {"member_string": "NaN", "member_double": None}),
    (["null", "int", "string"], "x", {"member_int": None, "member_string": "x"}),
    ([FIXED, "null", "int"], "é!", {"member_F": b"\xe9!", "member_int": None}),
    (inner({"name": "at", "type": MILLIS}), {"at": AT_MS}, {"at": AT}),
    (inner({"name": "at", "type": MILLIS, "default": AT_MS}), {}, {"at": AT}),
    (
        ["null", inner({"name": "m", "type": {"type": "map", "values": "int"}}), "int"],
        {"m": {"a": 1}},
        {"member_Inner": {"m": [("a", 1)]}, "member_int": None},
    ),
    (
        inner(
            {
                "name": "deep",
                "type": inner({"name": "d", "type": DECIMAL, "default": "\u0001"}) | {"name": "D"},
                "default": {},
            },
            {"name": "n", "type": ["null", "D"], "default": None},
        ),
        {"n": {"d": "\u0002"}},
        {"deep": {"d": Decimal("0.01")}, "n": {"d": Decimal("0.02")}},
    ),
]
COMPUTED = {
    20: "12345678-1234-5678-1234-567812345678",
    21: [AT, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)],
    23: [("a", [("b", b"\xe9")])],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """A registry that takes any schema."""
    with SchemaRegistry() as running:
        running.set_compatibility("NONE")
        yield running


def with_field(of: Any, default: Any) -> dict[str, Any]:
    """The newer schema: one more field."""
    return EMPTY | {"fields": [*EMPTY["fields"], {"name": "x", "type": of, "default": default}]}


def old_values(registry: SchemaRegistry, newer: Any, count: int) -> list[Any]:
    """What becomes of values of the older schema when the newer one is the subject's newest, of a
    topic of its own: columns are those of all versions.
    """
    topic = f"orders-{uuid.uuid4().hex}"
    number = registry.register(f"{topic}-value", json.dumps(EMPTY))
    registry.register(f"{topic}-value", json.dumps(newer))
    plan = from_registry(registry, "avro", topic)
    return outcomes(plan, [header(number) + OLD_VALUE] * count, topic)


@pytest.mark.parametrize("place", range(len(CASES)))
def test_a_default_is_a_value_of_its_type(registry: SchemaRegistry, place: int) -> None:
    """The first time and each further time, in every type and within others."""
    of, default, wanted = CASES[place]
    found = old_values(registry, with_field(of, default), 3)
    assert found == [{"id": 7, "x": COMPUTED.get(place, wanted)}] * 3


def test_not_a_number_is_a_number(registry: SchemaRegistry) -> None:
    """It isn't equal to itself, so the other cases can't have it."""
    [row] = old_values(registry, with_field("double", "NaN"), 1)
    assert row["x"] != row["x"]
    assert isinstance(row["x"], float)


@pytest.mark.parametrize(
    ("of", "default"),
    [
        ("int", 1 << 31),
        ("int", 1.5),
        ("int", True),
        ("boolean", 1),
        ("double", "many"),
        ("double", int("9" * 400)),
        ("string", 5),
        ("bytes", "€"),
        (FIXED, "long"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        (MILLIS, 1 << 62),
        (["null", "int"], "x"),
        ({"type": "array", "items": "int"}, {}),
        (inner({"name": "a", "type": "int"}), {}),
        (inner({"name": "a", "type": {"type": "array", "items": "int"}}), {"a": [0] * 30_000}),
    ],
)
def test_a_default_of_another_type(registry: SchemaRegistry, of: Any, default: Any) -> None:
    """A given schema is refused; one of a registry costs only the values that need the default."""
    newer = with_field(of, default)
    with pytest.raises(WrongSetting, match=r"the default of R\.x is wrong: "):
        given("avro", schema=json.dumps(newer))
    assert old_values(registry, newer, 1) == ["value: No default value for field x in R"]


def test_a_value_that_is_no_record_has_defaults_within(registry: SchemaRegistry) -> None:
    """A map of records, read by a schema whose records have one more field."""
    old = {"type": "map", "values": EMPTY}
    new = {"type": "map", "values": with_field(DECIMAL, "\u0001")}
    number = registry.register("maps-value", json.dumps(old))
    registry.register("maps-value", json.dumps(new))
    value = header(number) + b"\x02\x02k" + OLD_VALUE + b"\x00"
    found = outcomes(from_registry(registry, "avro", "maps"), [value] * 2, "maps")
    assert found == [{"value": [("k", {"id": 7, "x": Decimal("0.01")})]}] * 2


def unordered(value: Any) -> Any:
    """A value whose maps have no order, as Java's."""
    if isinstance(value, dict):
        return {key: unordered(one) for key, one in value.items()}
    if not isinstance(value, list):
        return value
    items = [unordered(one) for one in value]
    return (
        {key: unordered(one) for key, one in items}
        if items and all(isinstance(one, tuple) for one in items)
        else items
    )


def test_defaults_are_those_of_java(spark: SparkSession, registry: SchemaRegistry) -> None:
    """Schemas made by chance: old values, each three times, equal what Java's library reads."""
    old = '{"type": "record", "name": "Record0", "fields": []}'
    for seed in range(300):
        schema = Schemas(seed).record() | {"name": "Record0"}
        text = json.dumps(schema)
        as_java = outcomes(given("avro", schema=text), [resolved_by_java(spark, old, text, b"")])
        number = registry.register(f"chance{seed}-value", old)
        registry.register(f"chance{seed}-value", text)
        plan = from_registry(registry, "avro", f"chance{seed}")
        found = outcomes(plan, [header(number)] * 3, f"chance{seed}")
        assert unordered(found) == unordered(as_java * 3), (seed, text)
