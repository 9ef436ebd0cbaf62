"""Debezium's events whose schemas are in a registry; these tests start no Spark.

The promise: an event in Avro or Protobuf is the same change as in JSON with its schema.
"""

import datetime
import io
import json
import math
import struct
from base64 import b64encode
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from kwire.schemas.protobuf_compiler import compile_text
from kwire.schemas.wire_format import header
from kwire.spark.decode import check
from kwire.spark.decode.debezium import DebeziumDecoder
from kwire.spark.decode.in_python import line_of
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import debezium_plan, given_struct
from kwire.spark.decode.protobuf_decoder import ProtobufReader
from kwire.spark.settings import Decode, WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.connect_avro import AvroConverter
from tests.support.debezium import (
    CONNECT,
    PLACEHOLDER,
    TIME,
    Record,
    SourceTable,
    decimal,
    schema,
)

VARIABLE = schema(
    "struct",
    "io.debezium.data.VariableScaleDecimal",
    fields=[
        {**schema("int32", optional=False), "field": "scale"},
        {**schema("bytes", optional=False), "field": "value"},
    ],
)
POINT = schema(
    "struct",
    "io.debezium.data.geometry.Point",
    fields=[{**schema("double"), "field": "x"}, {**schema("bytes"), "field": "wkb"}],
)
TEXT, WHOLE = schema("string"), schema("int32")

DDL = (
    "id INT NOT NULL, price DECIMAL(10,2), any DECIMAL(20,6), born DATE, day DATE, at TIMESTAMP, "
    "ms TIMESTAMP, ns TIMESTAMP, zoned TIMESTAMP, clock BIGINT, t STRING, f FLOAT, d DOUBLE, "
    "raw BINARY, raw_text STRING, yes BOOLEAN, note STRING, tags ARRAY<STRING>, "
    "sizes MAP<STRING, DOUBLE>, by_number MAP<INT, STRING>, point STRUCT<x: DOUBLE, wkb: BINARY>, "
    "point_text STRING, price_text STRING, large BIGINT"
)
COLUMNS: dict[str, dict[str, Any]] = {
    "id": schema("int32", optional=False),
    "price": decimal(2, 10),
    "any": VARIABLE,
    "born": schema("int32", f"{TIME}Date"),
    "day": schema("int32", f"{CONNECT}Date"),
    "at": schema("int64", f"{TIME}MicroTimestamp"),
    "ms": schema("int64", f"{CONNECT}Timestamp"),
    "ns": schema("int64", f"{TIME}NanoTimestamp"),
    "zoned": schema("string", f"{TIME}ZonedTimestamp"),
    "clock": schema("int64", f"{TIME}MicroTime"),
    "t": schema("int32", f"{CONNECT}Time"),
    "f": schema("float"),
    "d": schema("double"),
    "raw": schema("bytes"),
    "raw_text": schema("bytes"),
    "yes": schema("boolean"),
    "note": TEXT,
    "tags": schema("array", items=TEXT),
    "sizes": schema("map", keys=schema("string", optional=False), values=schema("double")),
    "by_number": schema("map", keys=schema("int32", optional=False), values=TEXT),
    "point": POINT,
    "point_text": {**POINT, "name": "Other"},
    "price_text": decimal(3, 20),
    "large": schema("int64"),
}


def base64(content: bytes) -> str:
    """Bytes as the JSON converter writes them."""
    return b64encode(content).decode()


ROW: dict[str, Any] = {
    "id": 1,
    "price": base64((-1250).to_bytes(2, "big", signed=True)),
    "any": {"scale": 3, "value": base64(b"\x30\x39")},
    "born": 7300,
    "day": -1,
    "at": 1_769_864_645_000_001,
    "ms": 1_769_864_645_001,
    "ns": 1_769_864_645_000_001_000,
    "zoned": "2026-01-31T13:04:05.000001Z",
    "clock": 1_000_005,
    "t": 3_600_001,
    "f": 0.10000000149011612,
    "d": 0.1,
    "raw": base64(b"\x00\xff"),
    "raw_text": base64(b"\x00\xff"),
    "yes": True,
    "note": "é",
    "tags": ["a", None],
    "sizes": {"s": 1.5, "n": None},
    "by_number": [[5, "five"], [6, None]],
    "point": {"x": 1e300, "wkb": base64(b"p")},
    "point_text": {"x": 2.5, "wkb": base64(b"q")},
    "price_text": base64((10**18).to_bytes(9, "big")),
    "large": 2**62,
}
EMPTY = {name: 2 if name == "id" else None for name in COLUMNS}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


