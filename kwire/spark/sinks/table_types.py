"""Rows whose columns have other types than the table's: what fits, what is widened, what is left.

Rules:

- A column of the table gets a wider type only where the table format can do that without writing
  its files again, and other readers follow (``ICEBERG``, ``DELTA``).
- Else the rows get the table's type. A value that the table's type can't hold exactly is a misfit:
  its record becomes a dead letter with a reason. Numbers of all kinds may become each other this
  way, and any simple value becomes text.
- Structs are compared field by field, arrays and maps by their elements. What only one side has is
  left to the sink, which adds it or fills it with null.
- A column whose type always fits is converted without a look at its values.
- Rows have the names that producers gave, the table those that its rule makes of them. A misfit has
  the rows' names at every depth, because rows get the table's names only when they are written.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.spark.column_names import NameRule, original_type
from kwire.spark.decode.spark_types import SparkType
from kwire.spark.decode.undecodable import VALUE
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

Widens = "Callable[[DataType, DataType], bool]"
"""Whether a table's column of the first type may get the second type."""

_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The digits of whole numbers."""

_EXACT_DIGITS = {"float": 7, "double": 15}
"""The decimal digits of which a number of such a type has every one."""


class Change(NamedTuple):
    """A column of the table that gets a wider type; ``path`` is as SQL writes it."""

    path: str
    type: str


class Misfit(NamedTuple):
    """A column whose rows have another type than the table's column keeps."""

    name: str
    has: "DataType"
    wanted: "DataType"


def never(_table: "DataType", _rows: "DataType") -> bool:
    """Widening of a format that has none."""
    return False


def iceberg_widens(table: "DataType", rows: "DataType") -> bool:
    """The promotions of Iceberg's specification, which every reader knows."""
    before, after = table.simpleString(), rows.simpleString()
    if (before, after) in (("int", "bigint"), ("float", "double")):
        return True
    old, new = _decimal(table), _decimal(rows)
    return bool(old and new and old[1] == new[1] and old[0] < new[0])


def delta_widens(table: "DataType", rows: "DataType") -> bool:
    """What Delta's feature ``typeWidening`` has, except for dates."""
    before, after = str(table.simpleString()), str(rows.simpleString())
    if (before, after) == ("float", "double"):
        return True
    if before in _WHOLE and after in _WHOLE:
        return _WHOLE[before] < _WHOLE[after]
    if before in _WHOLE and after == "double":
        return before != "bigint"
    old = _decimal(table) or ((20 if before == "bigint" else 10, 0) if before in _WHOLE else None)
    new = _decimal(rows)
    return bool(old and new and old != new and new[0] - old[0] >= new[1] - old[1] >= 0)


def compared(
    table: "StructType",
    rows: "StructType",
    rule: NameRule,
    widens: "Callable[[DataType, DataType], bool]",
) -> tuple[list[Change], list[Misfit]]:
    """The columns that the table has to widen, and the columns of rows that get other types.

    ``rule`` gives the names by which the table has the columns of rows.
    """
    from pyspark.sql.types import StructType

    changes: list[Change] = []
    misfits: list[Misfit] = []
    known = {one.name: one.dataType for one in table.fields}
    stored = StructType.fromJson(_object(rule.stored_type(rows.jsonValue(), is_nested=False)))
    for one, as_stored in zip(rows.fields, stored.fields, strict=True):
        name, has = as_stored.name, as_stored.dataType
        if name in known:
            wanted = _target(known[name], has, widens, quoted(name), changes)
            if not _same(wanted, has):
                misfits.append(Misfit(one.name, one.dataType, _with_rows_names(wanted)))
    return changes, misfits


def _with_rows_names(of: "DataType") -> "DataType":
    from pyspark.sql.types import StructField

    given = StructField("one", of).jsonValue()
    return StructField.fromJson(given | {"type": original_type(given["type"])}).dataType


def _object(of: SparkType) -> dict[str, Any]:
    assert isinstance(of, dict)
    return of


def widen(spark: "SparkSession", table: str, changes: list[Change]) -> None:
    """Give columns of a table wider types."""
    for one in changes:
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {one.path} TYPE {one.type}")


def with_types(rows: "DataFrame", misfits: list[Misfit]) -> "DataFrame":
    """The rows with the types that the table keeps; a value that doesn't fit is null."""
    from pyspark.sql import functions as f

    return rows.withColumns(
        {one.name: _converted(f.col(quoted(one.name)), one.has, one.wanted) for one in misfits}
    )


def reasons(misfits: list[Misfit]) -> "Column | None":
    """Why a row doesn't fit, null if it does; None if every row fits whatever its values are."""
    from pyspark.sql import functions as f

    found = None
    for one in misfits:
        fits = _fits(f.col(quoted(one.name)), one.has, one.wanted)
        if fits is not None:
            text = (
                f"{VALUE}column {one.name} is {one.has.simpleString()} in the record, and the "
                f"table's {one.wanted.simpleString()} can't hold its value"
            )
            is_misfit = ~f.coalesce(fits, f.lit(False))
            found = (
                f.when(is_misfit, f.lit(text))
                if found is None
                else (found.when(is_misfit, f.lit(text)))
            )
    return found


