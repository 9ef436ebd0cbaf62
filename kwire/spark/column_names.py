"""The names of columns that tables can't keep, and how such names are written instead.

A value's properties are named by producers. What a table's format can keep is kept as it is. What
it can't is written by one rule that can be reversed (``original``):

- A character that the format refuses becomes ``%`` and two hexadecimal digits for each of its bytes
  in UTF-8: ``Date Time`` becomes ``Date%20Time``.
- A name that the table has for itself gets its first character so: ``topic`` becomes ``%74opic``.
- An empty name becomes ``%``.
- ``%`` becomes ``%25`` where it would be read as one of these, and stays elsewhere.

Two names never become one: neither by the rule, nor by upper and lower case, which tables don't
distinguish. The rule is the same for fields within structs, arrays and maps; only the table's own
names are taken at the top alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.spark.decode.same_names import ByName, keys_of
from kwire.spark.decode.spark_types import SparkType, field, kind_of, struct
from kwire.spark.rows import METADATA
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ENCODED = re.compile("(?:%[0-9a-fA-F]{2})+")
_LIKE_ENCODED = re.compile("%(?=[0-9a-fA-F]{2})")
_EMPTY = "%"
_CONTROLS = frozenset(map(chr, (*range(0x20), 0x7F)))
"""No format says that it keeps these, and deltalake fails for a zero byte."""


@dataclass(frozen=True, slots=True)
class NameRule:
    """The characters that a format refuses, and the names, in lower case, that a table has."""

    characters: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()

    def stored(self, name: str, *, is_nested: bool = False) -> str:
        """The name that the table gets; that of a record's own column stays."""
        if not is_nested and name in METADATA:
            return name
        if name in ("", _EMPTY):
            return _EMPTY + ("25" if name else "")
        found = _LIKE_ENCODED.sub("%25", name)
        found = "".join(_encoded(one) if one in self.characters else one for one in found)
        is_taken = not is_nested and keys_of(name) & self.reserved
        return _encoded(found[0]) + found[1:] if is_taken else found

    def stored_type(self, spark_type: SparkType, *, is_nested: bool = True) -> SparkType:
        """A type with the names that its fields get."""
        within = partial(self.stored, is_nested=True)
        return _renamed(spark_type, partial(self.stored, is_nested=is_nested), within)


INCARNATION = "_incarnation"
"""int, or null: how often the row's topic was created again before the record was written."""

PARTITION_COLUMN = "_topic_partition"
"""The column of Iceberg tables that other tables call ``_partition``."""

_OF_SINKS = frozenset(("__kt", "__kwire_partition", "__kwire_number", "__kwire_rank"))
"""The columns that sinks add while they write."""

_OF_DELTA = _OF_SINKS | {"_change_type", "_commit_version", "_commit_timestamp", INCARNATION}
_OF_ICEBERG = _OF_SINKS.union(
    (
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
        *("_last_updated_sequence_number", "_change_type", "_change_ordinal"),
        *("_commit_snapshot_id", PARTITION_COLUMN, INCARNATION),
    )
)

DELTA = NameRule(_CONTROLS | frozenset(" ,;{}()="), _OF_DELTA)
"""Of Delta tables without column mapping: Delta's protocol refuses these characters."""

DELTA_MAPPED = NameRule(_CONTROLS, _OF_DELTA)
"""Of Delta tables with column mapping."""

ICEBERG = NameRule(_CONTROLS | frozenset("."), _OF_ICEBERG)
"""Of Iceberg tables: a dot stands between the names of a path, so ``a.b`` might be two columns."""

FILES = NameRule(_CONTROLS, _OF_SINKS | {"topic", "partition"})
"""Of files in directories that are called ``topic=…`` and ``partition=…``."""

PLAIN_FILES = NameRule(_CONTROLS, _OF_SINKS)
"""Of files whose names are those of batches."""


def original(stored: str) -> str:
    """The name that a producer gave, from the one that a table has.

    A name that no rule has made, because somebody else made the table, stays.
    """
    if stored == _EMPTY:
        return ""
    return _ENCODED.sub(_decoded, stored)


def original_type(stored: SparkType) -> SparkType:
    """A type with the names that producers gave, from one that a table has."""
    return _renamed(stored, original, original)


def _renamed(
    spark_type: SparkType, name: Callable[[str], str], within: Callable[[str], str]
) -> SparkType:
    """A type with other names: ``name`` gives those of its own fields, ``within`` all others."""
    if isinstance(spark_type, str):
        return spark_type
    if kind_of(spark_type) == "struct":
        fields = (
            (name(one["name"]), _renamed(one["type"], within, within), one)
            for one in spark_type["fields"]
        )
        return struct([field(new, kind, nullable=one["nullable"]) for new, kind, one in fields])
    inner = [one for one in ("elementType", "keyType", "valueType") if one in spark_type]
    return spark_type | {one: _renamed(spark_type[one], within, within) for one in inner}


def _encoded(character: str) -> str:
    return "".join(f"%{one:02X}" for one in character.encode("utf-8"))


def _decoded(found: "re.Match[str]") -> str:
    try:
        return bytes.fromhex(found[0].replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:
        return found[0]


def stored_rows(rows: "DataFrame", rule: NameRule) -> "DataFrame":
    """The rows with the names that a table keeps; those of the record stay."""
    return _with_names(rows, rule.stored_type(rows.schema.jsonValue(), is_nested=False))


def spelled_rows(rows: "DataFrame", table: "StructType") -> "DataFrame":
    """The rows with the table's own spelling of its columns, for writers that tell case apart."""
    return _with_names(rows, _spelled(rows.schema.jsonValue(), table.jsonValue()))


def _spelled(spark_type: SparkType, table: SparkType) -> SparkType:
    if (
        isinstance(spark_type, str)
        or isinstance(table, str)
        or kind_of(spark_type) != kind_of(table)
    ):
        return spark_type
    if kind_of(spark_type) == "struct":
        known = ByName((one["name"], one) for one in table["fields"])
        fields = []
        for one in spark_type["fields"]:
            there = known.get(one["name"]) or one
            kind = _spelled(one["type"], there["type"])
            fields.append(field(there["name"], kind, nullable=one["nullable"]))
        return struct(fields)
    inner = [one for one in ("elementType", "keyType", "valueType") if one in spark_type]
    return spark_type | {one: _spelled(spark_type[one], table[one]) for one in inner}


def _with_names(rows: "DataFrame", wanted: Any) -> "DataFrame":
    """The rows with the names of a type that is theirs but for names."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    given: dict[str, Any] = rows.schema.jsonValue()
    if _names_in(wanted) == _names_in(given):
        return rows
    found = []
    for one, to in zip(given["fields"], StructType.fromJson(wanted).fields, strict=True):
        column = f.col(quoted(one["name"]))
        is_renamed = _names_in(one["type"]) != _names_in(to.dataType.jsonValue())
        # A struct is cast by the places of its fields, whatever their names are.
        found.append((column.cast(to.dataType) if is_renamed else column).alias(to.name))
    return rows.select(*found)


def _names_in(spark_type: SparkType) -> list[str]:
    """The names of all fields of a type, in their order."""
    if isinstance(spark_type, str):
        return []
    fields = spark_type.get("fields", ())
    found = [name for one in fields for name in (one["name"], *_names_in(one["type"]))]
    for inner in ("elementType", "keyType", "valueType"):
        found += _names_in(spark_type[inner]) if inner in spark_type else []
    return found
