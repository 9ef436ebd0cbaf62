"""What the Python workers do with Avro values; these tests start no Spark.

The promise of all of them: a row that is right, or one line that says why not, and never an
exception that would fail a batch.
"""

import datetime
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kwire.schemas.wire_format import header
from kwire.spark.settings import WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.worker_outcomes import from_registry, given, outcomes, survives_random_bytes

UTC = datetime.UTC
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": MILLIS},
        {"name": "price", "type": DECIMAL},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "inner", "type": ["null", INNER]},
        {"name": "choice", "type": ["null", "int", "string", "shop.Inner"]},
    ],
}
VALUES: dict[str, Any] = {
    "id": 1,
    "name": "x",
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
    "price": Decimal("12.50"),
    "day": datetime.date(2026, 1, 2),
    "time": datetime.time(0, 0, 1, 5),
    "uuid": "12345678-1234-5678-1234-567812345678",
    "kind": "B",
    "tags": ["a", None],
    "counts": {"k": 1},
    "inner": {"x": 1},
    "choice": {"x": 2},
}
WANTED = {
    **VALUES,
    "time": 1_000_005,
    "counts": [("k", 1)],
    "choice": {"member_int": None, "member_string": None, "member_Inner": {"x": 2}},
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


def encoded(schema: Any, value: Any, number: int | None = None) -> bytes:
    """An Avro value, with the id of its schema."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return (b"" if number is None else header(number)) + stream.getvalue()


def test_every_type_of_avro() -> None:
    """Logical types, unions, enums, arrays and maps arrive as their Spark types."""
    plan = given("avro", schema=json.dumps(ORDER))
    values = [encoded(ORDER, VALUES), encoded(ORDER, {**VALUES, "choice": 5, "inner": None}), None]
    first, second, third = outcomes(plan, values)
    assert first == WANTED
    assert second["choice"]["member_int"] == 5
    assert (second["inner"], third) == (None, None)


def test_a_union_of_numbers_and_times() -> None:
    """Each value is in the column of its own type, whichever stands first."""
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    day = {"type": "int", "logicalType": "date"}
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    cases: list[tuple[list[Any], Any, str, Any]] = [
        (["int", MILLIS], at, "member_long", at),
        (["int", MILLIS], 5, "member_int", 5),
        ([day, MILLIS], at, "member_long", at),
        ([day, MILLIS], at.date(), "member_int", at.date()),
        (["int", nanos], 1_767_323_045_678_000_000, "member_long", at),
        (["int", "boolean"], True, "member_boolean", True),
        (["boolean", "long"], 1, "member_long", 1),
    ]
    for union, value, column, wanted in cases:
        schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": union}]}
        written = encoded(schema, {"x": (column.removeprefix("member_"), value)})
        [row] = outcomes(given("avro", schema=json.dumps(schema)), [written])
        assert isinstance(row, dict), row
        assert {key: one for key, one in row["x"].items() if one is not None} == {column: wanted}


def test_an_unknown_symbol_is_the_default_of_its_enum(registry: SchemaRegistry) -> None:
    """Also within a union; without a default it is an error of the value."""
    fields = [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}]
    fields.append({"name": "u", "type": ["null", "E"]})  # type: ignore[dict-item]
    old = {"type": "record", "name": "R", "fields": fields}
    value = encoded(old, {"e": "B", "u": "B"}, registry.register("orders-value", json.dumps(old)))
    registry.set_compatibility("NONE")
    for more, wanted in (({"default": "C"}, {"e": "C", "u": "C"}), ({}, "value: B not found")):
        enum = {"type": "enum", "name": "E", "symbols": ["A", "C"], **more}
        newer = {**old, "fields": [{"name": "e", "type": enum}, fields[1]]}
        registry.register("orders-value", json.dumps(newer))
        [found] = outcomes(from_registry(registry, "avro"), [value])
        assert found == wanted or str(found).startswith(str(wanted))


def test_a_value_that_is_no_record_has_one_column() -> None:
    """Its name is ``value``."""
    schema = {"type": "map", "values": MILLIS}
    at = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    assert outcomes(given("avro", schema=json.dumps(schema)), [encoded(schema, {"a": at})]) == [
        {"value": [("a", at)]}
    ]


def test_each_writer_is_read_as_the_newest_version(registry: SchemaRegistry) -> None:
    """Older values have the defaults of newer fields, and what they alone have."""
    old = {**ORDER, "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}
    new_fields = [
        {"name": "id", "type": "long"},
        {"name": "new", "type": "string", "default": "d"},
        {"name": "at", "type": ["null", MILLIS], "default": None},
    ]
    first = registry.register("orders-value", json.dumps(old))
    second = registry.register("orders-value", json.dumps({**ORDER, "fields": new_fields}))
    values = [
        encoded(old, {"id": 1, "gone": "x"}, first),
        encoded({**ORDER, "fields": new_fields}, {"id": 2, "new": "n", "at": None}, second),
    ]
    plan = from_registry(registry, "avro")
    assert outcomes(plan, values) == [
        {"id": 1, "new": "d", "at": None, "gone": "x"},
        {"id": 2, "new": "n", "at": None, "gone": None},
    ]
    registry.requests.clear()
    outcomes(plan, values * 10)
    assert registry.requests == []


def test_what_is_wrong_with_an_avro_value(registry: SchemaRegistry) -> None:
    """Unknown ids may pass; cut, too long, foreign and recursive ones may not."""
    number = registry.register("orders-value", json.dumps(ORDER))
    node = {"name": "next", "type": ["null", "Node"]}
    recursive = {"type": "record", "name": "Node", "fields": [node]}
    bomb = registry.register("bomb", json.dumps(recursive))
    other = registry.register("other", '{"type": "object"}', "JSON")
    string = registry.register("string", '"string"')
    good = encoded(ORDER, VALUES, number)
    far = {**VALUES, "price": Decimal("1.00"), "at": 1 << 60}
    values = [
        good[:-1],
        good + b"x",
        header(99) + good[5:],
        header(bomb) + b"\x02" * 100_000,
        header(other) + b"{}",
        header(string) + b"\x02x",
        b"garbage",
        b"",
        header(number)[:4],
        header(number),
        encoded(ORDER, far, number),
        good,
    ]
    *found, last = outcomes(from_registry(registry, "avro"), values)
    starts = [
        "value: it ends, or holds a wrong index",
        "value: 1 bytes are left over",
        f"registry: {registry.url}, asked for schema id 99, answers 404",
        f"value: schema id {bomb}: it is recursive",
        f"value: schema id {other} is of type JSON",
        "value: ",
        "value: the first byte is 103, not 0",
        "value: it is empty",
        "value: 4 bytes are too short for a schema id",
        "value: ",
        "value: ",
    ]
    for error, start in zip(found, starts, strict=True):
        assert isinstance(error, str), error
        assert error.startswith(start)
    assert last == WANTED


def test_a_value_that_its_column_cannot_hold_costs_its_own_row() -> None:
    """More digits than the decimal has: the rows around it stay."""
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
    writer = {"type": "record", "name": "R", "fields": [{"name": "d", "type": wide}]}
    plan = given("avro", schema=json.dumps(writer).replace("30", "4"))
    digits = ["1.25", "123456789.00", "2.25"]
    values = [encoded(writer, {"d": Decimal(one)}) for one in digits]
    first, second, third = outcomes(plan, values)
    assert (first, third) == ({"d": Decimal("1.25")}, {"d": Decimal("2.25")})
    assert second.startswith("value: ")


def test_topics_with_different_columns_are_merged(registry: SchemaRegistry) -> None:
    """What a topic lacks is null; a topic without a subject may have one later. The first topic
    says the type of a column, and values of another one's type are dead letters.
    """
    fields = [{"name": "id", "type": "long"}, {"name": "a", "type": "int"}]
    one = {"type": "record", "name": "One", "fields": fields}
    two = {"type": "record", "name": "Two", "fields": fields[:1]}
    registry.register("one-value", json.dumps(one))
    number = registry.register("two-value", json.dumps(two))
    plan = from_registry(registry, "avro", "one", "two", "three")
    value = encoded(two, {"id": 1}, number)
    assert outcomes(plan, [value], "two") == [{"id": 1, "a": None}]
    [error] = outcomes(plan, [value], "three")
    assert error.startswith("registry: topic three has no subject")
    two["fields"] = [{"name": "id", "type": "string"}]
    registry.set_compatibility("NONE")
    number = registry.register("two-value", json.dumps(two))
    plan = from_registry(registry, "avro", "one", "two")
    [error] = outcomes(plan, [encoded(two, {"id": "x"}, number)], "two")
    assert error.startswith("value: column id is string, not bigint as in topics before it")


def test_names_that_a_table_takes_for_one_stop_nothing(registry: SchemaRegistry) -> None:
    """A producer may register any names; a schema of the settings is refused at once."""
    inner = [{"name": name, "type": "int"} for name in ("a", "A")]
    fields = [
        *({"name": name, "type": "int"} for name in ("id", "ID", "_topic")),
        {"name": "within", "type": {"type": "record", "name": "Within", "fields": inner}},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    number = registry.register("orders-value", json.dumps(schema))
    value = {"id": 1, "ID": 2, "_topic": 3, "within": {"a": 4, "A": 5}}
    plan = from_registry(registry, "avro")
    [row] = outcomes(plan, [encoded(schema, value, number)])
    assert row == {"id": 1, "within": {"a": 4}}
    for wrong in (fields[:2], fields[2:3], fields[3:]):
        given_schema = json.dumps({**schema, "fields": wrong})
        with pytest.raises(WrongSetting, match=r"case|record's own"):
            given("avro", schema=given_schema)


def test_a_registry_that_is_away_may_come_back(registry: SchemaRegistry) -> None:
    """The records are worth a retry."""
    registry.register("orders-value", json.dumps(ORDER))
    plan = from_registry(registry, "avro", registry_timeout_s=0.5)
    registry.stop()
    [error] = outcomes(plan, [encoded(ORDER, VALUES, 1)])
    assert error.startswith(f"registry: no answer from {registry.url}")


def test_random_bytes_never_fail_a_batch(registry: SchemaRegistry) -> None:
    """Random values, random headers, and good values with some bytes changed."""
    number = registry.register("orders-value", json.dumps(ORDER))
    plan = from_registry(registry, "avro")
    assert survives_random_bytes(plan, "orders", number, encoded(ORDER, VALUES, number))


def test_topics_that_spell_a_column_otherwise(registry: SchemaRegistry) -> None:
    """A table has one column of both: no value is lost, and the type is the wider one."""
    schemas = {
        topic: {
            "type": "record",
            "name": "R",
            "fields": [{"name": name, "type": kind, "default": 7} for name, kind in of.items()],
        }
        for topic, of in {"a": {"id": "int"}, "b": {"ID": "long", "n": "int"}}.items()
    }
    numbers = {
        topic: registry.register(f"{topic}-value", json.dumps(of)) for topic, of in schemas.items()
    }
    plan = from_registry(registry, "avro", "a", "b")
    for topic, row, found in (
        ("a", {"id": 1}, {"id": 1, "n": None}),
        ("b", {"ID": 1 << 40, "n": 2}, {"id": 1 << 40, "n": 2}),
    ):
        assert outcomes(plan, [encoded(schemas[topic], row, numbers[topic])], topic) == [found]
