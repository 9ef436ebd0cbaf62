"""Protobuf values to rows, by the descriptors that the driver has compiled and shipped.

Rules:

- A message is read with the newest schema of its topic. Field numbers keep their meaning, and
  fields that this schema lacks are skipped, as Protobuf's rules for schema evolution say.
- With a registry, the decoder asks for the writer's schema by its id, but only to learn the name of
  the message.
- A message of an older version with other columns or types than the newest one is read once more,
  by its own version (``versions``). A value that isn't the same by both is an error.
- A message of a version that wasn't known when the batch began, and that has other fields, is worth
  a retry: they would be lost. Only fields of the message itself are looked at for that.
- A message with another name than the configured one is an error. So is a message without its
  required fields.
- Protobuf's parser limits the depth of nesting to 100, and lengths to the bytes of the value.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kwire.schemas.cache import cache_of
from kwire.schemas.registry import PROTOBUF, RegistryError, RegistrySettings
from kwire.schemas.undecodable import NOT_KNOWN, NotYet, Undecodable
from kwire.schemas.wire_format import message_indexes, schema_id
from kwire.spark.decode.decoding import Respelled, Row, Unfit
from kwire.spark.decode.proto_text import message_name
from kwire.spark.decode.protobuf_values import row_converter
from kwire.spark.decode.versions import filled

ANY_TOPIC = ""
_MOST_WAYS = 1000
"""How many headers are remembered: garbage may have an index in many spellings."""


@dataclass(frozen=True, slots=True)
class ProtobufReader:
    """A FileDescriptorSet, and the name of the message in it that a topic holds."""

    descriptors: bytes
    message: str

    def descriptor(self) -> Any:
        """The descriptor of the message, in a new pool; KeyError if the set lacks the message."""
        from google.protobuf import descriptor_pb2, descriptor_pool

        files = descriptor_pb2.FileDescriptorSet.FromString(self.descriptors)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(self.message)


@dataclass(frozen=True, slots=True)
class ProtobufPlan:
    """The reader of each topic, and the registry with the writers' schemas."""

    row_type: str
    readers: tuple[tuple[str, ProtobufReader], ...]
    registry: RegistrySettings | None
    older: tuple[tuple[str, int, ProtobufReader, str], ...] = ()
    """Topic, id, reader and ``versions.How`` (JSON) of versions that differ from the newest one."""
    known: frozenset[int] = frozenset()
    """The ids of all versions whose columns are in ``row_type``."""
    unfit: Unfit = ()
    respelled: Respelled = ()

    def decoder(self) -> "ProtobufDecoder":
        """Make the decoder."""
        return ProtobufDecoder(self)


class _Reader:
    """A message's class and its converter."""

    def __init__(self, reader: ProtobufReader) -> None:
        from google.protobuf import message_factory

        descriptor = reader.descriptor()
        self.wanted = reader.message
        self.row: Callable[[Any], Row] = row_converter(descriptor)
        self._kind = message_factory.GetMessageClass(descriptor)

    def parsed(self, value: bytes) -> Any:
        """The message; Undecodable."""
        try:
            message = self._kind.FromString(value)
        except Exception as error:
            raise Undecodable(f"it is no message {self.wanted}") from error
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise Undecodable(f"{self.wanted} lacks what it requires: {missing}")
        return message


def _is_same(new: Any, old: Any, of: str) -> bool:
    """Whether both values mean the same; one may be text, the other its bytes."""
    if new == old:
        return True
    if isinstance(new, str) and isinstance(old, bytes):
        return new.encode() == old
    return isinstance(new, bytes) and isinstance(old, str) and new == old.encode()


def _has_unknown_fields(message: Any) -> bool:
    from google.protobuf.unknown_fields import UnknownFieldSet

    return len(UnknownFieldSet(message)) > 0


class _Way(NamedTuple):
    """How the values of a topic with one header are read."""

    reader: _Reader
    position: int
    is_known: bool
    older: tuple[_Reader, Any] | None


class ProtobufDecoder:
    """Decodes Protobuf values to rows by the rules of this module."""

    def __init__(self, plan: ProtobufPlan) -> None:
        self._readers = {topic: _Reader(reader) for topic, reader in plan.readers}
        self._older = {
            (topic, number): (_Reader(reader), json.loads(how))
            for topic, number, reader, how in plan.older
        }
        self._known = plan.known
        self._cache = None if plan.registry is None else cache_of(plan.registry)
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}
        self._ways: dict[tuple[str, bytes], _Way] = {}
        self._head_bytes = 0

    def row(self, topic: str, value: bytes) -> Row:
        """The columns of a value; any exception means that the value can't be decoded."""
        way = self._ways.get((topic, value[: self._head_bytes])) or self._way(topic, value)
        body = value[way.position :]
        message = way.reader.parsed(body)
        row = way.reader.row(message)
        if not way.is_known and _has_unknown_fields(message):
            raise NotYet(NOT_KNOWN.format(schema_id(value)))
        if way.older is None:
            return row
        by_itself, how = way.older
        whole: Row = filled(row, by_itself.row(by_itself.parsed(body)), how, _is_same)
        return whole

    def _way(self, topic: str, value: bytes) -> _Way:
        """The way of a value, kept for those with the same header."""
        reader = self._readers.get(topic) or self._readers.get(ANY_TOPIC)
        if reader is None:
            raise NotYet(f"topic {topic} has no subject")
        if self._cache is None:
            way = _Way(reader, 0, True, None)
        else:
            number = schema_id(value)
            indexes, position = message_indexes(value)
            name = self._names.get((number, indexes)) or self._name(number, indexes)
            if name != reader.wanted:
                raise Undecodable(f"it is a message {name}, not {reader.wanted}")
            older = self._older.get((topic, number)) or self._older.get((ANY_TOPIC, number))
            way = _Way(reader, position, number in self._known, older)
        if len(self._ways) < _MOST_WAYS:
            self._ways[topic, value[: way.position]] = way
            self._head_bytes = way.position
        return way

    def _name(self, number: int, indexes: tuple[int, ...]) -> str:
        assert self._cache is not None
        try:
            schema, _ = self._cache.schema(number)
        except RegistryError as error:
            raise NotYet(str(error)) from error
        if schema.type != PROTOBUF:
            raise Undecodable(f"schema id {number} is of type {schema.type}, not {PROTOBUF}")
        name = message_name(schema.text, indexes)
        self._names[number, indexes] = name
        return name
