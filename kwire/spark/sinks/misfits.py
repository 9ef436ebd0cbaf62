"""Rows whose columns have other types than the table's get the table's types.

Rules:

- Numbers of all kinds may become each other, and any simple value becomes text. A value that the
  table's type can't hold exactly is a misfit: its record becomes a dead letter with a reason.
- A field may become an Avro union of several types, which is a struct, or have been one: the value
  is that of the member which is there.
- A column whose type always fits is converted without a look at its values.
- A misfit has the rows' names at every depth, because rows get the table's names only when they are
  written.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.schemas.undecodable import MAX_CHARS, VALUE
from kwire.spark import rows as names
from kwire.spark.decode.spark_types import UNION
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from kwire.spark.decode.decoding import Decoding

WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The digits of whole numbers."""

_MEMBERS = {
    "boolean": "boolean",
    "int": "int",
    "date": "int",
    "bigint": "long",
    "timestamp": "long",
    "timestamp_ntz": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "decimal": "bytes",
    "array": "array",
    "map": "map",
}
"""The types of Avro that a union's member of a type of Spark is named after."""

_EXACT_DIGITS = {"float": 7, "double": 15}
"""The decimal digits of which a number of such a type has every one."""


class Misfit(NamedTuple):
    """A column whose rows have another type than the table's column keeps."""

    name: str
    has: "DataType"
    wanted: "DataType | None"
    """None if the table has no such column, and refuses to get it."""
    refused: str = ""
    """What the table has answered to a change, if there was one."""


def with_types(rows: "DataFrame", misfits: list[Misfit]) -> "DataFrame":
    """The rows with the types that the table keeps; a value that doesn't fit is null."""
    from pyspark.sql import functions as f

    found = {
        one.name: _converted(f.col(quoted(one.name)), one.has, one.wanted)
        for one in misfits
        if one.wanted is not None
    }
    left_out = [f.col(quoted(one.name)) for one in misfits if one.wanted is None]
    return rows.withColumns(found).drop(*left_out)


def fitting(decode: "Decoding", misfits: list[Misfit]) -> "Decoding":
    """The same decoding, with an error for each record whose value doesn't fit the table."""
    from pyspark.sql import functions as f

    row = f.col(names.ROW)

    def column(name: str) -> "Column":
        return f.col(name) if name in names.METADATA else row[name]

    reason = reasons(misfits, column)
    if reason is None:
        return decode

    def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
        found = decode(given, has_reasons)
        kept = {names.ROW: f.when(reason.isNull(), row)}
        return found.withColumns({names.ERROR: f.coalesce(names.ERROR, reason), **kept})

    return decoded


def reasons(
    misfits: Sequence[Misfit], column_of: "Callable[[str], Column] | None" = None
) -> "Column | None":
    """Why a row doesn't fit, null if it does; None if every row fits whatever its values are.

    ``column_of`` gives a misfit's column by its name; without it, the rows have them at the top.
    """
    from pyspark.sql import functions as f

    found = None
    for one in misfits:
        column = f.col(quoted(one.name)) if column_of is None else column_of(one.name)
        fits = column.isNull() if one.wanted is None else _fits(column, one.has, one.wanted)
        if fits is not None:
            text = _reason(one)
            is_misfit = ~f.coalesce(fits, f.lit(False))
            found = (
                f.when(is_misfit, f.lit(text))
                if found is None
                else (found.when(is_misfit, f.lit(text)))
            )
    return found


def _reason(misfit: Misfit) -> str:
    found = f"{VALUE}column {misfit.name} is {misfit.has.simpleString()} in the record, and the "
    if misfit.wanted is None:
        found += "table has no such column"
    else:
        found += f"table's {misfit.wanted.simpleString()} can't hold its value"
    if misfit.refused:
        found += f"; it refuses a change: {misfit.refused}"
    return found[:MAX_CHARS]


def decimal_of(data_type: "DataType") -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for another type."""
    inner: Any = data_type
    return (inner.precision, inner.scale) if data_type.typeName() == "decimal" else None


def is_same(one: "DataType", other: "DataType") -> bool:
    """Whether two types are equal; columns that are never null differ in nothing else."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(one, StructType) and isinstance(other, StructType):
        types = {field.name: field.dataType for field in one.fields}
        return types.keys() == {field.name for field in other.fields} and all(
            is_same(types[field.name], field.dataType) for field in other.fields
        )
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return is_same(one.elementType, other.elementType)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return is_same(one.keyType, other.keyType) and is_same(one.valueType, other.valueType)
    return bool(one == other)


