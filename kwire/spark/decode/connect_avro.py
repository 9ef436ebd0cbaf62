"""Avro records of Connect's AvroConverter, as Connect's values with their schemas.

The converter writes into the Avro schema what a value means: ``connect.name`` and
``connect.parameters``. Where another program has written, Avro's logical types say it. So both are
one kind of schema to ``connect_values``, and values are what the JSON converter would have written,
but that bytes are bytes and not base64.

Rules:

- A value is read by its own schema alone. Columns are found by their names.
- Logical types aren't converted while a value is read: a number stays the number that was written.
- A union of several types beside null has no schema: its value says by itself what it is.
- Maps whose keys are no texts are arrays of entries (``connect.internal.type``).
"""

import io
from collections.abc import Callable
from typing import Any

from kwire.schemas.avro_names import Schema as AvroSchema
from kwire.schemas.undecodable import Undecodable
from kwire.spark.decode.avro_defaults import parsed
from kwire.spark.decode.avro_types import Names, kind_of, logical_of
from kwire.spark.decode.connect_values import Schema, digits, digits_of_float

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_LOGICAL = {
    "date": f"{_CONNECT}Date",
    "time-millis": f"{_CONNECT}Time",
    "time-micros": f"{_DEBEZIUM}MicroTime",
    "timestamp-millis": f"{_CONNECT}Timestamp",
    "timestamp-micros": f"{_DEBEZIUM}MicroTimestamp",
    "timestamp-nanos": f"{_DEBEZIUM}NanoTimestamp",
    "local-timestamp-millis": f"{_CONNECT}Timestamp",
    "local-timestamp-micros": f"{_DEBEZIUM}MicroTimestamp",
    "local-timestamp-nanos": f"{_DEBEZIUM}NanoTimestamp",
    "decimal": f"{_CONNECT}Decimal",
}
"""The names that stand for Avro's logical types."""

_TYPES = {"int": "int32", "long": "int64", "float": "float", "double": "double", "fixed": "bytes"}

_Converter = Callable[[Any], Any]


class ConnectAvro:
    """Reads values of one schema, an object of ``avro_schema.load``."""

    def __init__(self, whole: AvroSchema) -> None:
        import fastavro

        self._read: Callable[..., Any] = fastavro.schemaless_reader
        self._writer = parsed(_without_logical_types(whole), with_defaults=False)
        self.schema, self._convert = _converter(whole, Names(whole))

    def value(self, content: bytes, position: int) -> Any:
        """The value from a position of a record's bytes on; Undecodable."""
        stream = io.BytesIO(content)
        stream.seek(position)
        try:
            found = self._read(stream, self._writer, None)
        except (EOFError, IndexError) as error:
            raise Undecodable("it ends, or holds a wrong index, before its schema ends") from error
        if left := len(content) - stream.tell():
            raise Undecodable(f"{left} bytes are left over: it was written with another schema")
        return found if self._convert is None else self._convert(found)


def _without_logical_types(schema: AvroSchema) -> AvroSchema:
    if isinstance(schema, list):
        return [_without_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: one for name, one in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _without_logical_types(kept[name])
    if "fields" in kept:
        kept["fields"] = [
            {**one, "type": _without_logical_types(one["type"])} for one in kept["fields"]
        ]
    return kept


def _converter(schema: AvroSchema, names: Names) -> tuple[Schema, _Converter | None]:
    """The schema as Connect has it, and what has to be done to values; None: nothing."""
    schema = names(schema)
    kind = kind_of(schema)
    if kind == "union":
        return _of_union(schema, names)
    if kind in ("record", "error"):
        return _of_record(schema, names)
    if kind == "array":
        return _of_array(schema, names)
    if kind == "map":
        of, change = _converter(schema["values"], names)
        found = {"type": "map", "keys": {"type": "string"}, "values": of}
        return found, None if change is None else lambda value: {
            name: None if one is None else change(one) for name, one in value.items()
        }
    own = schema if isinstance(schema, dict) else {}
    name = own.get("connect.name") or _LOGICAL.get(logical_of(schema), "")
    of = {"type": _TYPES.get(kind, kind), "name": name}
    if name == _LOGICAL["decimal"]:
        given = own.get("connect.parameters") or {}
        of["parameters"] = {"scale": given.get("scale", own.get("scale", 0))}
    return of, {"float": digits_of_float, "double": digits}.get(kind)


def _of_union(schema: Any, names: Names) -> tuple[Schema, _Converter | None]:
    branches = [one for one in schema if kind_of(one) != "null"]
    if len(branches) != 1:
        return {}, _digits_within
    of, change = _converter(branches[0], names)
    return of, None if change is None else lambda value: None if value is None else change(value)


def _of_record(schema: Any, names: Names) -> tuple[Schema, _Converter | None]:
    fields, changes = [], {}
    for one in schema["fields"]:
        of, change = _converter(one["type"], names)
        fields.append({**of, "field": one["name"]})
        if change is not None:
            changes[one["name"]] = change
    found = {"type": "struct", "name": schema.get("connect.name", ""), "fields": fields}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: change(value[name]) for name, change in changes.items()}

    return found, convert if changes else None


def _of_array(schema: Any, names: Names) -> tuple[Schema, _Converter | None]:
    of, change = _converter(schema["items"], names)
    items = names(schema["items"])
    if isinstance(items, dict) and items.get("connect.internal.type") == "MapEntry":
        fields = {one["field"]: one for one in of["fields"]}
        found = {"type": "map", "keys": fields["key"], "values": fields["value"]}

        def pairs(value: list[Any]) -> list[Any]:
            entries = value if change is None else map(change, value)
            return [[one["key"], one["value"]] for one in entries]

        return found, pairs
    found = {"type": "array", "items": of}
    if change is None:
        return found, None
    return found, lambda value: [None if one is None else change(one) for one in value]


def _digits_within(value: Any) -> Any:
    """A value of a union, whose type nobody tells: its numbers as ``digits``."""
    if isinstance(value, float):
        return digits(value)
    if isinstance(value, list):
        return [_digits_within(one) for one in value]
    if isinstance(value, dict):
        return {name: _digits_within(one) for name, one in value.items()}
    return value
