"""Rows whose columns have other types than the table's: what is widened or added, and what isn't.

Rules:

- A column of the table gets a wider type only where the table format can do that without writing
  its files again, and other readers follow (``iceberg_widens``, ``delta_widens``).
- Else the rows get the table's type, as far as their values fit (``misfits``).
- New columns are added, and so are new fields of structs. Structs are compared field by field,
  arrays and maps by their elements. What only the table has, the sink fills with null.
- A change that the table refuses stops nothing (``table_conflicts``): the records that need
  it are misfits. The reason says what the table has answered.
- Rows have the names that producers gave, the table those that its rule makes of them. ``id`` and
  ``ID`` are one column, as for Spark and the tables.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.spark import rows as names
from kwire.spark.column_names import NameRule, original_type
from kwire.spark.decode.same_names import ByName
from kwire.spark.decode.spark_types import SparkType
from kwire.spark.sinks.misfits import WHOLE, Misfit, decimal_of, is_same
from kwire.spark.sinks.table_conflicts import altered
from kwire.spark.sql import quoted, type_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

Widens = "Callable[[DataType, DataType], bool]"
"""Whether a table's column of the first type may get the second type."""


class Change(NamedTuple):
    """A column of the table that gets a wider type; ``path`` is as SQL writes it."""

    path: str
    type: str


def never(_table: "DataType", _rows: "DataType") -> bool:
    """Widening of a format that has none."""
    return False


def iceberg_widens(table: "DataType", rows: "DataType") -> bool:
    """The promotions of Iceberg's specification, which every reader knows."""
    before, after = table.simpleString(), rows.simpleString()
    if (before, after) in (("int", "bigint"), ("float", "double")):
        return True
    old, new = decimal_of(table), decimal_of(rows)
    return bool(old and new and old[1] == new[1] and old[0] < new[0])


def delta_widens(table: "DataType", rows: "DataType") -> bool:
    """What Delta's feature ``typeWidening`` has, except for dates."""
    before, after = str(table.simpleString()), str(rows.simpleString())
    if (before, after) == ("float", "double"):
        return True
    if before in WHOLE and after in WHOLE:
        return WHOLE[before] < WHOLE[after]
    if before in WHOLE and after == "double":
        return before != "bigint"
    old = decimal_of(table) or ((20 if before == "bigint" else 10, 0) if before in WHOLE else None)
    new = decimal_of(rows)
    return bool(old and new and old != new and new[0] - old[0] >= new[1] - old[1] >= 0)


def fit_table(
    spark: "SparkSession",
    name: str,
    table: "StructType",
    rows: "StructType",
    rule: NameRule,
    widens: "Callable[[DataType, DataType], bool]",
) -> list[Misfit]:
    """Widen and add columns of the table ``name`` for rows; the columns that don't fit then."""
    from pyspark.sql.types import StructType

    changes, misfits = compared(table, rows, rule, widens)
    statements = {one.path: f"ALTER COLUMN {one.path} TYPE {one.type}" for one in changes}
    value = [one for one in _stored(rows, rule).fields if one.name not in names.METADATA]
    for path, of in additions(table, StructType(value)):
        statements[path] = f"ADD COLUMNS ({path} {type_text(of.jsonValue())})"
    refused = {}
    for path, statement in statements.items():
        if answer := altered(spark, f"ALTER TABLE {name} {statement}"):
            refused[path] = answer
    return compared(table, rows, rule, widens, refused)[1] if refused else misfits


def compared(
    table: "StructType",
    rows: "StructType",
    rule: NameRule,
    widens: "Callable[[DataType, DataType], bool]",
    refused: "Mapping[str, str]" = MappingProxyType({}),
) -> tuple[list[Change], list[Misfit]]:
    """The columns that the table has to widen, and the columns of rows that get other types.

    ``rule`` gives the names by which the table has the columns of rows. ``refused`` has the paths
    of columns that can't be added or become wider, and the table's answers.
    """
    changes: list[Change] = []
    misfits: list[Misfit] = []
    known = _types_in(table)
    for one, as_stored in zip(rows.fields, _stored(rows, rule).fields, strict=True):
        path, has = quoted(as_stored.name), as_stored.dataType
        there = known.get(as_stored.name)
        answers = (why for at, why in refused.items() if f"{at}.".startswith(f"{path}."))
        answer = next(answers, "")
        if there is None and path in refused:
            misfits.append(Misfit(one.name, one.dataType, None, answer))
        if there is not None:
            wanted = _target(there, has, widens, path, changes, refused)
            if not is_same(wanted, has):
                misfits.append(Misfit(one.name, one.dataType, _with_rows_names(wanted), answer))
    return changes, misfits


def _stored(rows: "StructType", rule: NameRule) -> "StructType":
    """The columns of rows with the names that the table gives them."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(_object(rule.stored_type(rows.jsonValue(), is_nested=False)))


def additions(
    table: "StructType", rows: "StructType", prefix: str = ""
) -> "list[tuple[str, DataType]]":
    """The columns that rows have and a table lacks; names of nested fields have dots."""
    found: list[tuple[str, DataType]] = []
    known = _types_in(table)
    for field in rows.fields:
        name = f"{prefix}{quoted(field.name)}"
        there = known.get(field.name)
        if there is None:
            found.append((name, field.dataType))
        else:
            found += _additions_within(there, field.dataType, name)
    return found


def _additions_within(
    table: "DataType", rows: "DataType", name: str
) -> "list[tuple[str, DataType]]":
    """The fields that are new in the structs of a column."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(table, StructType) and isinstance(rows, StructType):
        return additions(table, rows, f"{name}.")
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        return _additions_within(table.elementType, rows.elementType, f"{name}.element")
    if isinstance(table, MapType) and isinstance(rows, MapType):
        return _additions_within(table.valueType, rows.valueType, f"{name}.value")
    return []


def _types_in(of: "StructType") -> "ByName[DataType]":
    return ByName((one.name, one.dataType) for one in of.fields)


def _with_rows_names(data_type: "DataType") -> "DataType":
    from pyspark.sql.types import StructField

    given = StructField("one", data_type).jsonValue()
    return StructField.fromJson(given | {"type": original_type(given["type"])}).dataType


def _object(spark_type: SparkType) -> dict[str, Any]:
    assert isinstance(spark_type, dict)
    return spark_type


def _target(
    table: "DataType",
    rows: "DataType",
    widens: "Callable[[DataType, DataType], bool]",
    path: str,
    changes: list[Change],
    refused: "Mapping[str, str]",
) -> "DataType":
    """The type that a column of rows gets: that of the table, or its own where the table widens."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(table, StructType) and isinstance(rows, StructType):
        known = _types_in(table)
        fields = []
        for one in rows.fields:
            there, within = known.get(one.name), f"{path}.{quoted(one.name)}"
            of = one.dataType
            if there is not None:
                of = _target(there, of, widens, within, changes, refused)
            if there is not None or within not in refused:
                fields.append(StructField(one.name, of))
        return StructType(fields)
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        within = f"{path}.element"
        item = _target(table.elementType, rows.elementType, widens, within, changes, refused)
        return ArrayType(item)
    if isinstance(table, MapType) and isinstance(rows, MapType):
        within = f"{path}.value"
        value = _target(table.valueType, rows.valueType, widens, within, changes, refused)
        return MapType(table.keyType, value)
    if not is_same(table, rows) and path not in refused and widens(table, rows):
        changes.append(Change(path, rows.simpleString()))
        return rows
    return table
