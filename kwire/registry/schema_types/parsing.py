"""From the text of a schema to a parsed schema, whatever its type."""

from collections.abc import Callable, Mapping

from kwire.registry.schema_types import avro, json_schema, protobuf
from kwire.registry.schema_types.parsed import (
    MAX_REFERENCES,
    MAX_SCHEMA_BYTES,
    InvalidSchema,
    ParsedSchema,
)

AVRO = "AVRO"
"""The type of a schema that names none."""

JSON = "JSON"
PROTOBUF = "PROTOBUF"

Parse = Callable[[str, Mapping[str, ParsedSchema]], ParsedSchema]

_PARSERS: Mapping[str, Parse] = {
    AVRO: avro.parse,
    JSON: json_schema.parse,
    PROTOBUF: protobuf.parse,
}

SCHEMA_TYPES = tuple(_PARSERS)
"""The types that this registry knows."""


def parse(
    schema_type: str, text: str, references: Mapping[str, ParsedSchema] | None = None
) -> ParsedSchema:
    """Parse a schema; ``references`` are those that it uses directly, by the names it uses.

    Raises InvalidSchema with one line that says what is wrong. It may take some 100 ms for the
    largest schemas, so it belongs into a thread.
    """
    used = references or {}
    if schema_type not in _PARSERS:
        raise InvalidSchema(f"the type {schema_type[:50]} is none of {', '.join(SCHEMA_TYPES)}")
    if len(used) > MAX_REFERENCES:
        raise InvalidSchema(f"it uses more than {MAX_REFERENCES} other schemas")
    try:
        if len(text.encode()) > MAX_SCHEMA_BYTES:
            raise InvalidSchema(f"it has more than {MAX_SCHEMA_BYTES:,} bytes")
        schema = _PARSERS[schema_type](text, used)
        schema.canonical.encode()  # JSON has half a character as ``\ud800``, which no topic keeps
    except UnicodeEncodeError as error:
        raise InvalidSchema("it has half a character (a surrogate)") from error
    return schema
