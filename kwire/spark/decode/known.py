"""Records to rows, once the columns or the plan of their format are known."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.spark import rows
from kwire.spark.decode.decoding import Plan
from kwire.spark.decode.options import Options
from kwire.spark.decode.undecodable import KEY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HEADERS = "array<struct<key: string, value: binary>>"


def decode_as(
    records: "DataFrame",
    options: Options,
    of: dict[str, Any] | None,
    plan: Plan | None,
    *,
    has_reasons: bool = True,
) -> "DataFrame":
    """The rows, by known columns (JSON, CSV) or a known plan (Avro, Protobuf).

    ``has_reasons`` says whether the error of a value of JSON names the column that doesn't fit.
    """
    base = _without_row(records, options)
    if plan is not None:
        from kwire.spark.decode.in_python import decode_in_python

        return decode_in_python(base, plan)
    from kwire.spark.decode.in_jvm import decode_bytes, decode_csv, decode_json, decode_text

    if options.format == "text":
        return decode_text(base, options)
    if options.format == "bytes":
        return decode_bytes(base, options)
    assert of is not None
    if options.format == "csv":
        return decode_csv(base, of, options)
    return decode_json(base, of, options, has_reasons=has_reasons)


def _without_row(records: "DataFrame", options: Options) -> "DataFrame":
    """The columns of ``rows`` except ROW; ERROR has the error of the key."""
    return records.select(*_columns(options.key == "text", "headers" in records.columns))


@lru_cache(maxsize=4)
def _columns(is_text: bool, has_headers: bool) -> "tuple[Column, ...]":
    """The columns that ``_without_row`` selects; made once, as ``kwire.spark.columns`` says."""
    from pyspark.sql import functions as f

    key, error = f.col("key"), f.lit(None).cast("string")
    if is_text:
        key = key.cast("string")
        error = f.when(~f.is_valid_utf8(key), f.lit(f"{KEY}it isn't UTF-8"))
        key = f.when(f.is_valid_utf8(key), key)
    headers = f.col("headers") if has_headers else f.lit(None).cast(_HEADERS)
    return (
        f.col("topic").alias(rows.TOPIC),
        f.col("partition").alias(rows.PARTITION),
        f.col("offset").alias(rows.OFFSET),
        f.col("timestamp").alias(rows.TIMESTAMP),
        key.alias(rows.KEY),
        f.col("value").alias(rows.VALUE),
        headers.alias(rows.HEADERS),
        f.col("value").isNull().alias(rows.TOMBSTONE),
        error.alias(rows.ERROR),
    )