def _converted(column: "Column", has: "DataType", wanted: "DataType") -> "Column":
    """The values with another type; null where they have none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if is_same(wanted, has):
        return column
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        types = {one.name: one.dataType for one in wanted.fields}
        fields = (
            _converted(column[one.name], one.dataType, types[one.name]).alias(one.name)
            for one in has.fields
            if one.name in types
        )
        return f.when(column.isNotNull(), f.struct(*fields))
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        item, to = has.elementType, wanted.elementType
        return f.transform(column, lambda one: _converted(one, item, to))
    if isinstance(has, MapType) and isinstance(wanted, MapType) and has.keyType == wanted.keyType:
        value, to = has.valueType, wanted.valueType
        return f.transform_values(column, lambda _, one: _converted(one, value, to))
    if _is_union(has) and not isinstance(wanted, StructType):
        members: Any = has
        parts = (_converted(column[one.name], one.dataType, wanted) for one in members.fields)
        return f.coalesce(*parts)
    if _member_for(has, wanted) is not None:
        return _as_member(column, has, wanted)
    if _is_convertible(has, wanted):
        return column.try_cast(wanted)
    return f.lit(None).cast(wanted)


def _is_union(data_type: "DataType") -> bool:
    """Whether a struct of the rows stands for an Avro union: its names don't tell."""
    from pyspark.sql.types import StructType

    return isinstance(data_type, StructType) and all(
        UNION in one.metadata for one in data_type.fields
    )


def _member_for(has: "DataType", union: "DataType") -> Any:
    """The field of a table's union that takes values of a type; None without one.

    A table doesn't keep the mark of a union: a member is one that is named after its own type.
    """
    from pyspark.sql.types import StructType

    if not isinstance(union, StructType) or isinstance(has, StructType):
        return None
    members = [one for one in union.fields if one.name == _member_name(one.dataType)]
    for takes in (is_same, _always_fits, _is_convertible):
        for one in members:
            if takes(has, one.dataType):
                return one
    return None


def _member_name(data_type: "DataType") -> str:
    kind = (
        data_type.typeName()
        if data_type.typeName() in ("decimal", "array", "map")
        else data_type.simpleString()
    )
    return f"member_{_MEMBERS.get(kind)}"


def _as_member(column: "Column", has: "DataType", union: Any) -> "Column":
    from pyspark.sql import functions as f

    member = _member_for(has, union)
    fields = (
        _converted(column, has, one.dataType) if one is member else f.lit(None).cast(one.dataType)
        for one in union.fields
    )
    named = (value.alias(name) for name, value in zip(union.names, fields, strict=True))
    return f.when(column.isNotNull(), f.struct(*named))


def _fits(column: "Column", has: "DataType", wanted: "DataType") -> "Column | None":
    """Whether a value is the same after it was converted; None if it always is."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if is_same(wanted, has) or _always_fits(has, wanted):
        return None
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        return _fields_fit(column, has, wanted)
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        return _all_fit(column, has.elementType, wanted.elementType)
    if isinstance(has, MapType) and isinstance(wanted, MapType) and has.keyType == wanted.keyType:
        return _all_fit(f.map_values(column), has.valueType, wanted.valueType)
    if _is_union(has) and not isinstance(wanted, StructType):
        return _members_fit(column, has, wanted)
    member = _member_for(has, wanted)
    if member is not None:
        return _fits(column, has, member.dataType)
    if _is_convertible(has, wanted):
        converted = column.try_cast(wanted)
        fits = converted.try_cast(has).eqNullSafe(column)
        for floating, other, of in ((converted, column, wanted), (column, converted, has)):
            if of.typeName() in _EXACT_DIGITS:
                fits = fits & _has_both(floating, other)
        return fits
    return column.isNull()


def _fields_fit(column: "Column", has: "StructType", wanted: "StructType") -> "Column | None":
    types = {one.name: one.dataType for one in wanted.fields}
    whole = None
    for one in has.fields:
        part = column[one.name].isNull()
        if one.name in types:
            part = _fits(column[one.name], one.dataType, types[one.name])
        if part is not None:
            whole = part if whole is None else whole & part
    return None if whole is None else column.isNull() | whole


def _members_fit(column: "Column", union: Any, wanted: "DataType") -> "Column | None":
    whole = None
    for one in union.fields:
        part = _fits(column[one.name], one.dataType, wanted)
        if part is not None:
            whole = part if whole is None else whole & part
    return whole


def _has_both(floating: "Column", other: "Column") -> "Column":
    """Whether two numbers are the same where Spark doesn't see that they aren't: at ±2^63.

    There it casts to the next whole number that a bigint has, and back; old versions of Java write
    its digits so, too.
    """
    from pyspark.sql import functions as f

    both = f.lit(True)
    for edge in (2**63, -(2**63)):
        both &= (floating != f.lit(float(edge))) | (other == f.lit(Decimal(edge)))
    return f.coalesce(both, f.lit(True))


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


def _is_simple(data_type: "DataType") -> bool:
    return data_type.typeName() not in ("array", "map", "struct", "binary", "variant")


def _always_fits(has: "DataType", wanted: "DataType") -> bool:
    """Whether the converted type has every value."""
    before, after = has.simpleString(), wanted.simpleString()
    if after == "string":
        return _is_convertible(has, wanted)
    if (before, after) == ("float", "double"):
        return True
    old = decimal_of(has) or ((WHOLE[before], 0) if before in WHOLE else None)
    if old is None:
        return False
    if after in WHOLE:
        return before in WHOLE and old[0] <= WHOLE[after]
    if after in _EXACT_DIGITS:
        return before in WHOLE and old[0] <= _EXACT_DIGITS[after]
    new = decimal_of(wanted)
    return bool(new and new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1])
