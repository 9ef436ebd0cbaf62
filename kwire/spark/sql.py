"""Texts of Spark SQL: the one place that quotes what producers and users have named.

A name in a statement is always ``quoted``, also the names of a type's fields (``type_text``), and a
text is always a ``literal``. Nothing else puts a name into SQL.
"""

from collections.abc import Iterable, Mapping

from kwire.spark.decode.spark_types import SparkType, kind_of

_TYPES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def quoted(name: str) -> str:
    """A column's or a table's name as SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def listed(names: Iterable[str], table: str = "") -> str:
    """Names of columns with commas; ``table`` is put before each, as in ``t.``."""
    return ", ".join(f"{table}{quoted(one)}" for one in names)


def literal(text: str) -> str:
    """A text as SQL takes it, whatever characters it has."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def properties_text(properties: Mapping[str, object]) -> str:
    """Properties of a table, as they are between the brackets of TBLPROPERTIES."""
    pairs = properties.items()
    return ", ".join(f"{literal(key)} = {literal(str(value))}" for key, value in pairs)


def columns_text(spark_type: SparkType) -> str:
    """The columns of a struct, as they are between the brackets of CREATE TABLE."""
    assert isinstance(spark_type, dict)
    return ", ".join(
        f"{quoted(one['name'])} {type_text(one['type'])}" for one in spark_type["fields"]
    )


def type_text(spark_type: SparkType) -> str:
    """A type; the names of fields are quoted at every depth."""
    if isinstance(spark_type, str):
        return _TYPES.get(spark_type, spark_type)
    if kind_of(spark_type) == "struct":
        fields = (
            f"{quoted(one['name'])}: {type_text(one['type'])}" for one in spark_type["fields"]
        )
        return f"struct<{', '.join(fields)}>"
    if kind_of(spark_type) == "array":
        return f"array<{type_text(spark_type['elementType'])}>"
    return f"map<{type_text(spark_type['keyType'])}, {type_text(spark_type['valueType'])}>"
