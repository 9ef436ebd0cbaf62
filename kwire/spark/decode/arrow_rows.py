"""Rows to Arrow arrays; a value that doesn't fit its column makes only its own row null."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.spark.decode.decoding import Row
from kwire.spark.decode.spark_types import SparkType, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@lru_cache(maxsize=64)
def arrow_type_of_text(text: str) -> "pa.DataType":
    """The Arrow type of a Spark type that is written as JSON."""
    return arrow_type(json.loads(text))


def arrow_type(spark_type: SparkType) -> "pa.DataType":
    """The Arrow type that Spark takes for a type."""
    import pyarrow as pa

    if isinstance(spark_type, dict):
        if kind_of(spark_type) == "struct":
            return pa.struct(
                [(one["name"], arrow_type(one["type"])) for one in spark_type["fields"]]
            )
        if kind_of(spark_type) == "array":
            return pa.list_(arrow_type(spark_type["elementType"]))
        return pa.map_(arrow_type(spark_type["keyType"]), arrow_type(spark_type["valueType"]))
    found = _DECIMAL.fullmatch(spark_type)
    if found:
        return pa.decimal128(int(found[1]), int(found[2]))
    simple: dict[str, pa.DataType] = {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return simple[spark_type]


def to_arrow(
    rows: Sequence[Row | None], of: "pa.DataType"
) -> "tuple[pa.Array, dict[int, Exception]]":
    """The array of all rows, and the errors of rows that became null, by their place."""
    import pyarrow as pa

    errors: dict[int, Exception] = {}
    parts = _parts(rows, of, 0, errors)
    whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return whole, errors


def _parts(
    rows: Sequence[Row | None], of: "pa.DataType", first: int, errors: dict[int, Exception]
) -> list[Any]:
    """Arrays that follow one another; a failing part is halved until the wrong row is found."""
    import pyarrow as pa

    try:
        return [pa.array(rows, type=of)]
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError) as error:
        if len(rows) == 1:
            errors[first] = error
            return [pa.nulls(1, of)]
    middle = len(rows) // 2
    left = _parts(rows[:middle], of, first, errors)
    return left + _parts(rows[middle:], of, first + middle, errors)
