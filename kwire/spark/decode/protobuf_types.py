"""The Spark type of a Protobuf message.

==================================  =====================================================
Protobuf                            Spark
==================================  =====================================================
int32, sint32, sfixed32             int
int64, sint64, sfixed64             bigint
uint32, fixed32                     bigint
uint64, fixed64                     decimal(20,0)
float, double, bool, string, bytes  the same (bytes: binary)
enum                                string: its name, or the number if it has none
message, repeated, map              struct, array, map
oneof                               a nullable column for each of its fields
google.protobuf.Timestamp           timestamp (microseconds)
google.protobuf.Duration            bigint (microseconds)
wrappers (Int32Value, …)            the scalar, nullable
Struct, Value, ListValue            string (JSON)
==================================  =====================================================

Fields with presence (``optional``, messages, oneof) are nullable; others have their default.
"""

from collections.abc import Iterator
from typing import Any

from kwire.schemas.undecodable import WrongSchema
from kwire.spark.decode.avro_schema import MAX_NODES
from kwire.spark.decode.spark_types import SparkType, array, field, map_of, struct

# FieldDescriptor.TYPE_…: fixed numbers of descriptor.proto.
SCALARS: dict[int, SparkType] = {
    1: "double",
    2: "float",
    3: "long",
    4: "decimal(20,0)",
    5: "integer",
    6: "decimal(20,0)",
    7: "long",
    8: "boolean",
    9: "string",
    12: "binary",
    13: "long",
    14: "string",
    15: "integer",
    16: "long",
    17: "integer",
    18: "long",
}
UINT64, FIXED64, ENUM = 4, 6, 14

WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
JSON_LIKE = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"

Descriptor = Any
"""A google.protobuf.descriptor.Descriptor."""


def row_type(message: Descriptor) -> dict[str, Any]:
    """The struct of a message; WrongSchema for one that is recursive or has no field.

    Beside what Spark's types have, a field has Protobuf's ``number`` and ``kind`` (its type), and
    what ``versions`` says: ``oneof`` and ``unset``.
    """
    return _Mapping().message(message)


def is_map(one: Any) -> bool:
    """Whether a field is a map."""
    return one.message_type is not None and bool(one.message_type.GetOptions().map_entry)


def _presence(one: Any) -> dict[str, Any]:
    """When a field has no value, beside null."""
    if one.containing_oneof is not None:
        return {"oneof": sorted(other.number for other in one.containing_oneof.fields)}
    if one.has_presence:
        return {}
    if one.type == ENUM and not one.is_repeated:
        numbers = {value.number: value.name for value in reversed(one.enum_type.values)}
        return {"unset": numbers.get(0, "0")}
    return {"unset": ""}


class _Mapping:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._nodes = 0

    def message(self, message: Descriptor) -> dict[str, Any]:
        """A struct of a message's fields."""
        name = message.full_name
        if name in self._open:
            trail = " → ".join([*self._open, name])
            raise WrongSchema(f"it is recursive ({trail}), and Spark has no such type")
        if not message.fields:
            raise WrongSchema(f"message {name} has no field, and Spark has no empty struct")
        self._open.append(name)
        fields = list(self._fields(message))
        self._open.pop()
        return struct(fields)

    def _fields(self, message: Descriptor) -> Iterator[dict[str, Any]]:
        for one in message.fields:
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise WrongSchema(f"it has more than {MAX_NODES} columns")
            found = field(one.name, self._field(one), nullable=one.has_presence)
            yield found | {"number": one.number, "kind": one.type} | _presence(one)

    def _field(self, one: Any) -> SparkType:
        if is_map(one):
            entry = one.message_type.fields_by_name
            return map_of(self._single(entry["key"]), self._single(entry["value"]), nullable=False)
        single = self._single(one)
        return array(single, nullable=False) if one.is_repeated else single

    def _single(self, one: Any) -> SparkType:
        message = one.message_type
        if message is None:
            return SCALARS[one.type]
        if message.full_name in WRAPPERS:
            return SCALARS[message.fields_by_name["value"].type]
        if message.full_name in JSON_LIKE:
            return "string"
        if message.full_name == TIMESTAMP:
            return "timestamp"
        if message.full_name == DURATION:
            return "long"
        return self.message(message)