def decoder_of(ddl: str, registry: str = "", **options: Any) -> DebeziumDecoder:
    """The decoder of a pipeline's settings."""
    settings = Decode("debezium", registry=registry, options={"schema": ddl, **options})
    check(settings)
    found = options_of(settings)
    of = given_struct(found)
    assert of is not None
    return debezium_plan(of, found).decoder()


def outcome(decoder: DebeziumDecoder, record: Record) -> Any:
    """What a record changes, or its error."""
    try:
        return decoder.change(*record)
    except Exception as error:  # as the workers do
        return line_of(error)


def events() -> list[Record]:
    """All kinds of events, of rows with all types and of rows with none."""
    table = SourceTable("t", COLUMNS)
    return [
        table.create(ROW, "r"),
        table.create(EMPTY),
        table.update(ROW, before=EMPTY),
        table.update({**ROW, "note": PLACEHOLDER, "raw": base64(PLACEHOLDER.encode())}, before=ROW),
        table.update({**ROW, "note": PLACEHOLDER, "raw": base64(PLACEHOLDER.encode())}),
        table.create({**ROW, "price": base64((10**12).to_bytes(6, "big"))}),
        *table.update_key(ROW, {**ROW, "id": 3}),
        *table.delete(ROW, is_full=True),
        table.truncate(),
    ]


def test_avro_is_as_json_with_its_schema(registry: SchemaRegistry) -> None:
    """Every type, with the serializer of confluent-kafka; keys too."""
    converter = AvroConverter(registry.url)
    in_json, in_avro = decoder_of(DDL), decoder_of(DDL, registry.url)
    found = [outcome(in_avro, converter.record(one)) for one in events()]
    assert found == [outcome(in_json, one) for one in events()]
    row = found[0].row
    assert (row["price"], row["any"]) == (Decimal("-12.50"), Decimal("12.345000"))
    assert (row["f"], row["d"], row["raw"]) == (ROW["f"], 0.1, b"\x00\xff")
    assert found[4].unchanged == ["raw", "note"]
    assert "has more digits" in found[5]
    assert {one[0] for one in found if not isinstance(one, str)} == {"r", "c", "u", "d", "t"}


def test_avro_of_other_writers(registry: SchemaRegistry) -> None:
    """Logical types say what values mean, where Connect's names don't; what isn't finite is so."""
    types = {
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "born": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "t": {"type": "int", "logicalType": "time-millis"},
        "f": "float",
        "d": "double",
        "kind": {"type": "enum", "name": "K", "symbols": ["A", "B"]},
        "any": ["null", "int", "double", "string"],
    }
    fields = [{"name": one, "type": of} for one, of in types.items()]
    row = {"type": "record", "name": "V", "fields": fields}
    parts = [{"name": "op", "type": "string"}, {"name": "after", "type": row}]
    envelope = {"type": "record", "name": "E", "fields": parts}
    number = registry.register("shop-value", json.dumps(envelope))
    after = {"price": b"\x04\xe2", "born": 1, "at": 1_000_001, "t": 1, "f": 0.1, "d": -math.inf}
    after |= {"kind": "B", "any": 0.5}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, envelope, {"op": "c", "after": after})
    ddl = "price DECIMAL(10,2), born DATE, at TIMESTAMP, t STRING, f DOUBLE, d DOUBLE, kind STRING"
    decoder = decoder_of(f"{ddl}, any STRING", registry.url)
    assert decoder.change(None, header(number) + stream.getvalue()).row == {
        "price": Decimal("12.50"),
        "born": datetime.date(1970, 1, 2),
        "at": 1_000_001,
        "t": "00:00:00.001",
        "f": 0.1,
        "d": -math.inf,
        "kind": "B",
        "any": "0.5",
    }


def test_json_and_keys_of_other_converters(registry: SchemaRegistry) -> None:
    """JSON with an id is like JSON without a schema; a key without an id is JSON."""
    number = registry.register("shop-value", '{"type": "object"}', "JSON")
    decoder = decoder_of("id INT, at TIMESTAMP", registry.url, timestamps="microseconds")
    event = b'{"op": "c", "after": {"id": 1, "at": 5}}'
    assert decoder.change(b'{"id": 1}', header(number) + event).row == {"id": 1, "at": 5}
    assert decoder.change(b'{"id": 1}', None).row == {"id": 1, "at": None}
    assert decoder.change(header(number) + b'{"id": 1}', None).row == {"id": 1, "at": None}


