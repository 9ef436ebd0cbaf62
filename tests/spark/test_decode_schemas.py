"""Schemas of every kind become Spark's types, without Spark; what has none is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.schemas.undecodable import NotYet, Undecodable, WrongSchema, is_worth_a_retry
from kwire.schemas.wire_format import header, message_indexes, schema_id
from kwire.spark.decode import avro_schema, avro_types, check, json_schema
from kwire.spark.decode.ddl import WrongDdl, parse_ddl
from kwire.spark.decode.inferred import grown, settled
from kwire.spark.decode.merged_types import Spelled, merged, renamed
from kwire.spark.decode.options import options_of
from kwire.spark.decode.proto_text import message_name
from kwire.spark.decode.spark_types import has_value, loosened, text_of
from kwire.spark.decode.spellings import has_spellings, spread, with_spellings
from kwire.spark.settings import Decode, WrongSetting


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id BIGINT NOT NULL, b string", "struct<id: bigint, b: string>"),
        (
            "`a b` decimal(10, 2) COMMENT 'x, y', c dec",
            "struct<a b: decimal(10,2), c: decimal(10,0)>",
        ),
        (
            "a array<struct<x:int,y:map<string,timestamp_ntz>>>",
            "struct<a: array<struct<x: int, y: map<string, timestamp_ntz>>>>",
        ),
        ("a: int", "struct<a: int>"),
    ],
)
def test_ddl(text: str, wanted: str) -> None:
    """Spark's DDL, with NOT NULL and comments."""
    found = parse_ddl(text)
    assert text_of(found) == wanted
    assert isinstance(found, dict)
    assert found["fields"][0]["nullable"] is ("NOT NULL" not in text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no column"),
        ("id", "its end is no type"),
        ("id bigint,", "a column is expected"),
        ("id bigint b int", ", is expected at b"),
        ("id number", "number is no type; there are boolean"),
        ("id array<int", "> is expected"),
        ("id int, id int", "column id is there twice"),
        ("d decimal(50,2)", "up to 38 digits"),
        ("a " + "array<" * 60 + "int" + ">" * 60, "nested more than 50 deep"),
    ],
)
def test_wrong_ddl(text: str, why: str) -> None:
    """What was expected, and where."""
    with pytest.raises(WrongDdl, match=why):
        parse_ddl(text)


def record(**fields: Any) -> str:
    """An Avro record."""
    listed = [{"name": name, "type": of} for name, of in fields.items()]
    return json.dumps({"type": "record", "name": "R", "namespace": "a.b", "fields": listed})


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        ("int", "int"),
        (["null", "long"], "bigint"),
        (["int", "long", "null"], "bigint"),
        (["float", "double"], "double"),
        (["null", "string", "int"], "struct<member_string: string, member_int: int>"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "string"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "binary"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        (
            {"type": "map", "values": {"type": "map", "values": "bytes"}},
            "map<string, map<string, binary>>",
        ),
        ("null", "string"),
    ],
)
def test_avro_types(of: Any, wanted: str) -> None:
    """Every type of Avro has a type of Spark."""
    row = avro_types.row_type(avro_schema.load(record(x=of)))
    assert text_of(row) == f"struct<x: {wanted}>"


