"""Names of JSON properties that a table takes for one column: values of each are in the column.

A topic's schema may call a property ``ID`` that another topic's or version's calls ``id``. A value
of JSON doesn't say which of them it was written by, so it is read by all spellings: the column's
own counts before the others, in the order of the schemas.

Rules:

- A field of a type (``spark_types``) has its other names in ``spellings``; ``loosened`` leaves them
  out. It is nullable then: a value may have any of the names.
- ``spread`` makes a field of each spelling, as the parser needs them. Spark can't tell such fields
  apart by their names, so ``folded`` first names them by their places.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from kwire.spark.decode.same_names import keys_of
from kwire.spark.decode.spark_types import (
    SparkType,
    array,
    field,
    kind_of,
    loosened,
    map_of,
    struct,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

SPELLINGS = "spellings"


def with_spellings(spark_type: SparkType, others: Sequence[SparkType]) -> SparkType:
    """A type whose fields have the names that they have in other types, at any depth."""
    others = [one for one in others if kind_of(one) == kind_of(spark_type)]
    if isinstance(spark_type, str) or not others:
        return spark_type
    alike: list[Any] = list(others)
    if kind_of(spark_type) == "array":
        inner = with_spellings(spark_type["elementType"], [one["elementType"] for one in alike])
        return spark_type | {"elementType": inner}
    if kind_of(spark_type) == "map":
        inner = with_spellings(spark_type["valueType"], [one["valueType"] for one in alike])
        return spark_type | {"valueType": inner}
    own = {one["name"] for one in spark_type["fields"]}
    fields = []
    for one in spark_type["fields"]:
        same = [other for each in alike for other in each["fields"] if _is_same(one, other, own)]
        found = one | {"type": with_spellings(one["type"], [other["type"] for other in same])}
        if names := [*dict.fromkeys(other["name"] for other in same if other["name"] not in own)]:
            found |= {SPELLINGS: names}
        fields.append(found)
    return spark_type | {"fields": fields}


def _is_same(one: dict[str, Any], other: dict[str, Any], own: set[str]) -> bool:
    """Whether another type's field is a field of a type whose names are ``own``."""
    if other["name"] in own:
        return bool(other["name"] == one["name"])
    return bool(keys_of(one["name"]) & keys_of(other["name"]))


def has_spellings(spark_type: SparkType) -> bool:
    """Whether a field has another name, at any depth."""
    if isinstance(spark_type, str):
        return False
    if kind_of(spark_type) == "struct":
        return any(SPELLINGS in one or has_spellings(one["type"]) for one in spark_type["fields"])
    return has_spellings(
        spark_type["elementType" if kind_of(spark_type) == "array" else "valueType"]
    )


def spread(spark_type: SparkType) -> SparkType:
    """The type, loosened, with a field for each spelling."""
    if isinstance(spark_type, str) or not has_spellings(spark_type):
        return loosened(spark_type)
    if kind_of(spark_type) == "struct":
        return struct(
            [
                field(name, spread(one["type"]))
                for one in spark_type["fields"]
                for name in (one["name"], *one.get(SPELLINGS, ()))
            ]
        )
    if kind_of(spark_type) == "array":
        return array(spread(spark_type["elementType"]))
    return map_of(loosened(spark_type["keyType"]), spread(spark_type["valueType"]))


def folded(value: "Column", spark_type: SparkType) -> "Column":
    """A value of the type ``spread(of)`` as one of the type ``loosened(of)``."""
    return _folded(value.cast(_spark_type(_numbered(spread(spark_type)))), spark_type)


def _folded(value: "Column", spark_type: SparkType) -> "Column":
    from pyspark.sql import functions as f

    if isinstance(spark_type, str):
        return value
    if not has_spellings(spark_type):
        return value.cast(_spark_type(loosened(spark_type)))
    if kind_of(spark_type) == "array":
        return f.transform(value, lambda one: _folded(one, spark_type["elementType"]))
    if kind_of(spark_type) == "map":
        return f.transform_values(value, lambda _, one: _folded(one, spark_type["valueType"]))
    places = count()
    columns = []
    for one in spark_type["fields"]:
        spelled = [next(places) for _ in (one["name"], *one.get(SPELLINGS, ()))]
        found = [_folded(value[_name(place)], one["type"]) for place in spelled]
        columns.append(f.coalesce(*found).alias(one["name"]))
    return f.when(value.isNotNull(), f.struct(*columns))


def _numbered(spark_type: SparkType) -> SparkType:
    """The type with the fields' places as their names."""
    if isinstance(spark_type, str):
        return spark_type
    if kind_of(spark_type) == "struct":
        fields = enumerate(spark_type["fields"])
        return struct([field(_name(place), _numbered(one["type"])) for place, one in fields])
    if kind_of(spark_type) == "array":
        return array(_numbered(spark_type["elementType"]))
    return map_of(spark_type["keyType"], _numbered(spark_type["valueType"]))


def _name(place: int) -> str:
    return f"_{place}"


def _spark_type(spark_type: SparkType) -> Any:
    """The type as a class of PySpark."""
    from pyspark.sql.types import StructField

    return StructField.fromJson(field("type", spark_type)).dataType
