"""The defaults of an Avro schema's fields, as the values that fastavro would have read.

fastavro hands out a default as it stands in the schema's JSON. Here the schema gets values in their
place, so a default and a value that was written go through the same conversion.

Rules, which are those of Avro's specification and of its Java library:

- Bytes and fixed are texts, each character of which is a byte (ISO-8859-1).
- A float or a double may also be the text ``NaN``, ``INF``, ``-INF``, ``Infinity`` or
  ``-Infinity``, because JSON has no such numbers. Java refuses these schemas.
- A union's default is of the first type that it fits. A text is a number only if no type is a text.
- A record's default may leave out fields that have defaults of their own.
- A default that isn't of its type is none: values that need it can't be decoded. The length of a
  fixed is a part of its type. (Java cuts it, or fills it with zeros.)
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kwire.schemas.avro_names import NAMED, Schema
from kwire.schemas.undecodable import WrongSchema
from kwire.spark.decode.avro_schema import MAX_NODES
from kwire.spark.decode.avro_types import Names, kind_of, logical_of

_RANGES = {"int": 1 << 31, "long": 1 << 63}
_NOT_FINITE = {
    "NaN": float("nan"),
    **dict.fromkeys(("INF", "Infinity"), float("inf")),
    **dict.fromkeys(("-INF", "-Infinity"), float("-inf")),
}


class WrongDefault(WrongSchema):
    """A default that isn't of its field's type."""


def parsed(schema: Schema, *, with_defaults: bool = True) -> Schema:
    """The schema as fastavro uses it; without defaults it is good for a writer only."""
    import fastavro

    found = fastavro.parse_schema(_bare(schema))
    if with_defaults:
        names = Names(schema)
        for record, read in zip(_records(schema), _records(found), strict=True):
            for given, one in zip(record["fields"], read["fields"], strict=True):
                if "default" in given:
                    with suppress(WrongDefault):
                        one["default"] = _Value(names).of(given["type"], given["default"])
    return found


def check_defaults(schema: Schema) -> None:
    """WrongDefault for the first default that isn't of its type."""
    names = Names(schema)
    for record in _records(schema):
        for one in record["fields"]:
            if "default" in one:
                try:
                    _Value(names).of(one["type"], one["default"])
                except WrongDefault as error:
                    place = f"{record['name']}.{one['name']}"
                    raise WrongDefault(f"the default of {place} is wrong: {error}") from error


def _parts(schema: Schema) -> Iterator[Schema]:
    """The types that stand within a type."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        yield from (one["type"] for one in schema.get("fields", ()))
        yield from (schema[name] for name in ("items", "values") if name in schema)


def _records(schema: Schema) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict) and "fields" in schema:
        yield schema
    for one in _parts(schema):
        yield from _records(one)


def _bare(schema: Schema) -> Schema:
    """A copy of the schema without the defaults of fields: fastavro checks them by other rules."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {**schema}
    for name in ("items", "values"):
        if name in found:
            found[name] = _bare(found[name])
    if "fields" in found:
        found["fields"] = [
            {key: value for key, value in one.items() if key != "default"}
            | {"type": _bare(one["type"])}
            for one in schema["fields"]
        ]
    return found


class _Value:
    """Makes a value of a default; counts its parts, so that no schema fills the memory."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._count = 0

    def of(self, schema: Schema, given: Any) -> Any:
        """The value as fastavro reads it; WrongDefault."""
        self._count += 1
        if self._count > MAX_NODES:
            raise WrongDefault(f"it has more than {MAX_NODES} parts")
        schema = self._names(schema)
        if isinstance(schema, list):
            return self._union(schema, given)
        kind = kind_of(schema)
        if kind in ("record", "error") and isinstance(given, dict):
            return {one["name"]: self._field(one, given) for one in schema["fields"]}
        if kind == "array" and isinstance(given, list):
            return [self.of(schema["items"], one) for one in given]
        if kind == "map" and isinstance(given, dict):
            return {key: self.of(schema["values"], one) for key, one in given.items()}
        return _scalar(schema, kind, given)

    def _field(self, field: dict[str, Any], given: dict[str, Any]) -> Any:
        if field["name"] in given:
            return self.of(field["type"], given[field["name"]])
        if "default" in field:
            return self.of(field["type"], field["default"])
        raise WrongDefault(f"field {field['name']} is missing, and has no default of its own")

    def _union(self, union: list[Schema], given: Any) -> Any:
        """The value by the first type that it fits, with the type's name where it has one."""
        schemas = [self._names(one) for one in union]
        if isinstance(given, str):
            schemas.sort(key=lambda one: kind_of(one) in ("float", "double"))
        for one in schemas:
            try:
                found = self.of(one, given)
            except WrongDefault:
                continue
            return (one["name"], found) if kind_of(one) in NAMED else found
        raise WrongDefault(f"{given!r:.80} fits no type of the union")


def _scalar(schema: Schema, kind: str, given: Any) -> Any:
    import fastavro

    raw = _raw(schema, kind, given)
    read = fastavro.read.LOGICAL_READERS.get(f"{kind}-{logical_of(schema)}")
    if read is None:
        return raw
    try:
        return read(raw, schema)
    except (ValueError, ArithmeticError) as error:
        raise WrongDefault(f"{given!r:.80} is no {logical_of(schema)}: {error}") from error


def _raw(schema: Schema, kind: str, given: Any) -> Any:
    """The value without its logical type."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if (kind == "null" and given is None) or (kind == "boolean" and isinstance(given, bool)):
        return given
    if kind in _RANGES and is_number and isinstance(given, int):
        if -_RANGES[kind] <= given < _RANGES[kind]:
            return given
    elif kind in ("float", "double"):
        if is_number:
            return _float(given)
        if isinstance(given, str) and given in _NOT_FINITE:
            return _NOT_FINITE[given]
    elif isinstance(given, str) and _is_text_of(schema, kind, given):
        return given.encode("iso-8859-1") if kind in ("bytes", "fixed") else given
    raise WrongDefault(f"{given!r:.80} is no {kind}")


def _float(given: float) -> float:
    try:
        return float(given)
    except OverflowError as error:
        raise WrongDefault(f"{given!r:.80} is too large for a number") from error


def _is_text_of(schema: Schema, kind: str, given: str) -> bool:
    if kind == "enum":
        return given in schema["symbols"]
    if kind == "string":
        return True
    is_bytes = all(ord(one) < 256 for one in given)
    return is_bytes and (kind == "bytes" or (kind == "fixed" and len(given) == schema["size"]))