def test_avro_names_lead_to_their_types() -> None:
    """Within a namespace, in other schemas, and a second time."""
    other = '{"type": "record", "name": "a.b.S", "fields": [{"name": "y", "type": "int"}]}'
    row = avro_types.row_type(avro_schema.load(record(p="S", q="a.b.S", r=["null", "S"]), [other]))
    inner = "struct<y: int>"
    assert text_of(row) == f"struct<p: {inner}, q: {inner}, r: {inner}>"
    assert [one["nullable"] for one in row["fields"]] == [False, False, True]
    assert text_of(avro_types.row_type(avro_schema.load("string"))) == "struct<value: string>"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        (record(x="Unknown"), r"type a\.b\.Unknown is defined nowhere"),
        (record(x=["null", "R"]), r"recursive \(a\.b\.R → a\.b\.R\)"),
        (record(x={"type": "array", "items": "null"}), "take no bytes"),
        (record(x={"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}}), "bytes"),
        ('{"type": "record", "name": "R"}', "no list of fields"),
        ('{"type": "record", "fields": []}', "has no name"),
        ('{"type": "array"}', "array has no items"),
        ("[" * 5000, "no JSON"),
    ],
)
def test_wrong_avro_schemas(text: str, why: str) -> None:
    """Also those that are traps: endless types, and items without bytes."""
    with pytest.raises(WrongSchema, match=why):
        avro_types.row_type(avro_schema.load(text))


def test_json_schema_types() -> None:
    """Types, formats, references within the document and to others, mixtures."""
    schema = {
        "type": "object",
        "required": ["id", "maybe"],
        "definitions": {"sku": {"type": "string"}, "deep": {"$ref": "#/definitions/sku"}},
        "properties": {
            "id": {"type": "integer"},
            "maybe": {"type": ["null", "number"]},
            "sku": {"$ref": "#/definitions/deep"},
            "day": {"type": "string", "format": "date"},
            "other": {"$ref": "other.json"},
            "one": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
            "mixed": {"type": ["string", "integer"]},
            "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"type": "object"},
            "kind": {"enum": ["a", "b", None]},
            "all": {"allOf": [{"$ref": "other.json"}, {"properties": {"z": {"const": 1}}}]},
        },
    }
    other = (
        '{"type": "object", "properties": {"y": {"type": "array", "items": {"type": "string"}}}}'
    )
    row = json_schema.row_type(json.dumps(schema), {"other.json": other})
    found = {one["name"]: text_of(one["type"]) for one in row["fields"]}
    assert found == {
        "id": "bigint",
        "maybe": "double",
        "sku": "string",
        "day": "date",
        "other": "struct<y: array<string>>",
        "one": "boolean",
        "mixed": "string",
        "labels": "map<string, bigint>",
        "free": "string",
        "kind": "string",
        "all": "struct<y: array<string>, z: bigint>",
    }
    assert [one["name"] for one in row["fields"] if not one["nullable"]] == ["id"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "no object with properties"),
        ({"properties": {"x": {"$ref": "#/nowhere"}}}, "leads nowhere"),
        ({"properties": {"x": {"$ref": "away.json"}}}, "no schema that is known"),
        ({"properties": {"x": {"$ref": "#"}}}, "recursive"),
        ({"properties": {"x": {"type": "int"}}}, "int is no type of JSON Schema"),
    ],
)
def test_wrong_json_schemas(schema: Any, why: str) -> None:
    """References that lead nowhere or in circles."""
    with pytest.raises(WrongSchema, match=why):
        json_schema.row_type(json.dumps(schema))


def test_schemas_of_several_topics_are_merged() -> None:
    """By name; numbers become wider; what doesn't meet is named."""
    one, two = parse_ddl("a int not null, s struct<x: int>"), parse_ddl("b string, a bigint")
    conflicts: dict[tuple[str, ...], str] = {}
    found = merged(one, two, conflicts, [])
    assert text_of(found) == "struct<a: bigint, s: struct<x: int>, b: string>"
    assert [field["nullable"] for field in found["fields"]] == [True, True, True]  # type: ignore[index]
    assert not conflicts
    other = parse_ddl("s struct<x: string>, l array<struct<y: int>>, m map<string, int>")
    kept = merged(
        other, parse_ddl("s struct<x: int>, l array<struct<y: date>>, m string"), conflicts, []
    )
    assert kept == merged(other, other, {}, [])
    assert conflicts == {
        ("s", "x"): "s.x is int, not string",
        ("l", "[]", "y"): "l[].y is date, not int",
        ("m",): "m is string, not map<string, int>",
    }
    row = {"s": {"x": None}, "l": [{"y": None}, None], "m": [("k", None)]}
    places = [("s", "x"), ("l", "[]", "y"), ("m", "{}"), ("n",), ("m", "{key}")]
    assert [has_value(row, one) for one in places] == [False] * 4 + [True]
    row = {"s": {"x": 0}, "l": [None, {"y": 0}], "m": [("k", None), ("l", 0)], "n": ""}
    assert all(has_value(row, one) for one in places)
    assert loosened(one)["fields"][0]["nullable"] is True  # type: ignore[index]


