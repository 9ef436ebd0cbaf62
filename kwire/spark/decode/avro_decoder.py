"""Avro values to rows: written by any schema of the registry, read by the topic's newest.

Rules:

- The writer's schema is found by its id; without a registry, the reader's schema is used.
- Bytes left over are an error: they mean that the value was written with another schema.
- A writer's schema is checked like the reader's (``avro_schema``), before a value is read with it.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kwire.spark.decode.avro_defaults import parsed
from kwire.spark.decode.avro_schema import WrongSchema, as_record, load
from kwire.spark.decode.avro_values import has_choices, row_converter
from kwire.spark.decode.decoding import Row
from kwire.spark.decode.undecodable import NotYet, Undecodable
from kwire.spark.decode.wire_format import HEADER_BYTES, schema_id
from kwire.spark.registry.cache import cache_of
from kwire.spark.registry.client import AVRO, RegistryError, RegistrySettings

ANY_TOPIC = ""


@dataclass(frozen=True, slots=True)
class AvroPlan:
    """The reader's schema of each topic (from ``avro_schema``), and the writers' registry."""

    row_type: str
    readers: tuple[tuple[str, str], ...]
    registry: RegistrySettings | None

    def decoder(self) -> "AvroDecoder":
        """Make the decoder."""
        return AvroDecoder(self)


class _Reader:
    """The reader's schema of a topic, ready for use."""

    def __init__(self, text: str) -> None:
        given = json.loads(text)
        schema = as_record(given)
        self.is_wrapped = schema is not given
        """Whether the writers' schemas have to become records as well."""
        self.schema = parsed(schema)
        self.convert = row_converter(schema) or _same
        self.names_choices = has_choices(schema)


class AvroDecoder:
    """See the module's rules."""

    def __init__(self, plan: AvroPlan) -> None:
        import fastavro

        self._read: Callable[..., Any] = fastavro.schemaless_reader
        self._readers = {topic: _Reader(text) for topic, text in plan.readers}
        self._cache = None if plan.registry is None else cache_of(plan.registry)
        self._writers: dict[tuple[int, bool], Any] = {}

    def row(self, topic: str, value: bytes) -> Row:
        """The columns of a value; any exception: it can't be decoded."""
        reader = self._readers.get(topic) or self._readers.get(ANY_TOPIC)
        if reader is None:
            raise NotYet(f"topic {topic} has no subject")
        stream = io.BytesIO(value)
        if self._cache is None:
            writer = reader.schema
        else:
            key = (schema_id(value), reader.is_wrapped)
            writer = self._writers.get(key) or self._writer(*key)
            stream.seek(HEADER_BYTES)
        try:
            found = self._read(
                stream, writer, reader.schema, return_named_type=reader.names_choices
            )
        except (EOFError, IndexError) as error:
            raise Undecodable("it ends, or holds a wrong index, before its schema ends") from error
        if stream.tell() != len(value):
            left = len(value) - stream.tell()
            raise Undecodable(f"{left} bytes are left over: it was written with another schema")
        row: Row = reader.convert(found)
        return row

    def _writer(self, number: int, is_wrapped: bool) -> Any:
        assert self._cache is not None
        try:
            schema, used = self._cache.schema(number)
        except RegistryError as error:
            raise NotYet(str(error)) from error
        if schema.type != AVRO:
            raise Undecodable(f"schema id {number} is of type {schema.type}, not {AVRO}")
        try:
            whole = load(schema.text, [one.text for one in used.values()])
        except WrongSchema as error:
            raise Undecodable(f"schema id {number}: {error}") from error
        writer = parsed(as_record(whole) if is_wrapped else whole, with_defaults=False)
        self._writers[number, is_wrapped] = writer
        return writer


def _same(value: Any) -> Any:
    return value
