"""Values of Connect's converters with a registry: Avro, Protobuf, or JSON, each by its schema's id.

With JSON the registry's schema isn't looked at: such values are like those without a schema.
"""

from typing import Any

from kwire.schemas.cache import cache_of
from kwire.schemas.protobuf_compiler import compile_text
from kwire.schemas.registry import (
    AVRO,
    PROTOBUF,
    RegisteredSchema,
    RegistryError,
    RegistrySettings,
)
from kwire.schemas.undecodable import NotYet, Undecodable
from kwire.schemas.wire_format import HEADER_BYTES, message_indexes, schema_id
from kwire.spark.decode.avro_schema import load
from kwire.spark.decode.connect_avro import ConnectAvro
from kwire.spark.decode.connect_protobuf import ConnectProtobuf
from kwire.spark.decode.connect_values import Schema, from_json
from kwire.spark.decode.proto_text import message_name
from kwire.spark.decode.protobuf_decoder import ProtobufReader

_MOST_READERS = 1000


class ConnectRegistry:
    """Reads values in Confluent's wire format; lives as long as its worker process."""

    def __init__(self, registry: RegistrySettings) -> None:
        self._cache = cache_of(registry)
        self._readers: dict[tuple[int, tuple[int, ...]], ConnectAvro | ConnectProtobuf | str] = {}

    def value(self, content: bytes) -> tuple[Any, Schema | None]:
        """A value and its schema as Connect has it, None without; Undecodable."""
        number = schema_id(content)
        try:
            schema, used = self._cache.schema(number)
        except RegistryError as error:
            raise NotYet(str(error)) from error
        if schema.type not in (AVRO, PROTOBUF):
            return from_json(_text(content[HEADER_BYTES:])), None
        indexes: tuple[int, ...] = ()
        position = HEADER_BYTES
        if schema.type == PROTOBUF:
            indexes, position = message_indexes(content)
        reader = self._readers.get((number, indexes))
        if reader is None:
            texts = {name: one.text for name, one in used.items()}
            reader = _reader(number, schema, texts, indexes)
            if len(self._readers) >= _MOST_READERS:
                self._readers.pop(next(iter(self._readers)))
            self._readers[number, indexes] = reader
        if isinstance(reader, str):
            raise Undecodable(reader)
        return reader.value(content, position), reader.schema


def _reader(
    number: int, schema: RegisteredSchema, used: dict[str, str], indexes: tuple[int, ...]
) -> ConnectAvro | ConnectProtobuf | str:
    """What reads the values of a schema, or why nothing can: it isn't compiled for each value."""
    try:
        if schema.type == AVRO:
            return ConnectAvro(load(schema.text, used.values()))
        compiled = compile_text(schema.text, tuple(used.items()))
        message = ProtobufReader(compiled, message_name(schema.text, indexes))
        return ConnectProtobuf(message.descriptor())
    except Exception as error:  # fastavro and protobuf raise errors of several kinds
        return f"schema id {number}: {error}"


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Undecodable("it isn't UTF-8") from error
