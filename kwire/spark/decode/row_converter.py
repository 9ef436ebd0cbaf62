"""Records to rows, once the columns or the plan of their format are known."""

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import KEY, MAX_CHARS, RECORD, TIMESTAMP
from kwire.spark import rows
from kwire.spark.decode.decoding import Plan
from kwire.spark.decode.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FIRST_US = -62_135_596_800_000_000
_END_US = 253_402_300_800_000_000
"""The years 1 to 9999, in microseconds: beyond them other readers of a table fail."""


def convert_records(
    records: "DataFrame",
    options: Options,
    of: dict[str, Any] | None,
    plan: Plan | None,
    *,
    has_reasons: bool = True,
    unused: Collection[str] = (),
) -> "DataFrame":
    """The rows, by known columns (JSON, CSV, Debezium) or a known plan (Avro, Protobuf).

    ``has_reasons`` says whether the error of a value of JSON names the column that doesn't fit.
    Without reasons, rows may lack ``unused`` columns of their records.
    """
    base = _without_row(records, options)
    if plan is not None:
        from kwire.spark.decode.in_python import decode_in_python

        return decode_in_python(base, plan, () if has_reasons else unused)
    if options.format == "debezium":
        from kwire.spark.decode.debezium import decode_changes
        from kwire.spark.decode.plans import debezium_plan

        assert of is not None
        return decode_changes(base, debezium_plan(of, options))
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
    """The columns of ``rows`` except ROW; ERROR has what is wrong with timestamp and key."""
    given = frozenset(records.columns) & {"headers", rows.STAMP, rows.REASON}
    return records.select(*_columns(options.key == "text", given))


@lru_cache(maxsize=16)
def _columns(is_text: bool, given: frozenset[str]) -> "tuple[Column, ...]":
    """The columns that ``_without_row`` selects; made once, as ``kwire.spark.columns`` says."""
    from pyspark.sql import functions as f

    key, at_us = f.col("key"), f.unix_micros("timestamp")
    is_time = (at_us >= _FIRST_US) & (at_us < _END_US)
    error = f.when(~f.coalesce(is_time, f.lit(False)), _no_time(rows.STAMP in given))
    if rows.REASON in given:
        reason = f.concat(f.lit(RECORD), f.substring(rows.REASON, 1, MAX_CHARS - len(RECORD)))
        error = f.coalesce(reason, error)
    if is_text:
        key = key.cast("string")
        wrong = f.when(~f.is_valid_utf8(key), f.lit(f"{KEY}it isn't UTF-8"))
        error = f.coalesce(error, wrong)
        key = f.when(f.is_valid_utf8(key), key)
    headers = f.col("headers") if "headers" in given else f.lit(None).cast(rows.HEADERS_TYPE)
    return (
        f.col("topic").alias(rows.TOPIC),
        f.col("partition").alias(rows.PARTITION),
        f.col("offset").alias(rows.OFFSET),
        f.when(is_time, f.col("timestamp")).alias(rows.TIMESTAMP),
        key.alias(rows.KEY),
        f.col("value").alias(rows.VALUE),
        headers.alias(rows.HEADERS),
        is_tombstone(given).alias(rows.TOMBSTONE),
        error.alias(rows.ERROR),
    )


def is_tombstone(columns: Collection[str]) -> "Column":
    """Whether a record has no value; its columns are the source's, or those of decoded rows.

    A record that can't be read has none either, but nobody knows what it was: it is no tombstone.
    """
    from pyspark.sql import functions as f

    if rows.TOMBSTONE in columns:
        return f.col(rows.TOMBSTONE)
    found = f.col("value").isNull()
    return found & f.col(rows.REASON).isNull() if rows.REASON in columns else found


def _no_time(has_stamp: bool) -> "Column":
    """The error of a record whose timestamp can't be kept; with the timestamp, if it is known."""
    from pyspark.sql import functions as f

    stamp = f.col(rows.STAMP) if has_stamp else f.unix_millis("timestamp")
    found = f.coalesce(f.concat(stamp.cast("string"), f.lit(" ms")), f.lit("it"))
    return f.concat(f.lit(TIMESTAMP), found, f.lit(" is in none of the years 1 to 9999"))
