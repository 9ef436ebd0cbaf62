"""Converts fastavro's values into values that pyarrow takes for the Spark types of ``avro_types``.

A converter is a function, or None if fastavro's value already fits. So most columns need no further
call.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from kwire.schemas.avro_names import Schema
from kwire.spark.decode.avro_types import Branch, Names, branches_of, kind_of, logical_of
from kwire.spark.decode.spark_types import MAX_PRECISION

Converter = Callable[[Any], Any]

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes, Decimal),
    "fixed": (bytes, Decimal),
    "string": (str, UUID),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
}
_TEMPORAL: dict[str, type] = {
    "date": datetime.date,
    "time-millis": datetime.time,
    "time-micros": datetime.time,
    "timestamp-millis": datetime.datetime,
    "timestamp-micros": datetime.datetime,
    "local-timestamp-millis": datetime.datetime,
    "local-timestamp-micros": datetime.datetime,
}
"""What fastavro makes of numbers with a logical type; the others stay numbers."""


def row_converter(schema: Schema) -> Converter | None:
    """Makes the columns of a value that is a record, see ``avro_types.row_type``."""
    names = Names(schema)
    return _record(names(schema), names, is_own=True)


def has_choices(schema: Schema) -> bool:
    """Whether a union has several types beside null: fastavro then names the type that it read."""
    names = Names(schema)
    seen: set[str] = set()

    def search(schema: Schema) -> bool:
        schema = names(schema)
        if isinstance(schema, list):
            return len(branches_of(schema, names)) > 1 or any(map(search, schema))
        if not isinstance(schema, dict) or schema.get("name") in seen:
            return False
        if "name" in schema:
            seen.add(schema["name"])
        parts = [part["type"] for part in schema.get("fields", ())]
        return any(map(search, [*parts, schema.get("items"), schema.get("values")]))

    return search(schema)


def _converter(schema: Schema, names: Names) -> Converter | None:
    schema = names(schema)
    kind = kind_of(schema)
    if kind == "union":
        return _union(branches_of(schema, names), names)
    if kind in ("record", "error"):
        return _record(schema, names)
    if kind in ("array", "map"):
        return _collection(schema, kind, names)
    return _scalar(schema, kind, logical_of(schema))


def _record(schema: Any, names: Names, *, is_own: bool = False) -> Converter | None:
    inner = [(one["name"], _converter(one["type"], names)) for one in schema["fields"]]
    changed = [(name, change) for name, change in inner if change is not None]
    if not changed:
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        if not is_own:
            value = value.copy()  # it may be a default, which fastavro hands out again and again
        for name, change in changed:
            value[name] = change(value[name])
        return value

    return convert


def _collection(schema: Any, kind: str, names: Names) -> Converter | None:
    change = _converter(schema["items" if kind == "array" else "values"], names)
    if kind == "array":
        return None if change is None else lambda value: [change(one) for one in value]
    if change is None:
        return lambda value: list(value.items())
    return lambda value: [(key, change(one)) for key, one in value.items()]


def _union(branches: list[Branch], names: Names) -> Converter | None:
    changes = {one.column: _converter(one.schema, names) for one in branches}
    if len(branches) > 1:
        return _choice(branches, changes)
    if not branches:
        return None
    [change] = changes.values()
    named = kind_of(branches[0].schema) in ("record", "error", "enum", "fixed")
    if change is None and not named:
        return None

    def convert(value: Any) -> Any:
        value = value[1] if isinstance(value, tuple) else value
        return value if value is None or change is None else change(value)

    return convert


def _choice(branches: list[Branch], changes: dict[str, Converter | None]) -> Converter:
    by_name = {
        one.schema["name"]: one.column
        for one in branches
        if isinstance(one.schema, dict) and "name" in one.schema
    }
    by_type = [(one.column, _is_of(one.schema)) for one in branches]

    def column_of(value: Any) -> str:
        for column, is_of in by_type:
            if is_of(value):
                return column
        raise ValueError(f"a {type(value).__name__} fits no type of a union")

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple):
            name, value = value
            column = by_name[name]
        else:
            column = column_of(value)
        change = changes[column]
        return {column: value if change is None else change(value)}

    return convert


def _is_of(schema: Schema) -> Callable[[Any], bool]:
    """Whether fastavro's value may be one of a type."""
    kind, logical = kind_of(schema), logical_of(schema)
    if kind not in ("int", "long"):
        types = _PYTHON_TYPES[kind]
        is_truth = bool in types
        return lambda value: isinstance(value, types) and is_truth == (type(value) is bool)
    # The exact type: a datetime is a date, and a bool an int.
    temporal = _TEMPORAL.get(logical)
    end = 1 << (31 if kind == "int" else 63)
    return lambda value: -end <= value < end if type(value) is int else type(value) is temporal


def _scalar(schema: Schema, kind: str, logical: str) -> Converter | None:
    if kind == "string" and logical == "uuid":
        return str
    if kind in ("int", "long"):
        return _LOGICAL_NUMBERS.get(logical)
    if logical == "decimal":
        return str if int(schema["precision"]) > MAX_PRECISION else None
    return None


def _time_ms(value: Any) -> int:
    return value if isinstance(value, int) else _micros_of_day(value) // 1000


def _time_us(value: Any) -> int:
    return value if isinstance(value, int) else _micros_of_day(value)


def _micros_of_day(value: datetime.time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _from_millis(value: Any) -> Any:
    return value * 1000 if isinstance(value, int) else value


def _from_nanos(value: Any) -> Any:
    return value // 1000 if isinstance(value, int) else value


# fastavro converts by the writer's schema: where that has no logical type, numbers come as they
# were written, and the reader's schema says what they mean.
_LOGICAL_NUMBERS: dict[str, Converter] = {
    "time-millis": _time_ms,
    "time-micros": _time_us,
    "timestamp-millis": _from_millis,
    "timestamp-nanos": _from_nanos,
    "local-timestamp-millis": _from_millis,
    "local-timestamp-nanos": _from_nanos,
}