def test_what_cannot_be_decoded(registry: SchemaRegistry) -> None:
    """Each has a reason, and only what the registry may know later is worth a retry."""
    number = registry.register("shop-value", '"string"')
    twice = 'syntax = "proto3"; message A { A a = 1; string op = 2; }'
    recursive = registry.register("a", twice, "PROTOBUF")
    broken = registry.keep("b", "no proto", "PROTOBUF")
    decoder = decoder_of("id INT", registry.url)
    for value, error in {
        b"{}": "value: 2 bytes are too short for a schema id",
        b'{"op": "c", "after": {}}': "value: the first byte is 123, not 0: it isn't in a registry'",
        header(999) + b"x": f"registry: {registry.url}, asked for schema id 999, ",
        header(number) + b"\x02x": "value: it is no envelope of Debezium",
        header(number) + b"\x02xy": "value: 1 bytes are left over",
        header(number) + b"\x08x": "value: it ends, or holds a wrong index",
        header(recursive, (0,)): f"value: schema id {recursive}: a message A contains itself",
        header(broken, (0,)): f"value: schema id {broken}: protoc: ",
        b"": "value: it is empty",
    }.items():
        assert outcome(decoder, (None, value)).startswith(error), value
    with pytest.raises(WrongSetting, match=r"it needs decode\.schema"):
        check(Decode("debezium", registry=registry.url))
    away = decoder_of("id INT", "http://127.0.0.1:1", registry_timeout_s=0.2)
    assert outcome(away, (None, header(1) + b"x")).startswith("registry: ")


PROTO = """syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
message Key { int32 id = 1; }
message Envelope {
  Value before = 1;
  Value after = 2;
  string op = 3;
  int64 ts_ms = 4;
  message Value {
    int32 id = 1 [(confluent.field_meta) = { params: [{key: "connect.type", value: "int16"}] }];
    confluent.type.Decimal price = 2;
    google.type.Date born = 3;
    google.type.TimeOfDay t = 4;
    google.protobuf.Timestamp ms = 5;
    int64 at = 6;
    optional string note = 7;
    google.protobuf.StringValue text = 8;
    float f = 9;
    bytes raw = 10;
    repeated string tags = 11;
    map<string, Point> points = 12;
    uint64 large = 13;
  }
  message Point { double x = 1; }
}
"""
PROTO_DDL = (
    "id INT, price DECIMAL(10,2), born DATE, t STRING, ms TIMESTAMP, at TIMESTAMP, note STRING, "
    "text STRING, f FLOAT, raw BINARY, tags ARRAY<STRING>, points MAP<STRING, STRUCT<x: DOUBLE>>, "
    "large DECIMAL(20,0)"
)


def test_protobuf(registry: SchemaRegistry) -> None:
    """Messages of days, times and decimals say what they mean, numbers by the settings."""
    from google.protobuf import json_format, message_factory

    number = registry.register("shop-value", PROTO, "PROTOBUF")

    def written(name: str, index: int, fields: dict[str, Any]) -> bytes:
        found = ProtobufReader(compile_text(PROTO), f"shop.{name}").descriptor()
        message = json_format.ParseDict(fields, message_factory.GetMessageClass(found)())
        content: bytes = message.SerializeToString()
        return header(number, (index,)) + content

    row = {
        "id": 1,
        "price": {"value": base64((-1250).to_bytes(2, "big", signed=True)), "scale": 2},
        "born": {"year": 2026, "month": 1, "day": 31},
        "t": {"hours": 1, "seconds": 2, "nanos": 1000},
        "ms": "2026-01-31T13:04:05.001Z",
        "at": 1_000_001,
        "text": "",
        "f": 0.1,
        "raw": base64(b"\x00\xff"),
        "tags": ["a"],
        "points": {"p": {"x": 0.1}},
        "large": 2**64 - 1,
    }
    decoder = decoder_of(PROTO_DDL, registry.url, timestamps="microseconds")
    key = written("Key", 0, {"id": 1})
    event = decoder.change(key, written("Envelope", 1, {"op": "u", "after": row}))
    at = datetime.datetime(2026, 1, 31, 13, 4, 5, 1000, datetime.UTC)
    assert event.row == {
        "id": 1,
        "price": Decimal("-12.50"),
        "born": datetime.date(2026, 1, 31),
        "t": "01:00:02.000001",
        "ms": int(at.timestamp() * 1000) * 1000,
        "at": 1_000_001,
        "note": None,
        "text": "",
        "f": struct.unpack("<f", struct.pack("<f", 0.1))[0],
        "raw": b"\x00\xff",
        "tags": ["a"],
        "points": [("p", {"x": 0.1})],
        "large": Decimal(2**64 - 1),
    }
    deleted = decoder.change(key, written("Envelope", 1, {"op": "d", "before": {"id": 1}}))
    assert (deleted.op, deleted.row["id"], deleted.row["price"]) == ("d", 1, None)
    assert decoder.change(key, None).row["id"] == 1
    no_day = written("Envelope", 1, {"op": "c", "after": {"born": {"month": 13}}})
    assert outcome(decoder, (key, no_day)) == "value: 0-13-0 is no day in the years 1 to 9999"
