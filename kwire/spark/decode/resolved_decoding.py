"""How a batch is decoded, without anything left to look up: it can be stored, and used later.

``schema_file`` may be edited, a registry may get a newer schema, and an inferred schema grows.
What ``resolve_decoding`` returns has their content at one time, as JSON, without a registry's
address and password.
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from kwire.schemas.registry import RegistrySettings
from kwire.spark.decode.options import Options, options_of
from kwire.spark.decode.plans import given_plan, given_struct, registry_struct
from kwire.spark.decode.row_converter import convert_records
from kwire.spark.settings import Decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kwire.spark.decode.decoding import Decoding

_LOOKED_UP = ("schema", "schema_file", "inferred_schema", "subject", "sample", "refresh_s")
_NOWHERE = RegistrySettings("http://settled")


def struct_of(
    records: "DataFrame", options: Options, topics: Sequence[str]
) -> dict[str, Any] | None:
    """The columns of JSON, CSV or Debezium; None for other formats."""
    if options.format not in ("json", "csv", "debezium"):
        return None
    of = given_struct(options)
    if of is None and options.registry is not None:
        return registry_struct(options, topics)
    if of is None:
        from kwire.spark.decode.inferred import inferred_struct

        of = inferred_struct(records, options)
    return of


def resolve_decoding(
    records: "DataFrame", settings: Decode, topics: Sequence[str]
) -> dict[str, Any]:
    """The argument for ``resolved_decoder``; for Avro and Protobuf only without a registry."""
    options = options_of(settings)
    kept = {
        name: value
        for name, value in options.given
        if name not in _LOOKED_UP and not name.startswith("registry_")
    }
    found: dict[str, Any] = {
        "format": options.format,
        "key": options.key,
        "options": kept,
        "has_header": options.registry is not None,
        "struct": struct_of(records, options, topics),
    }
    if options.format in ("avro", "protobuf"):
        plan: Any = given_plan(options)
        [(_, reader)] = plan.readers
        if options.format == "avro":
            kept["schema"] = reader
        else:
            kept["message"] = reader.message
            found["descriptors"] = b64encode(reader.descriptors).decode()
    return found


def resolved_decoder(found: dict[str, Any], unused: Collection[str] = ()) -> "Decoding":
    """The decoding by what ``resolve_decoding`` has returned; ``unused`` as in ``decoder``."""
    return lambda given, has_reasons: decode_resolved(
        given, found, has_reasons=has_reasons, unused=unused
    )


def decode_resolved(
    records: "DataFrame",
    found: dict[str, Any],
    *,
    has_reasons: bool = True,
    unused: Collection[str] = (),
) -> "DataFrame":
    """The rows of records as ``decode`` would have made them when it was resolved."""
    from kwire.spark.decode.avro_decoder import ANY_TOPIC
    from kwire.spark.decode.decoding import Plan
    from kwire.spark.decode.in_python import plan_type
    from kwire.spark.decode.protobuf_decoder import ProtobufPlan, ProtobufReader
    from kwire.spark.decode.protobuf_types import row_type

    registry = _NOWHERE if found["has_header"] else None
    given = tuple(sorted(found["options"].items()))
    options = Options(found["format"], found["key"], given, registry)
    plan: Plan | None = None
    if options.format == "avro":
        plan = given_plan(options)
    elif options.format == "protobuf":
        reader = ProtobufReader(b64decode(found["descriptors"]), options["message"])
        plan = ProtobufPlan(plan_type(row_type(reader.descriptor())), ((ANY_TOPIC, reader),), None)
    return convert_records(
        records, options, found["struct"], plan, has_reasons=has_reasons, unused=unused
    )
