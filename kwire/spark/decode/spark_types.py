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


def field(name: str, spark_type: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """A column of a struct."""
    return {"name": name, "type": spark_type, "nullable": nullable, "metadata": {}}


def struct(fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A struct; ``fields`` are made by ``field``."""
    return {"type": "struct", "fields": list(fields)}


def array(spark_type: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """An array; ``nullable`` says whether an item may be null."""
    return {"type": "array", "elementType": spark_type, "containsNull": nullable}


def map_of(key: SparkType, value: SparkType, *, nullable: bool = True) -> dict[str, Any]:
    """A map; ``nullable`` says whether a value may be null."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}


def decimal(precision: int, scale: int) -> str:
    """A decimal, or a string if Spark has no decimal of that precision."""
    if not 0 < precision <= MAX_PRECISION or not 0 <= scale <= precision:
        return "string"
    return f"decimal({precision},{scale})"


def is_struct(spark_type: SparkType) -> bool:
    """Whether a type is a struct."""
    return kind_of(spark_type) == "struct"


def kind_of(spark_type: SparkType) -> str:
    """ "struct", "array" or "map"; the text itself for other types."""
    return spark_type if isinstance(spark_type, str) else str(spark_type["type"])


UNION = "kwire.union"
"""In the metadata of the fields of a struct that stands for a union."""


def marked(spark_type: SparkType) -> SparkType:
    """As ``loosened``, with the mark of unions, which a DataFrame's schema keeps."""
    if isinstance(spark_type, str):
        return spark_type
    if kind_of(spark_type) == "struct":
        mark = {"metadata": {UNION: True}} if "union" in spark_type else {}
        return struct(
            [field(one["name"], marked(one["type"])) | mark for one in spark_type["fields"]]
        )
    if kind_of(spark_type) == "array":
        return array(marked(spark_type["elementType"]))
    return map_of(marked(spark_type["keyType"]), marked(spark_type["valueType"]))


def loosened(spark_type: SparkType) -> SparkType:
    """The same type with every column, item and value nullable, as Spark's parsers return it.

    A user-defined type stays as it is.
    """
    if isinstance(spark_type, str):
        return spark_type
    if kind_of(spark_type) == "struct":
        return struct([field(one["name"], loosened(one["type"])) for one in spark_type["fields"]])
    if kind_of(spark_type) == "array":
        return array(loosened(spark_type["elementType"]))
    if kind_of(spark_type) == "map":
        return map_of(loosened(spark_type["keyType"]), loosened(spark_type["valueType"]))
    return spark_type


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


def text_of(spark_type: SparkType) -> str:
    """A type for people, as SQL writes it."""
    if isinstance(spark_type, str):
        return {"long": "bigint", "integer": "int"}.get(spark_type, spark_type)
    if kind_of(spark_type) == "struct":
        inner = ", ".join(f"{one['name']}: {text_of(one['type'])}" for one in spark_type["fields"])
        return f"struct<{inner}>"
    if kind_of(spark_type) == "array":
        return f"array<{text_of(spark_type['elementType'])}>"
    return f"map<{text_of(spark_type['keyType'])}, {text_of(spark_type['valueType'])}>"