def test_names_that_differ_by_case_are_one_column_of_several_topics() -> None:
    """The first topic's spelling, at any depth; a topic that has both keeps its own."""
    conflicts: dict[tuple[str, ...], str] = {}
    spelled: Spelled = []
    one = parse_ddl(
        "id int, Of struct<a: int, l: array<struct<N: int>>>, m map<string, struct<x: int>>"
    )
    two = parse_ddl(
        "m map<string, struct<X: int>>, oF struct<l: array<struct<n: bigint>>>, ID bigint"
    )
    found = merged(one, two, conflicts, spelled)
    assert text_of(found) == (
        "struct<id: bigint, Of: struct<a: int, l: array<struct<N: bigint>>>, "
        "m: map<string, struct<x: int>>>"
    )
    assert not conflicts
    default = {"l": [{"n": 1}, None]}
    row = {"m": [("k", {"X": 1}), ("l", None)], "oF": default, "ID": 5}
    for each in spelled:
        row = renamed(row, *each)
    assert row == {
        "m": [("k", {"x": 1}), ("l", None)],
        "Of": {"l": [{"N": 1}, None]},
        "id": 5,
    }
    assert default == {"l": [{"n": 1}, None]}, "others share it"
    assert renamed({"Of": None}, ("Of", "l", "[]"), "n", "N") == {"Of": None}
    both: Spelled = []
    merged(parse_ddl("id int"), parse_ddl("ID int, id int"), conflicts, both)
    assert both == []


def test_spellings_of_the_properties_of_json() -> None:
    """Those of other versions and topics, at any depth; no name of another column."""
    of = parse_ddl(
        "id int, s struct<a: int>, l array<struct<x: int>>, m map<string, struct<y: int>>"
    )
    others = [
        parse_ddl("Id string, S struct<A: int>, M map<string, struct<Y: int, z: int>>, more int"),
        parse_ddl("ID int, id int, l array<struct<X: int>>, s string"),
    ]
    found = with_spellings(of, others)
    assert has_spellings(found)
    assert text_of(found) == text_of(of), "the columns are the same"
    assert text_of(spread(found)) == (
        "struct<id: int, Id: int, ID: int, s: struct<a: int, A: int>, S: struct<a: int, A: int>, "
        "l: array<struct<x: int, X: int>>, m: map<string, struct<y: int, Y: int>>, "
        "M: map<string, struct<y: int, Y: int>>>"
    )
    same = with_spellings(of, [of, parse_ddl("other int")])
    assert not has_spellings(same)
    assert spread(same) == loosened(of)
    apart = parse_ddl("id int, ID int")
    assert not has_spellings(with_spellings(apart, [of, apart]))
    assert json.loads(json.dumps(found)) == found, "it is kept beside the checkpoint"


def test_an_inferred_schema_only_grows() -> None:
    """New columns, also within structs and arrays of them; no type changes."""
    known, found = (
        parse_ddl("a int, s array<struct<x: int>>"),
        parse_ddl("b date, a string, s array<struct<y: int, x: string>>"),
    )
    wanted = "struct<a: int, s: array<struct<x: int, y: int>>, b: date>"
    assert text_of(grown(known, found)) == wanted
    sample = parse_ddl("a decimal(3,1), b void, c variant, d object<e: void>, f array<bigint>")
    of = settled(sample)
    assert of is not None
    assert text_of(of) == "struct<a: double, c: string, f: array<bigint>>"


def test_an_inferred_schema_has_each_name_once() -> None:
    """Tables don't tell ``id`` from ``ID``: one record with both would stop the pipeline."""
    twice = settled(parse_ddl("id int, ID string, s object<x: int, X: int, ``: int>, `` int"))
    assert text_of(twice or "") == "struct<id: int, s: struct<x: int, : int>, : int>"
    assert text_of(grown(parse_ddl("id int"), parse_ddl("Id int, b int"))) == (
        "struct<id: int, b: int>"
    )


def test_the_wire_format() -> None:
    """A header is read as it was written; what is cut off or begins otherwise is an error."""
    assert schema_id(header(7) + b"x") == 7
    for indexes in [(0,), (1,), (2, 0, 300)]:
        value = header(1 << 31, indexes) + b"rest"
        assert schema_id(value) == 1 << 31
        found, position = message_indexes(value)
        assert (found, value[position:]) == (indexes, b"rest")
    for value in (b"", b"\0\0\0\0", b"\1\0\0\0\1x", b'{"a":1}'):
        with pytest.raises(Undecodable):
            schema_id(value)
    for rest in (b"", b"\x01", b"\x04\x02", b"\xff" * 9, b"\xfe\xff\x7f"):
        with pytest.raises(Undecodable):
            message_indexes(header(1) + rest)


PROTO = """
syntax = "proto3"; // message Not { message Seen {} }
package shop.v1;
/* message Not2 {} */
option java_package = "message X {";
message Order { enum E { A = 0; } message Line { oneof o { int32 a = 1; } } message Tax {} }
enum Top { B = 0; }
message Refund { map<string, int32> m = 1; }
service S { rpc Get (Order) returns (Refund) { option x = { a: 1 }; } }
message Last {}
"""


