"""Spark's types as Spark writes them in JSON, made without Spark.

A type is a text ("long", "decimal(10,2)") or an object ("struct", "array", "map"), as
``StructType.jsonValue`` has it. So a schema of Avro, Protobuf or JSON Schema becomes a table's
schema before Spark starts, and in a Python worker without a JVM.
"""

from collections.abc import Sequence
from typing import Any

SparkType = str | dict[str, Any]

MAX_PRECISION = 38
"""Digits of Spark's largest decimal."""

Place = tuple[str, ...]
"""A column, or a part of its values: names of fields, ITEMS, KEYS and VALUES."""

ITEMS, KEYS, VALUES = "[]", "{key}", "{}"


def field(name: str, of: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """A column of a struct."""
    return {"name": name, "type": of, "nullable": nullable, "metadata": {}}


def struct(fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A struct; ``fields`` are made by ``field``."""
    return {"type": "struct", "fields": list(fields)}


def array(of: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """An array; ``nullable`` says whether an item may be null."""
    return {"type": "array", "elementType": of, "containsNull": nullable}


def map_of(key: SparkType, value: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """A map; ``nullable`` says whether a value may be null."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}


def decimal(precision: int, scale: int) -> str:
    """A decimal, or a string if Spark has no decimal of that precision."""
    if not 0 < precision <= MAX_PRECISION or not 0 <= scale <= precision:
        return "string"
    return f"decimal({precision},{scale})"


def is_struct(of: SparkType) -> bool:
    """Whether a type is a struct."""
    return kind_of(of) == "struct"


def kind_of(of: SparkType) -> str:
    """ "struct", "array" or "map"; the text itself for other types."""
    return of if isinstance(of, str) else str(of["type"])


UNION = "kwire.union"
"""In the metadata of the fields of a struct that stands for a union."""


def marked(of: SparkType) -> SparkType:
    """As ``loosened``, with the mark of unions, which a DataFrame's schema keeps."""
    if isinstance(of, str):
        return of
    if kind_of(of) == "struct":
        mark = {"metadata": {UNION: True}} if "union" in of else {}
        return struct([field(one["name"], marked(one["type"])) | mark for one in of["fields"]])
    if kind_of(of) == "array":
        return array(marked(of["elementType"]))
    return map_of(marked(of["keyType"]), marked(of["valueType"]))


def loosened(of: SparkType) -> SparkType:
    """The same type with every column, item and value nullable, as Spark's parsers return it.

    A user-defined type stays as it is.
    """
    if isinstance(of, str):
        return of
    if kind_of(of) == "struct":
        return struct([field(one["name"], loosened(one["type"])) for one in of["fields"]])
    if kind_of(of) == "array":
        return array(loosened(of["elementType"]))
    if kind_of(of) == "map":
        return map_of(loosened(of["keyType"]), loosened(of["valueType"]))
    return of


def has_value(value: Any, path: Place) -> bool:
    """Whether there is anything at a place of a decoded value; maps are lists of pairs."""
    if value is None or not path:
        return value is not None
    step, rest = path[0], path[1:]
    if step == ITEMS:
        return any(has_value(one, rest) for one in value)
    if step in (KEYS, VALUES):
        return any(has_value(one[step == VALUES], rest) for one in value)
    return has_value(value.get(step), rest)


def text_of(of: SparkType) -> str:
    """A type for people, as SQL writes it."""
    if isinstance(of, str):
        return {"long": "bigint", "integer": "int"}.get(of, of)
    if kind_of(of) == "struct":
        inner = ", ".join(f"{one['name']}: {text_of(one['type'])}" for one in of["fields"])
        return f"struct<{inner}>"
    if kind_of(of) == "array":
        return f"array<{text_of(of['elementType'])}>"
    return f"map<{text_of(of['keyType'])}, {text_of(of['valueType'])}>"
