"""Avro values to rows: written by any schema of the registry, read by the topic's newest.

Rules:

- The writer's schema is found by its id; without a registry, the reader's schema is used.
- Bytes left over are an error: they mean that the value was written with another schema.
- A writer's schema is checked like the reader's (``avro_schema``), before a value is read with it.
- A value of an older version with other columns or types than the newest one is read once more, by
  its own version (``versions``). A number that is another one as float or double is an error.
- A value of a version that wasn't known when the batch began, and that has other columns, is worth
  a retry: they would be lost.
"""

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kwire.schemas.cache import cache_of
from kwire.schemas.registry import AVRO, RegistryError, RegistrySettings
from kwire.schemas.undecodable import NOT_KNOWN, NotYet, Undecodable, WrongSchema
from kwire.schemas.wire_format import HEADER_BYTES, schema_id
from kwire.spark.decode.avro_defaults import parsed
from kwire.spark.decode.avro_schema import as_record, load
from kwire.spark.decode.avro_types import row_type
from kwire.spark.decode.avro_values import has_choices, row_converter
from kwire.spark.decode.decoding import Respelled, Row, Unfit
from kwire.spark.decode.versions import filled, has_more

ANY_TOPIC = ""
_FLOAT = struct.Struct("f")


@dataclass(frozen=True, slots=True)
class AvroPlan:
    """The reader's schema of each topic (from ``avro_schema``), and the writers' registry."""

    row_type: str
    readers: tuple[tuple[str, str], ...]
    registry: RegistrySettings | None
    older: tuple[tuple[str, int, str, str], ...] = ()
    """Topic, id, schema and ``versions.How`` (JSON) of versions that differ from the newest one."""
    known: frozenset[int] = frozenset()
    """The ids of all versions whose columns are in ``row_type``."""
    unfit: Unfit = ()
    respelled: Respelled = ()

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
        self._as_writer = parsed(schema, with_defaults=False)
        self.convert = row_converter(schema) or _same
        self.names_choices = has_choices(schema)

    def target(self, writer: Any) -> Any:
        """What fastavro has to resolve a writer's schema by; None if it is the reader's own.

        To resolve takes as long as to read, also where there is nothing to resolve.
        """
        is_own = writer is self.schema or writer == self._as_writer
        return None if is_own else self.schema


_Reading = Callable[[bytes], Row]
"""Makes a row of a value."""


class _Way(NamedTuple):
    """How the values of a topic with one schema id are read."""

    read: _Reading
    older: tuple[_Reading, Any] | None
    """How they are read by their own version, and ``versions.How``, if that has other columns."""


class AvroDecoder:
    """See the module's rules."""

    def __init__(self, plan: AvroPlan) -> None:
        import fastavro

        self._read: Callable[..., Any] = fastavro.schemaless_reader
        self._readers = {topic: _Reader(text) for topic, text in plan.readers}
        self._cache = None if plan.registry is None else cache_of(plan.registry)
        self._head_bytes = 0 if plan.registry is None else HEADER_BYTES
        self._ways: dict[tuple[str, bytes], _Way] = {}
        self._writers: dict[tuple[int, bool], Any] = {}
        self._type = json.loads(plan.row_type)
        self._known = plan.known
        self._older = {
            (topic, number): (_Reader(text), json.loads(how))
            for topic, number, text, how in plan.older
        }

    def row(self, topic: str, value: bytes) -> Row:
        """The columns of a value; any exception: it can't be decoded."""
        way = self._ways.get((topic, value[: self._head_bytes])) or self._way(topic, value)
        row = way.read(value)
        if way.older is None:
            return row
        by_itself, how = way.older
        whole: Row = filled(row, by_itself(value), how, _is_exact)
        return whole

    def _way(self, topic: str, value: bytes) -> _Way:
        """The way of a value, kept for those with the same header."""
        reader = self._readers.get(topic) or self._readers.get(ANY_TOPIC)
        if reader is None:
            raise NotYet(f"topic {topic} has no subject")
        if self._cache is None:
            way = _Way(self._reading(reader, reader.schema), None)
        else:
            number = schema_id(value)
            key = (number, reader.is_wrapped)
            writer = self._writers.get(key) or self._writer(*key)
            older = self._older.get((topic, number)) or self._older.get((ANY_TOPIC, number))
            own = older and (self._reading(older[0], older[0].schema), older[1])
            way = _Way(self._reading(reader, writer), own)
        self._ways[topic, value[: self._head_bytes]] = way
        return way

    def _reading(self, reader: _Reader, writer: Any) -> _Reading:
        """A function that reads the values of a writer's schema."""
        read, convert, target = self._read, reader.convert, reader.target(writer)
        names_choices, head_bytes = reader.names_choices, self._head_bytes

        def read_row(value: bytes) -> Row:
            stream = io.BytesIO(value)
            stream.seek(head_bytes)
            try:
                found = read(stream, writer, target, return_named_type=names_choices)
            except (EOFError, IndexError) as error:
                told = "it ends, or holds a wrong index, before its schema ends"
                raise Undecodable(told) from error
            if stream.tell() != len(value):
                left = len(value) - stream.tell()
                raise Undecodable(f"{left} bytes are left over: it was written with another schema")
            row: Row = convert(found)
            return row

        return read_row

    def _has_more(self, writer: Any) -> bool:
        """Whether a schema is one of the readers' records with columns that they lack."""
        name = writer.get("name") if isinstance(writer, dict) else None
        is_same = any(one.schema["name"] == name for one in self._readers.values())
        return is_same and has_more(row_type(writer), self._type)

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
            is_more = number not in self._known and self._has_more(whole)
        except WrongSchema as error:
            raise Undecodable(f"schema id {number}: {error}") from error
        if is_more:
            raise NotYet(NOT_KNOWN.format(number))
        writer = parsed(as_record(whole) if is_wrapped else whole, with_defaults=False)
        self._writers[number, is_wrapped] = writer
        return writer


def _is_exact(new: Any, old: Any, of: str) -> bool:
    """Whether a number is the same after Avro's promotion; other types are resolved exactly."""
    if type(old) is not int or type(new) is not float:
        return True
    return bool(new == old) and (of != "float" or _FLOAT.unpack(_FLOAT.pack(new))[0] == old)


def _same(value: Any) -> Any:
    return value
