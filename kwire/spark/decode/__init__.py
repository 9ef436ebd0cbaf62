"""Records to rows, by format; a record that can't be decoded has an error.

``decode`` is called for each micro-batch, or by a job of your own::

    rows = decode(records, Decode(format="json", options={"schema": "id BIGINT, name STRING"}))
    good = rows.where("_error IS NULL AND NOT _tombstone").select("_topic", "_row.*")

JSON, CSV, text and bytes are decoded by Spark's own expressions (``in_jvm``), Avro, Protobuf and
Debezium's events in Python workers over Arrow (``in_python``, ``debezium``). The columns are those
of ``kwire.spark.rows``. No record fails a batch: a record that can't be decoded has a null row and
a line in ``_error``, whose kinds ``undecodable`` lists.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kwire.spark.decode.debezium import unsupported
from kwire.spark.decode.decoding import Plan
from kwire.spark.decode.options import Options, options_of
from kwire.spark.decode.plans import given_plan, given_struct, registry_plan
from kwire.spark.decode.resolved_decoding import struct_of
from kwire.spark.decode.row_converter import convert_records
from kwire.spark.settings import Decode, WrongSetting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kwire.spark.decode.decoding import Decoding

_ATOMIC_ONLY = "columns of CSV are no struct, array or map"


def check(settings: Decode) -> None:
    """Raise WrongSetting for settings that can't work, without Spark and without the registry."""
    options = options_of(settings)
    if options.format in ("json", "csv", "debezium"):
        of = given_struct(options)
        if options.format == "debezium" and of is not None and (name := unsupported(of)):
            allowed = f"column {name} has a type that Debezium's values can't become"
            raise WrongSetting("decode.schema", options["schema"], allowed)
        if options.format == "csv" and of is not None:
            for one in of["fields"]:
                if isinstance(one["type"], dict):
                    raise WrongSetting("decode.schema", options["schema"], _ATOMIC_ONLY)
    elif options.format in ("avro", "protobuf"):
        given_plan(options)


def decode(records: "DataFrame", settings: Decode, topics: Sequence[str] = ()) -> "DataFrame":
    """The rows of records that have the Kafka connector's columns, with headers.

    ``topics`` are the topics of the batch, which name a registry's subjects. Without this argument
    the records are read once more to find their topics. Raises WrongSetting for settings or schemas
    that can't work, and RegistryError if a schema is needed that the registry doesn't give.
    """
    return decoder(records, settings, topics)(records, True)


def decoder(
    records: "DataFrame",
    settings: Decode,
    topics: Sequence[str] = (),
    last: Mapping[str, int] | None = None,
    unused: Collection[str] = (),
) -> "Decoding":
    """A function that decodes like ``decode``, for records that are decoded twice by one schema.

    The function takes the records, and whether errors have reasons. ``last`` is that of
    ``plans.registry_plan``, ``unused`` that of ``convert_records``.

    Without reasons, the error of a JSON value only says that the value doesn't fit. To find the
    column that causes it takes expressions for each column, which Spark plans anew for each batch.
    """
    options = options_of(settings)
    plan: Plan | None = None
    of: dict[str, Any] | None = None
    if options.format in ("avro", "protobuf"):
        plan = given_plan(options)
        if plan is None:
            plan = registry_plan(options, _topics(records, options, topics), last)
    else:
        asks = options.registry is not None and given_struct(options) is None
        named = _topics(records, options, topics) if asks else topics
        of = struct_of(records, options, named)
    return lambda given, has_reasons: convert_records(
        given, options, of, plan, has_reasons=has_reasons, unused=unused
    )


def _topics(records: "DataFrame", options: Options, topics: Sequence[str]) -> Sequence[str]:
    if topics or "{topic}" not in options["subject"]:
        return topics
    return sorted(row.topic for row in records.select("topic").distinct().collect())
