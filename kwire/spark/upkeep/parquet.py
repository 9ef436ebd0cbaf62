"""Several Parquet files of Spark's become one, which Spark can read.

Spark never writes nanoseconds: a column of them is from a file that an early version has merged,
and Spark refuses it (PARQUET_TYPE_ILLEGAL). It becomes microseconds in UTC, as Spark means them.

Files with timestamps of type INT96 aren't merged here. pyarrow would read the ends of their time
range as other times, so Spark writes these files again first (``old_times``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_VERSION = b"org.apache.spark.version"


def merge_parquet(sources: Sequence[Path], target: Path) -> None:
    """Copy row groups one after the other, so that memory holds one at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [pq.ParquetFile(path) for path in sources]
    try:
        schemas = [_for_spark(pq.read_schema(path)) for path in sources]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        # By this key Spark 3 knows that days before 1582 are days of today's calendar.
        versions = [(one.metadata.metadata or {}).get(_VERSION) for one in files]
        if all(versions):
            schema = schema.with_metadata({_VERSION: min(filter(None, versions))})
        with pq.ParquetWriter(target, schema, compression="snappy") as writer:
            for file in files:
                for number in range(file.num_row_groups):
                    writer.write_table(_with_columns(file.read_row_group(number), schema))
        expected = sum(one.metadata.num_rows for one in files)
    finally:
        for file in files:
            file.close()
    found = pq.read_metadata(target).num_rows
    if found != expected:
        raise RuntimeError(f"{target} has {found} rows, its parts have {expected}")


def _for_spark(schema: Any) -> Any:
    """A file's schema, with the types that the merged file gets."""
    import pyarrow as pa

    return pa.schema([_field(one) for one in schema])


def _field(field: Any) -> Any:
    return field.with_type(_type(field.type)).remove_metadata()


def _type(given: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if given == pa.timestamp("ns"):
        return pa.timestamp("us", "UTC")
    if types.is_struct(given):
        return pa.struct([_field(one) for one in given])
    if types.is_list(given):
        return pa.list_(_field(given.value_field))
    if types.is_map(given):
        return pa.map_(_field(given.key_field), _field(given.item_field))
    return given


def _with_columns(table: Any, schema: Any) -> Any:
    """A table with all columns of a schema; those that it lacks are null."""
    import pyarrow as pa

    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
