"""Protobuf values to rows, by the descriptors that the driver has compiled and shipped.

Rules:

- A message is read by the newest schema of its topic: field numbers keep their meaning, and fields
  that it doesn't know are passed over. That is Protobuf's own way of evolution.
- With a registry the writer's schema only says which message it is: its text is asked for by id.
- A message of another name than the one wanted is an error, as is one without required fields.
- Protobuf's parser bounds nesting (100) and lengths (the bytes that are there).
"""

from dataclasses import dataclass
from typing import Any

from kwire.spark.decode.decoding import Row
from kwire.spark.decode.proto_text import message_name
from kwire.spark.decode.protobuf_values import row_converter
from kwire.spark.decode.undecodable import NotYet, Undecodable
from kwire.spark.decode.wire_format import message_indexes, schema_id
from kwire.spark.registry.cache import cache_of
from kwire.spark.registry.client import PROTOBUF, RegistryError, RegistrySettings

ANY_TOPIC = ""


@dataclass(frozen=True, slots=True)
class ProtobufReader:
    """A FileDescriptorSet, and the message of it that a topic holds."""

    descriptors: bytes
    message: str

    def descriptor(self) -> Any:
        """The message's descriptor, in a pool of its own; KeyError if there is no such message."""
        from google.protobuf import descriptor_pb2, descriptor_pool

        files = descriptor_pb2.FileDescriptorSet.FromString(self.descriptors)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(self.message)


@dataclass(frozen=True, slots=True)
class ProtobufPlan:
    """The reader of each topic, and where writers' schemas are."""

    row_type: str
    readers: tuple[tuple[str, ProtobufReader], ...]
    registry: RegistrySettings | None

    def decoder(self) -> "ProtobufDecoder":
        """Make the decoder."""
        return ProtobufDecoder(self)


class ProtobufDecoder:
    """See the module's rules."""

    def __init__(self, plan: ProtobufPlan) -> None:
        from google.protobuf import message_factory

        self._readers = {}
        for topic, reader in plan.readers:
            descriptor = reader.descriptor()
            kind = message_factory.GetMessageClass(descriptor)
            self._readers[topic] = (reader.message, kind, row_converter(descriptor))
        self._cache = None if plan.registry is None else cache_of(plan.registry)
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}

    def row(self, topic: str, value: bytes) -> Row:
        """The columns of a value; any exception: it can't be decoded."""
        reader = self._readers.get(topic) or self._readers.get(ANY_TOPIC)
        if reader is None:
            raise NotYet(f"topic {topic} has no subject")
        wanted, kind, convert = reader
        if self._cache is not None:
            number = schema_id(value)
            indexes, position = message_indexes(value)
            name = self._names.get((number, indexes)) or self._name(number, indexes)
            if name != wanted:
                raise Undecodable(f"it is a message {name}, not {wanted}")
            value = value[position:]
        message = kind()
        try:
            message.ParseFromString(value)
        except Exception as error:
            raise Undecodable(f"it is no message {wanted}") from error
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise Undecodable(f"{wanted} lacks what it requires: {missing}")
        row: Row = convert(message)
        return row

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
