"""The text of JSON values in columns of type STRING: the digits of numbers as they came.

Spark reads a number with a point or an exponent as a double before it becomes a text: ``1.10`` in a
column of type STRING would be ``1.1``, and ``12345678901234567890.10`` other digits. The same goes
for numbers within objects and arrays that become a text.

Rules:

- A value that may have such a number in a column of type STRING is parsed a second time. There all
  numbers are texts that begin with a mark, so Spark keeps them. Then the mark is removed.
- The mark is made by chance for each process, so no producer can write it.
- Only columns with a type STRING in them are parsed again, and only values in which Spark's text
  is a number with a point, an object, an array, or one of the few other numbers that Spark changes.
- Spark writes objects and arrays without white space, and escapes only what JSON has to escape.
"""

import secrets
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from kwire.spark.decode.spark_types import SparkType, array, field, kind_of, map_of, struct
from kwire.spark.decode.spellings import SPELLINGS

if TYPE_CHECKING:
    from pyspark.sql import Column

_MARK = secrets.token_hex(16)
# Texts and all else up to a number, then the number. No part of it is ever tried a second time
# (possessive quantifiers), so that it takes no stack: Java's loops over groups would.
_TO_A_NUMBER = r'\G([^"0-9-]*+(?:"(?:[^"\\]++|\\.)*+"[^"0-9-]*+)*+)(-?[0-9][0-9.eE+-]*+)'
_DOUBLE = r"-?[0-9]+\.[0-9][0-9E-]*"
"""A double as Java writes it: no address or sentence with a point is parsed again."""
_OTHER_LINES = rf'(?:^|\n)(?:[{{\["]|(?:0|{_DOUBLE})(?:\n|$))'
"""In lines of texts, one that may have other digits: the same test as that of a single text."""
_MARKED = f'"{_MARK}([^"]*)"'


def texts_of(spark_type: SparkType) -> SparkType | None:
    """The parts of a type that have a STRING, with STRING for all values; None without any."""
    if isinstance(spark_type, str):
        return spark_type if spark_type == "string" else None
    if kind_of(spark_type) == "array":
        item = texts_of(spark_type["elementType"])
        return None if item is None else array(item)
    if kind_of(spark_type) == "map":
        value = texts_of(spark_type["valueType"])
        return None if value is None else map_of("string", value)
    inner = [(one, texts_of(one["type"])) for one in spark_type["fields"]]
    kept = [(one, texts) for one, texts in inner if texts is not None]
    found = [
        field(one["name"], texts) | {name: one[name] for name in (SPELLINGS,) if name in one}
        for one, texts in kept
    ]
    return struct(found) if found else None


def marked_numbers(text: "Column") -> "Column":
    """A JSON text in which each number is a text that begins with the mark."""
    from pyspark.sql import functions as f

    return f.regexp_replace(text, _TO_A_NUMBER, f'$1"{_MARK}$2"')


def may_differ(value: "Column", spark_type: SparkType) -> "Column":
    """Whether a text in a parsed value may have other digits than the JSON; null is no."""
    from pyspark.sql import functions as f

    if isinstance(spark_type, str):
        # Most texts begin otherwise, which takes a tenth of the time of a regular expression.
        begins = (value >= f.lit("-")) & (value < f.lit(":"))
        is_zero = value == f.lit("0")  # which may have been -0
        # An infinite double is within quotation marks.
        others = (value.startswith(mark) for mark in ("{", "[", '"'))
        return begins & (is_zero | value.rlike(f"^{_DOUBLE}$")) | reduce(or_, others)
    if kind_of(spark_type) == "array":
        return _any_may_differ(value, spark_type["elementType"])
    if kind_of(spark_type) == "map":
        return f.exists(f.map_values(value), lambda one: may_differ(one, spark_type["valueType"]))
    whole = f.lit(False)
    for one in spark_type["fields"]:
        whole = whole | f.coalesce(may_differ(value[one["name"]], one["type"]), f.lit(False))
    return whole


def _any_may_differ(values: "Column", spark_type: SparkType) -> "Column":
    """The same for any value of an array.

    Spark generates no code for functions of each value, so texts are looked at as lines of one.
    """
    from pyspark.sql import functions as f

    if isinstance(spark_type, str):
        return f.array_join(values, "\n").rlike(_OTHER_LINES)
    if kind_of(spark_type) != "struct":
        return f.exists(values, lambda one: may_differ(one, spark_type))
    inner = (_any_may_differ(values[one["name"]], one["type"]) for one in spark_type["fields"])
    return reduce(or_, (f.coalesce(one, f.lit(False)) for one in inner))


def with_exact_texts(value: "Column", exact: "Column", spark_type: SparkType) -> "Column":
    """A parsed value with the texts of ``exact``, which was parsed with the mark before numbers."""
    from pyspark.sql import functions as f

    texts = texts_of(spark_type)
    if texts is None:
        return value
    if isinstance(spark_type, str):
        digits = f.regexp_replace(exact, f"^{_MARK}", "")
        return f.regexp_replace(digits, _MARKED, "$1")
    if kind_of(spark_type) == "array":
        inner = spark_type["elementType"]
        return f.zip_with(value, exact, lambda one, other: with_exact_texts(one, other, inner))
    if kind_of(spark_type) == "map":
        inner = spark_type["valueType"]
        return f.map_zip_with(
            value, exact, lambda _, one, other: with_exact_texts(one, other, inner)
        )
    columns = [
        with_exact_texts(value[name], exact[name], one["type"]).alias(name)
        if texts_of(one["type"]) is not None
        else value[name].alias(name)
        for one in spark_type["fields"]
        for name in (one["name"],)
    ]
    return f.when(value.isNotNull(), f.struct(*columns))
