"""Protobuf values to rows, by the descriptors that the driver has compiled and shipped.

Rules:

- A message is read with the newest schema of its topic. Field numbers keep their meaning, and
  fields that this schema lacks are skipped, as Protobuf's rules for schema evolution say.
- With a registry, the decoder asks for the writer's schema by its id, but only to learn the name of
  the message.
- A message with another name than the configured one is an error. So is a message without its
  required fields.
- Protobuf's parser limits the depth of nesting to 100, and lengths to the bytes of the value.
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

    def decoder(self) -> "ProtobufDecoder":
        """Make the decoder."""
        return ProtobufDecoder(self)


class ProtobufDecoder:
    """Decodes Protobuf values to rows by the rules of this module."""

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
        """The columns of a value; any exception means that the value can't be decoded."""
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
