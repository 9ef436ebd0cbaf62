"""Decoding in Spark's Python workers, over Arrow, for Avro and Protobuf; it needs no further jars.

``mapInArrow`` hands over batches of records. All columns but the row and the error pass through as
they are, without a copy. No exception leaves a batch: each becomes the error of its record.

What passes through isn't free: Java writes and reads every column, and asks for the size of each
after every row. So the columns that nobody will ask for stay behind.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import Undecodable
from kwire.spark import rows
from kwire.spark.decode.arrow_rows import arrow_type_of_text, to_arrow
from kwire.spark.decode.decoding import Decoder, Plan, Row
from kwire.spark.decode.merged_types import renamed
from kwire.spark.decode.spark_types import Place, has_value, marked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def decode_in_python(records: "DataFrame", plan: Plan, unused: Collection[str] = ()) -> "DataFrame":
    """Add the row to records that have the columns of ``rows`` without it, and drop some."""
    from pyspark.sql.types import StructField, StructType

    of = StructType.fromJson(json.loads(plan.row_type))
    records = records.drop(*(one for one in unused if one != rows.VALUE))
    kept = [one for one in records.schema.fields if one.name not in unused]
    schema = StructType([*kept, StructField(rows.ROW, of)])

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return decoded_batches(batches, plan, unused)

    return in_workers(records, work, schema)


def in_workers(records: "DataFrame", work: Any, schema: "StructType") -> "DataFrame":
    """What Python workers make of records, without null for HEADERS on the way to them.

    Spark asks for the size of a batch after each row. For an array it then goes over all rows since
    the last one that isn't null, which is the batch's first one where no record has headers.
    """
    from pyspark.sql import functions as f

    if rows.HEADERS not in records.columns:
        return records.mapInArrow(work, schema)
    headers = f.col(rows.HEADERS)
    none = f.array().cast(rows.HEADERS_TYPE)
    found = records.withColumn(rows.HEADERS, f.coalesce(headers, none)).mapInArrow(work, schema)
    return found.withColumn(rows.HEADERS, f.when(f.size(headers) > 0, headers))


def plan_type(of: dict[str, Any]) -> str:
    """The row type of a plan: every column nullable, since a row's error makes it null."""
    return json.dumps(marked(of))


@lru_cache(maxsize=8)
def _decoder_of(plan: Plan) -> Decoder:
    return plan.decoder()


def decoded_batches(
    batches: "Iterator[pa.RecordBatch]", plan: Plan, unused: Collection[str] = ()
) -> "Iterator[pa.RecordBatch]":
    """Each batch with its rows, and with the errors of records that can't be decoded."""
    decoder = _decoder_of(plan)
    for batch in batches:
        yield _decoded(batch, decoder, plan, unused)


def _decoded(
    batch: "pa.RecordBatch", decoder: Decoder, plan: Plan, unused: Collection[str]
) -> "pa.RecordBatch":
    import pyarrow as pa

    names = batch.schema.names
    topics = batch.column(names.index(rows.TOPIC)).to_pylist()
    values = batch.column(names.index(rows.VALUE)).to_pylist()
    errors: list[str | None] = batch.column(names.index(rows.ERROR)).to_pylist()
    found: list[Row | None] = [None] * len(values)
    unfit, respelled = dict(plan.unfit), dict(plan.respelled)
    for place, value in enumerate(values):
        if value is None or errors[place] is not None:
            continue
        try:
            row = decoder.row(topics[place], value)
            for one in respelled.get(topics[place], ()):
                row = renamed(row, *one)
            if unfit:
                _check_fits(row, unfit.get(topics[place], ()))
            found[place] = row
        except Exception as error:  # a library may raise anything for garbage
            errors[place] = line_of(error)
    column, wrong = to_arrow(found, arrow_type_of_text(plan.row_type))
    for place, reason in wrong.items():
        errors[place] = line_of(reason)
    columns = {
        name: pa.array(errors, pa.string()) if name == rows.ERROR else batch.column(place)
        for place, name in enumerate(names)
        if name not in unused
    }
    return pa.RecordBatch.from_pydict(columns | {rows.ROW: column})


def _check_fits(row: Row, places: Sequence[tuple[Place, str]]) -> None:
    """Undecodable for a value of another type than the topics before this one have."""
    for path, why in places:
        if has_value(row, path):
            raise Undecodable(f"column {why} as in topics before it, which share the table")


def line_of(error: Exception) -> str:
    """The error of a record, of whatever decoding it has raised."""
    if isinstance(error, Undecodable):
        return error.text
    text = str(error) or type(error).__name__
    return Undecodable(text).text