def _decimal(of: "DataType") -> tuple[int, int] | None:
    inner: Any = of
    return (inner.precision, inner.scale) if of.typeName() == "decimal" else None


def _same(one: "DataType", other: "DataType") -> bool:
    """Whether two types are equal; columns that are never null differ in nothing else."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(one, StructType) and isinstance(other, StructType):
        names = {field.name: field.dataType for field in one.fields}
        return all(
            field.name not in names or _same(names[field.name], field.dataType)
            for field in other.fields
        )
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return _same(one.elementType, other.elementType)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return _same(one.keyType, other.keyType) and _same(one.valueType, other.valueType)
    return bool(one == other)


def _target(
    table: "DataType",
    rows: "DataType",
    widens: "Callable[[DataType, DataType], bool]",
    path: str,
    changes: list[Change],
) -> "DataType":
    """The type that a column of rows gets: that of the table, or its own where the table widens."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(table, StructType) and isinstance(rows, StructType):
        known = {one.name: one.dataType for one in table.fields}
        fields = [
            StructField(
                one.name,
                _target(
                    known[one.name], one.dataType, widens, f"{path}.{quoted(one.name)}", changes
                )
                if one.name in known
                else one.dataType,
            )
            for one in rows.fields
        ]
        return StructType(fields)
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        item = _target(table.elementType, rows.elementType, widens, f"{path}.element", changes)
        return ArrayType(item)
    if isinstance(table, MapType) and isinstance(rows, MapType):
        value = _target(table.valueType, rows.valueType, widens, f"{path}.value", changes)
        return MapType(table.keyType, value)
    if not _same(table, rows) and widens(table, rows):
        changes.append(Change(path, rows.simpleString()))
        return rows
    return table


def _converted(column: "Column", has: "DataType", wanted: "DataType") -> "Column":
    """The values with another type; null where they have none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if _same(wanted, has):
        return column
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        types = {one.name: one.dataType for one in wanted.fields}
        fields = (
            _converted(column[one.name], one.dataType, types[one.name]).alias(one.name)
            for one in has.fields
        )
        return f.when(column.isNotNull(), f.struct(*fields))
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        item, to = has.elementType, wanted.elementType
        return f.transform(column, lambda one: _converted(one, item, to))
    if isinstance(has, MapType) and isinstance(wanted, MapType) and has.keyType == wanted.keyType:
        value, to = has.valueType, wanted.valueType
        return f.transform_values(column, lambda _, one: _converted(one, value, to))
    if _is_convertible(has, wanted):
        return column.try_cast(wanted)
    return f.lit(None).cast(wanted)


def _fits(column: "Column", has: "DataType", wanted: "DataType") -> "Column | None":
    """Whether a value is the same after it was converted; None if it always is."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if _same(wanted, has) or _always_fits(has, wanted):
        return None
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        types = {one.name: one.dataType for one in wanted.fields}
        whole = None
        for one in has.fields:
            part = _fits(column[one.name], one.dataType, types[one.name])
            if part is not None:
                whole = part if whole is None else whole & part
        return None if whole is None else column.isNull() | whole
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        return _all_fit(column, has.elementType, wanted.elementType)
    if isinstance(has, MapType) and isinstance(wanted, MapType) and has.keyType == wanted.keyType:
        return _all_fit(f.map_values(column), has.valueType, wanted.valueType)
    if _is_convertible(has, wanted):
        return column.try_cast(wanted).try_cast(has).eqNullSafe(column)
    return column.isNull()


def _all_fit(items: "Column", has: "DataType", wanted: "DataType") -> "Column | None":
    from pyspark.sql import functions as f

    if _fits(f.lit(None), has, wanted) is None:
        return None

    def fits(one: "Column") -> "Column":
        found = _fits(one, has, wanted)
        assert found is not None
        return f.coalesce(found, f.lit(False))

    return items.isNull() | f.forall(items, fits)


def _is_convertible(has: "DataType", wanted: "DataType") -> bool:
    """Whether values may be converted: numbers among each other, simple values to text."""
    from pyspark.sql.types import NumericType, StringType

    if isinstance(wanted, StringType):
        return not isinstance(has, StringType) and _is_simple(has)
    return isinstance(has, NumericType) and isinstance(wanted, NumericType)


def _is_simple(of: "DataType") -> bool:
    return of.typeName() not in ("array", "map", "struct", "binary", "variant")


def _always_fits(has: "DataType", wanted: "DataType") -> bool:
    """Whether the converted type has every value."""
    before, after = has.simpleString(), wanted.simpleString()
    if after == "string":
        return _is_convertible(has, wanted)
    if (before, after) == ("float", "double"):
        return True
    old = _decimal(has) or ((_WHOLE[before], 0) if before in _WHOLE else None)
    if old is None:
        return False
    if after in _WHOLE:
        return before in _WHOLE and old[0] <= _WHOLE[after]
    if after in _EXACT_DIGITS:
        return before in _WHOLE and old[0] <= _EXACT_DIGITS[after]
    new = _decimal(wanted)
    return bool(new and new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1])
