"""Values as people read them, by the schemas of a registry; hostile values and schemas."""

import json
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from kwire.schemas import readable
from kwire.schemas.avro_readable import MAX_DEPTH, MAX_PARTS
from kwire.schemas.readable import (
    MAX_CHARS,
    MAX_KIND,
    MAX_SCHEMA_BYTES,
    MAX_VALUE_BYTES,
    Decoded,
    ReadableValues,
)
from kwire.schemas.registry import JSON, PROTOBUF, RegistrySettings
from kwire.schemas.undecodable import NotYet, Undecodable
from kwire.schemas.wire_format import header
from kwire.testing.schema_registry import SchemaRegistry

ASK_S = 60.0


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def values(server: SchemaRegistry) -> ReadableValues:
    """Its values."""
    return ReadableValues(RegistrySettings(server.url, attempts=1))


def number(value: int) -> bytes:
    """An int or a long as Avro writes it."""
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def text(value: str | bytes) -> bytes:
    """A string or bytes as Avro writes them."""
    content = value.encode() if isinstance(value, str) else value
    return number(len(content)) + content


def record(name: str, **fields: Any) -> str:
    """A schema of a record."""
    types = [{"name": field, "type": of} for field, of in fields.items()]
    return json.dumps({"type": "record", "name": name, "fields": types})


def decode(values: ReadableValues, value: bytes) -> Decoded:
    """A value as the page decodes it: first the registry is asked."""
    values.learn(values.unknown([value]), time.monotonic() + ASK_S)
    return values.decoded(value)


def in_avro(server: SchemaRegistry, values: ReadableValues, schema: str, content: bytes) -> Any:
    """What JSON has of a value of Avro with this schema."""
    return json.loads(decode(values, header(server.keep(schema, schema)) + content).text)


