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


def with_spellings(of: SparkType, others: Sequence[SparkType]) -> SparkType:
    """A type whose fields have the names that they have in other types, at any depth."""
    others = [one for one in others if kind_of(one) == kind_of(of)]
    if isinstance(of, str) or not others:
        return of
    alike: list[Any] = list(others)
    if kind_of(of) == "array":
        inner = with_spellings(of["elementType"], [one["elementType"] for one in alike])
        return of | {"elementType": inner}
    if kind_of(of) == "map":
        inner = with_spellings(of["valueType"], [one["valueType"] for one in alike])
        return of | {"valueType": inner}
    own = {one["name"] for one in of["fields"]}
    fields = []
    for one in of["fields"]:
        same = [other for each in alike for other in each["fields"] if _is_same(one, other, own)]
        found = one | {"type": with_spellings(one["type"], [other["type"] for other in same])}
        if names := [*dict.fromkeys(other["name"] for other in same if other["name"] not in own)]:
            found |= {SPELLINGS: names}
        fields.append(found)
    return of | {"fields": fields}


def _is_same(one: dict[str, Any], other: dict[str, Any], own: set[str]) -> bool:
    """Whether another type's field is a field of a type whose names are ``own``."""
    if other["name"] in own:
        return bool(other["name"] == one["name"])
    return bool(keys_of(one["name"]) & keys_of(other["name"]))


def has_spellings(of: SparkType) -> bool:
    """Whether a field has another name, at any depth."""
    if isinstance(of, str):
        return False
    if kind_of(of) == "struct":
        return any(SPELLINGS in one or has_spellings(one["type"]) for one in of["fields"])
    return has_spellings(of["elementType" if kind_of(of) == "array" else "valueType"])


def spread(of: SparkType) -> SparkType:
    """The type, loosened, with a field for each spelling."""
    if isinstance(of, str) or not has_spellings(of):
        return loosened(of)
    if kind_of(of) == "struct":
        return struct(
            [
                field(name, spread(one["type"]))
                for one in of["fields"]
                for name in (one["name"], *one.get(SPELLINGS, ()))
            ]
        )
    if kind_of(of) == "array":
        return array(spread(of["elementType"]))
    return map_of(loosened(of["keyType"]), spread(of["valueType"]))


def folded(value: "Column", of: SparkType) -> "Column":
    """A value of the type ``spread(of)`` as one of the type ``loosened(of)``."""
    return _folded(value.cast(_spark_type(_numbered(spread(of)))), of)


def _folded(value: "Column", of: SparkType) -> "Column":
    from pyspark.sql import functions as f

    if isinstance(of, str):
        return value
    if not has_spellings(of):
        return value.cast(_spark_type(loosened(of)))
    if kind_of(of) == "array":
        return f.transform(value, lambda one: _folded(one, of["elementType"]))
    if kind_of(of) == "map":
        return f.transform_values(value, lambda _, one: _folded(one, of["valueType"]))
    places = count()
    columns = []
    for one in of["fields"]:
        spelled = [next(places) for _ in (one["name"], *one.get(SPELLINGS, ()))]
        found = [_folded(value[_name(place)], one["type"]) for place in spelled]
        columns.append(f.coalesce(*found).alias(one["name"]))
    return f.when(value.isNotNull(), f.struct(*columns))


def _numbered(of: SparkType) -> SparkType:
    """The type with the fields' places as their names."""
    if isinstance(of, str):
        return of
    if kind_of(of) == "struct":
        fields = enumerate(of["fields"])
        return struct([field(_name(place), _numbered(one["type"])) for place, one in fields])
    if kind_of(of) == "array":
        return array(_numbered(of["elementType"]))
    return map_of(of["keyType"], _numbered(of["valueType"]))


def _name(place: int) -> str:
    return f"_{place}"


def _spark_type(of: SparkType) -> Any:
    """The type as a class of PySpark."""
    from pyspark.sql.types import StructField

    return StructField.fromJson(field("type", of)).dataType
