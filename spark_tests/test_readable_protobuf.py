"""Messages of Protobuf as the page shows them; only Spark's environment has the packages for it."""

import json
import time

import pytest

from kwire.schemas.readable import ReadableValues
from kwire.schemas.registry import PROTOBUF, RegistrySettings
from kwire.schemas.undecodable import Undecodable
from kwire.schemas.wire_format import header
from kwire.testing.schema_registry import SchemaRegistry

ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
ORDER = """syntax = "proto3";
package shop;
import "address.proto";
import "google/protobuf/timestamp.proto";
enum State { NEW = 0; PAID = 1; }
message Order {
  int64 id = 1;
  State state = 2;
  Address ship_to = 3;
  google.protobuf.Timestamp at = 4;
  repeated Line lines = 5;
  message Line { string sku = 1; }
}
message Bill { bytes content = 1; }
"""


def test_messages_by_their_path_in_the_schema() -> None:
    """With imports of the registry and of Protobuf; nested messages; and what is none."""
    with SchemaRegistry() as server:
        server.register("address", ADDRESS, PROTOBUF)
        uses = [{"name": "address.proto", "subject": "address", "version": 1}]
        number = server.register("orders-value", ORDER, PROTOBUF, uses)
        values = ReadableValues(RegistrySettings(server.url, attempts=1))
        values.learn([number], time.monotonic() + 60)
        at = b"\x08\x80\xe2\xcf\xaa\x06"
        content = b"\x08\x07\x10\x01\x1a\x07\x0a\x05Porto\x22\x06" + at + b"\x2a\x03\x0a\x01A"
        found = values.decoded(header(number, (0,)) + content)
        assert found.kind == "Protobuf shop.Order"
        assert json.loads(found.text) == {
            "id": "7",
            "state": "PAID",
            "ship_to": {"city": "Porto"},
            "at": "2023-11-14T22:13:20Z",
            "lines": [{"sku": "A"}],
        }
        assert (
            values.decoded(header(number, (0, 0)) + b"\x0a\x01B").kind == "Protobuf shop.Order.Line"
        )
        assert json.loads(values.decoded(header(number, (1,)) + b"\x0a\x01\xff").text) == {
            "content": "/w=="
        }
        with pytest.raises(Undecodable, match=r"no message with the indexes \[5\]"):
            values.decoded(header(number, (5,)))
        with pytest.raises(Undecodable, match=r"it is no message shop\.Order"):
            values.decoded(header(number, (0,)) + b"\x0a")
        too_late = b"\x22\x0a\x08" + b"\x80" * 8 + b"\x40"  # a time that JSON can't have
        with pytest.raises(Undecodable, match=r"it is no message shop\.Order"):
            values.decoded(header(number, (0,)) + too_late)


def test_a_schema_that_does_not_compile() -> None:
    """The first line of the compiler says why."""
    with SchemaRegistry() as server:
        number = server.keep("a", 'syntax = "proto3"; message A { B b = 1; }', PROTOBUF)
        values = ReadableValues(RegistrySettings(server.url, attempts=1))
        values.learn([number], time.monotonic() + 60)
        with pytest.raises(
            Undecodable, match=rf"its schema, id {number}: protoc: the schema:1:32: "
        ):
            values.decoded(header(number, (0,)))
