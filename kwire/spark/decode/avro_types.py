"""The Spark type of an Avro schema.

===================================  =====================================================
Avro                                 Spark
===================================  =====================================================
int, long, float, double, boolean    the same
string, enum, uuid                   string
bytes, fixed, duration               binary
decimal                              decimal; string with more than 38 digits
date                                 date
timestamp-millis, -micros, -nanos    timestamp (microseconds)
local-timestamp-…                    timestamp_ntz
time-millis, time-micros             int (ms), bigint (µs): not every Spark has a time of day
record, array, map                   struct, array, map
union of null and one type           that type, nullable
union of int and long, or of float   bigint, double
and double
null alone                           string, always null
other unions                         a struct with a column for each type: member_string, …
===================================  =====================================================
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kwire.schemas.avro_names import Schema
from kwire.schemas.undecodable import WrongSchema
from kwire.spark.decode.avro_schema import MAX_NODES, as_record
from kwire.spark.decode.spark_types import SparkType, array, decimal, field, map_of, struct

_PLAIN: dict[str, SparkType] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
    "null": "string",
}

_LOGICAL: dict[tuple[str, str], SparkType] = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "timestamp-nanos"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "local-timestamp-nanos"): "timestamp_ntz",
}


class Branch(NamedTuple):
    """A type of a union other than null: its column and its schema."""

    column: str
    schema: Schema


def kind_of(schema: Schema) -> str:
    """The Avro type's name; "union" for a list."""
    if isinstance(schema, list):
        return "union"
    return str(schema if isinstance(schema, str) else schema["type"])


def logical_of(schema: Schema) -> str:
    """The logical type's name, or an empty text."""
    return str(schema.get("logicalType", "")) if isinstance(schema, dict) else ""


class Names:
    """The named types of a schema, which stand in full only where they are first used."""

    def __init__(self, schema: Schema) -> None:
        self._known: dict[str, Schema] = {}
        self._record_named_types(schema)

    def _record_named_types(self, schema: Schema) -> None:
        if isinstance(schema, list):
            for one in schema:
                self._record_named_types(one)
        elif isinstance(schema, dict):
            if "name" in schema:
                self._known[schema["name"]] = schema
            for one in schema.get("fields", ()):
                self._record_named_types(one["type"])
            self._record_named_types(schema.get("items"))
            self._record_named_types(schema.get("values"))

    def __call__(self, schema: Schema) -> Schema:
        """The type itself, if a name stands for it."""
        return self._known.get(schema, schema) if isinstance(schema, str) else schema


def branches_of(union: list[Schema], names: Names) -> list[Branch]:
    """The types of a union except null; int and long give one type, float and double another."""
    plain = {kind_of(one) for one in union if not logical_of(one)}
    found: dict[str, Schema] = {}
    for one in map(names, union):
        kind = kind_of(one)
        if kind == "null" or (kind == "int" and not logical_of(one) and "long" in plain):
            continue
        if kind == "float" and "double" in plain:
            continue
        named = one["name"].rpartition(".")[2] if isinstance(one, dict) and "name" in one else kind
        column = f"member_{named}"
        while column in found:
            column += "_"
        found[column] = one
    return [Branch(column, schema) for column, schema in found.items()]


def row_type(schema: Schema) -> dict[str, Any]:
    """The struct of a value's columns; a value that is no record has the one column ``value``.

    Beside what Spark's types have, a field has ``aliases``, and the struct of a union ``union``;
    fields, arrays and maps of nanoseconds have the ``unit``.
    """
    of = _Mapping(Names(schema)).type(as_record(schema))
    assert isinstance(of, dict)
    return of


class _Mapping:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._nodes = 0

    def column(self, schema: Schema) -> tuple[SparkType, bool]:
        """A type, and whether its values may be null."""
        if not isinstance(schema, list):
            return self.type(schema), kind_of(schema) == "null"
        nullable = any(kind_of(one) == "null" for one in schema)
        branches = branches_of(schema, self._names)
        if not branches:
            return "string", True
        if len(branches) == 1:
            return self.type(branches[0].schema), nullable
        members = [
            field(one.column, self.type(one.schema)) | self._unit(one.schema) for one in branches
        ]
        return struct(members) | {"union": True}, nullable

    def type(self, schema: Schema) -> SparkType:
        """The type of a schema that is no union."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise WrongSchema(f"it has more than {MAX_NODES} columns")
        schema = self._names(schema)
        kind = kind_of(schema)
        if kind in ("record", "error"):
            return struct(list(self._fields(schema)))
        if kind == "array":
            of, nullable = self.column(schema["items"])
            return array(of, nullable=nullable) | self._unit(schema["items"])
        if kind == "map":
            of, nullable = self.column(schema["values"])
            return map_of("string", of, nullable=nullable) | self._unit(schema["values"])
        return _scalar(schema, kind)

    def _unit(self, schema: Schema) -> dict[str, Any]:
        """The unit of numbers that fastavro leaves as they were written, see ``versions``."""
        branches = branches_of(schema, self._names) if isinstance(schema, list) else []
        schema = branches[0].schema if len(branches) == 1 else schema
        logical = logical_of(self._names(schema))
        return {"unit": logical} if logical.endswith("-nanos") else {}

    def _fields(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for one in schema["fields"]:
            of, nullable = self.column(one["type"])
            found = field(one["name"], of, nullable=nullable) | self._unit(one["type"])
            yield found | {"aliases": one["aliases"]} if one.get("aliases") else found


def _scalar(schema: Schema, kind: str) -> SparkType:
    logical = logical_of(schema)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        try:
            return decimal(int(schema["precision"]), int(schema.get("scale", 0)))
        except (KeyError, TypeError, ValueError) as error:
            raise WrongSchema("a decimal has no precision") from error
    found = _LOGICAL.get((kind, logical)) or _PLAIN.get(kind)
    if found is None:
        raise WrongSchema(f"{kind} is no type of Avro")
    return found