def test_messages_of_a_proto_text() -> None:
    """By their place in the text, whatever comments, enums and services are between."""
    wanted = {
        (0,): "shop.v1.Order",
        (0, 0): "shop.v1.Order.Line",
        (0, 1): "shop.v1.Order.Tax",
        (1,): "shop.v1.Refund",
        (2,): "shop.v1.Last",
    }
    assert {indexes: message_name(PROTO, indexes) for indexes in wanted} == wanted
    for indexes in [(3,), (0, 2), (-1,), (0, 0, 0)]:
        with pytest.raises(Undecodable, match="no message with the indexes"):
            message_name(PROTO, indexes)


def test_errors_say_whether_they_may_pass() -> None:
    """The registry's may; the value's may not. Each is one short line."""
    assert is_worth_a_retry(NotYet("no schema 7").text)
    text = Undecodable("two\nlines " + "x" * 999).text
    assert not is_worth_a_retry(text)
    assert text.startswith("value: two lines x")
    assert len(text) == 500


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Decode(format="xml"), "decode.format = 'xml': it is one of json, avro, protobuf, csv"),
        (Decode(key="int"), "decode.key = 'int': it is one of bytes, text"),
        (Decode(options={"schema": "a int, A int"}), "column a is there twice: case makes no"),
        (Decode(options={"schema": "_key string"}), "column _key is the record's own: name it"),
        (Decode(options={"schema": "`` int"}), "a column has no name"),
        (Decode(), "decode.format = 'json': it needs decode.schema, schema_file, inferred_schema"),
        (Decode(options={"shema": "x"}), "decode.shema = 'x': format json has the options"),
        (Decode(options={"schema": "id x"}), "decode.schema = 'id x': x is no type"),
        (Decode(options={"schema": 5}), "decode.schema = 5: it is a text"),
        (Decode(options={"sample": True}), "decode.sample = True: it is a whole number"),
        (Decode(options={"sample": 0}), "decode.sample = 0: it is more than 0"),
        (
            Decode(options={"schema": "a int", "inferred_schema": "x"}),
            "decode.inferred_schema = 'x': decode.schema is given too",
        ),
        (Decode("csv"), "decode.format = 'csv': it needs decode.schema"),
        (
            Decode("csv", options={"schema": "a array<int>"}),
            "decode.schema = 'a array<int>': columns of CSV are no struct",
        ),
        (Decode("csv", options={"schema": "a int", "quote": "ab"}), "decode.quote = 'ab': it is"),
        (Decode("text", registry="http://x"), "decode.registry = 'http://x': a registry is for"),
        (Decode("avro", registry="x:1"), "decode.registry = 'x:1': it is http://HOST:PORT"),
        (
            Decode("avro", options={"subject": "x"}),
            "decode.subject = 'x': it needs decode.registry",
        ),
        (Decode("avro", options={"schema": record(x="R")}), "recursive"),
        (
            Decode(options={"schema_file": "/no/such"}),
            "decode.schema_file = '/no/such': it can't be",
        ),
        (
            Decode("protobuf", options={"schema_file": "/no/such"}),
            "decode.schema_file = '/no/such'",
        ),
    ],
)
def test_a_wrong_setting_is_named_before_spark_starts(settings: Decode, line: str) -> None:
    """Its key, its value, and what is allowed."""
    with pytest.raises(WrongSetting) as caught:
        check(settings)
    assert line in str(caught.value)


def test_settings_that_work(tmp_path: Path) -> None:
    """Each format's; the subject is a template."""
    path = tmp_path / "schema.json"
    path.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    check(Decode(options={"schema": "a int"}))
    check(Decode(options={"schema_file": str(path)}))
    check(Decode(options={"inferred_schema": "s3a://bucket/schema.json"}))
    check(Decode("text"))
    check(Decode("bytes", key="text"))
    settings = Decode("avro", registry="http://u:p@x:8081/path", options={"registry_timeout_s": 1})
    check(settings)
    options = options_of(settings)
    assert options.subject("orders") == "orders-value"
    assert options.registry is not None
    assert (options.registry.timeout_s, options.registry.address) == (1.0, "http://x:8081/path")
    named = Decode("avro", registry="http://x", options={"subject": "{topic}-a.Order"})
    assert options_of(named).subject("orders") == "orders-a.Order"