ORDER = record(
    "shop.Order",
    id="long",
    price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    at={"type": "long", "logicalType": "timestamp-millis"},
    day={"type": "int", "logicalType": "date"},
    since={"type": "int", "logicalType": "time-millis"},
    state={"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
    note=["null", "string"],
    tags={"type": "array", "items": "string"},
    sizes={"type": "map", "values": "double"},
    hash={"type": "fixed", "name": "Hash", "size": 2},
    last="State",
    isNew="boolean",
)


def test_a_value_of_avro(server: SchemaRegistry, values: ReadableValues) -> None:
    """All types; dates, times and decimals as people write them; blocks with a size, too."""
    content = b"".join(
        [
            number(-7),
            text((-1250).to_bytes(2, signed=True)),
            number(1_700_000_000_123),
            number(19_000),
            number(3_600_001),
            number(1),
            number(1) + text("für dich"),
            number(-2) + number(4) + text("a") + text("b") + number(1) + text("c") + number(0),
            number(1) + text("x") + struct.pack("<d", 0.5) + number(0),
            b"\xab\xcd",
            number(0),
            b"\x01",
        ]
    )
    found = decode(values, header(server.register("orders-value", ORDER)) + content)
    assert found.kind == "Avro shop.Order"
    assert json.loads(found.text) == {
        "id": -7,
        "price": "-12.50",
        "at": "2023-11-14T22:13:20.123Z",
        "day": "2022-01-08",
        "since": "01:00:00.001",
        "state": "PAID",
        "note": "für dich",
        "tags": ["a", "b", "c"],
        "sizes": {"x": 0.5},
        "hash": "abcd",
        "last": "NEW",
        "isNew": True,
    }


def test_types_of_other_schemas_and_recursive_ones(
    server: SchemaRegistry, values: ReadableValues
) -> None:
    """A reference's names are known; a tree is read as deep as it is."""
    address = server.register("address", record("shop.Address", city="string"))
    assert address
    uses = [{"name": "shop.Address", "subject": "address", "version": 1}]
    number_of = server.register("c", record("shop.Customer", at="Address"), references=uses)
    found = decode(values, header(number_of) + text("Porto"))
    assert json.loads(found.text) == {"at": {"city": "Porto"}}
    tree = record("Node", value="int", next=["null", "Node"])
    content = number(1) + number(1) + number(2) + number(0)
    expected = {"value": 1, "next": {"value": 2, "next": None}}
    assert in_avro(server, values, tree, content) == expected


@pytest.mark.parametrize(
    ("schema", "content", "expected"),
    [
        ('"double"', struct.pack("<d", float("nan")), "nan"),
        ('"float"', struct.pack("<f", 0.25), 0.25),
        ('"bytes"', text(b"\x00\xff"), "00ff"),
        ('"string"', text(b"\xff"), "\ufffd"),
        ('{"type": "long", "logicalType": "timestamp-micros"}', number(1 << 62), 1 << 62),
        ('{"type": "int", "logicalType": "date"}', number(-(1 << 30)), -(1 << 30)),
        (
            '{"type": "long", "logicalType": "timestamp-nanos"}',
            number(5),
            "1970-01-01T00:00:00.000000005Z",
        ),
        (
            '{"type": "fixed", "name": "I", "size": 16, "logicalType": "uuid"}',
            bytes(range(16)),
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
        ),
        ('{"type": "bytes", "logicalType": "decimal", "scale": 9000000}', text(b"\x01"), "01"),
        ('{"type": "bytes", "logicalType": "decimal"}', text(b"\x01" * 65), "01" * 65),
    ],
)
def test_what_json_has_no_form_for(
    server: SchemaRegistry, values: ReadableValues, schema: str, content: bytes, expected: Any
) -> None:
    """Numbers beyond calendars, bytes, and what would take long to print."""
    assert in_avro(server, values, schema, content) == expected


NULLS = '{"type": "array", "items": "null"}'
WIDE = record("Wide", **{f"f{one}": "null" for one in range(1000)})
LIST = record("Node", next=["null", "Node"])


@pytest.mark.parametrize(
    ("schema", "content", "problem"),
    [
        (NULLS, number(1 << 60), "more than 20,000 parts"),
        (f'{{"type": "array", "items": {WIDE}}}', number(1000), "more than 20,000 parts"),
        (LIST, number(1) * (MAX_DEPTH * 2), "nested more than"),
        ('"string"', number(1 << 40), "cut off"),
        ('"string"', number(-5), "cut off"),
        ('"long"', b"\xff" * 11, "cut off"),
        ('"long"', b"", "cut off"),
        ('"null"', b"\x00", "1 bytes are left over"),
        ('["null", "long"]', number(2), "no branch 2"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', number(1), "no symbol 1"),
    ],
)
def test_hostile_values_end_at_a_limit(
    server: SchemaRegistry, values: ReadableValues, schema: str, content: bytes, problem: str
) -> None:
    """A few bytes stand neither for 2^60 items nor for a stack without end."""
    assert MAX_PARTS == 20_000
    with pytest.raises(Undecodable, match=problem):
        in_avro(server, values, schema, content)


def test_hostile_schemas_end_at_a_limit(server: SchemaRegistry, values: ReadableValues) -> None:
    """Long schemas, long names that few bytes stand for, and values that are long themselves."""
    long_name = "x" * 10_000
    many = f'{{"type": "array", "items": {record("R", **{long_name: "boolean"})}}}'
    content = number(1000) + b"\x01" * 1000 + number(0)
    found = decode(values, header(server.register("a", many)) + content)
    assert len(found.text) == MAX_CHARS + 1
    assert found.text.endswith("…")
    longest = record("R", **{"y" * MAX_SCHEMA_BYTES: "int"})
    with pytest.raises(Undecodable, match="its schema, id 2: it has more than"):
        decode(values, header(server.register("b", longest)) + b"\x00")
    with pytest.raises(Undecodable, match="it has more than 32,768 bytes"):
        decode(values, header(1) + bytes(MAX_VALUE_BYTES))


def test_a_value_of_json_schema(server: SchemaRegistry, values: ReadableValues) -> None:
    """With the schema's title; half a character can be shown."""
    schema = '{"title": "Order", "type": "object"}'
    start = header(server.register("j", schema, JSON))
    found = decode(values, start + b'{"id": 7, "half": "\\ud800"}')
    assert found.kind == "JSON Schema Order"
    assert found.text == '{\n  "id": 7,\n  "half": "\\ud800"\n}'
    with pytest.raises(Undecodable, match="it is no JSON"):
        decode(values, start + b"{")


def test_protobuf_needs_packages(
    server: SchemaRegistry, values: ReadableValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says which; with them the tests of Spark's environment read a message."""
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    schema = 'syntax = "proto3"; message Order { int64 id = 1; }'
    with pytest.raises(Undecodable) as raised:
        decode(values, header(server.keep("p", schema, PROTOBUF), (0,)) + b"\x08\x07")
    assert str(raised.value) == (
        "its schema, id 1: to compile a .proto needs the package grpcio-tools, which isn't "
        "installed: pip install -e '.[schemas]' in a checkout of kwire"
    )


def test_without_the_client_of_registries(
    values: ReadableValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what to install."""
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.error", None)
    with pytest.raises(NotYet, match=r"needs the package confluent-kafka.* '\.\[schemas\]'"):
        decode(values, header(1) + b"\x00")


def test_a_registry_that_is_away_or_knows_no_schema() -> None:
    """The reason is the error of its values, and a later question may succeed."""
    with SchemaRegistry() as server:
        settings = RegistrySettings(server.url, attempts=1)
        values = ReadableValues(settings)
        with pytest.raises(NotYet, match="answers 404"):
            decode(values, header(1) + number(7))
        now_s = [0.0]
        later = ReadableValues(settings, lambda: now_s[0])
        server.fail_with = 503
        later.learn([1], until_s=0.0)
        with pytest.raises(NotYet, match="answers 503"):
            later.decoded(header(1) + number(7))
        server.fail_with = 0
        server.register("a", '"long"')
        now_s[0] = 3600.0
        assert later.unknown([header(1), b"", b"\x00\x00", b"text!"]) == [1]
        later.learn([1], until_s=3600.0)
        assert later.unknown([header(1)]) == []
        assert later.decoded(header(1) + number(7)).text == "7"
        with pytest.raises(NotYet, match="it hasn't answered yet"):
            later.decoded(header(2))
        later.learn([2], until_s=0.0)  # the time is over: nobody is asked
        with pytest.raises(NotYet, match="it hasn't answered yet"):
            later.decoded(header(2))


def frames_of(error: BaseException) -> int:
    """How many frames an error refers to."""
    return len(list(walk_tb(error.__traceback__)))


def test_what_failed_is_kept_within_limits(
    server: SchemaRegistry, values: ReadableValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records may name any id. The newest failures are kept, and no longer the more they are told;
    new ids are asked for before those that failed.
    """
    monkeypatch.setattr(readable, "MAX_READERS", 3)
    values.learn(range(1, 6), time.monotonic() + ASK_S)
    with pytest.raises(NotYet, match="it hasn't answered yet"):
        values.decoded(header(1))
    frames = set()
    for _ in range(5):
        with pytest.raises(NotYet, match="answers 404") as raised:
            values.decoded(header(5))
        frames.add(frames_of(raised.value))
    assert len(frames) == 1
    assert raised.value.__cause__ is None
    assert values.unknown([header(5), header(4), header(9), header(7)]) == [7, 9, 4, 5]


def test_whatever_a_schema_makes_a_library_raise(
    server: SchemaRegistry,
    values: ReadableValues,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is the error of the schema's values. What may pass is tried again, nothing else is."""
    server.keep("used", "message U {}", PROTOBUF)
    uses = [{"name": "u\0.proto", "subject": "used", "version": 1}]
    hostile = header(server.keep("p", "message M {}", PROTOBUF, references=uses), (0,))
    with pytest.raises(Undecodable, match="its schema, id 2, can't be read: ValueError"):
        decode(values, hostile)
    assert values.unknown([hostile]) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    start = header(server.keep("q", "message N {}", PROTOBUF), (0,))
    with pytest.raises(NotYet, match="schema id 3 can't be read at the moment: No such file"):
        decode(values, start)
    assert values.unknown([start]) == [3]


def test_all_schemas_are_forgotten_when_they_are_many(
    server: SchemaRegistry, values: ReadableValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for again when a value needs them; the registry's client has none either."""
    monkeypatch.setattr(readable, "MAX_KEPT_CHARS", 10)
    server.set_compatibility("NONE")
    numbers = [server.register("a", f'"{name}"') for name in ("long", "string", "int")]
    for number_of in numbers:
        values.learn([number_of], time.monotonic() + ASK_S)
    assert values.unknown(map(header, numbers)) == numbers[:2]
    asked = len(server.requests)
    assert decode(values, header(numbers[0]) + number(7)).text == "7"
    assert len(server.requests) > asked


def test_names_of_types_are_cut(server: SchemaRegistry, values: ReadableValues) -> None:
    """A page has them for each value; half a character of a name can't be sent."""
    long = server.register("a", record("N" * 1000, f="null"))
    assert decode(values, header(long)).kind == f"Avro {'N' * (MAX_KIND - 5)}…"
    half = server.keep("b", '{"title": "\\ud800"}', JSON)
    assert decode(values, header(half) + b"1").kind == "JSON Schema \\ud800"
