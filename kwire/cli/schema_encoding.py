"""Keys and values of JSON in a registry's format, for ``kwire produce --schema``.

``--schema`` and ``--key-schema`` name a file, which is registered first, or a subject, whose newest
schema is taken. A file's subject is that of the topic: ``TOPIC-value``, ``TOPIC-key``.
"""

import argparse
from pathlib import Path

from kwire.cli.record_lines import ReadRecord, RecordLineError
from kwire.cli.schemas import TYPES
from kwire.cli.session import CommandError
from kwire.schemas.registry import RegisteredSchema, Registry, RegistryError, RegistrySettings
from kwire.schemas.undecodable import Unwritable, WrongSchema
from kwire.schemas.writable import WritableValues


class SchemaEncoding:
    """Encodes the records of one topic. It asks the registry at once; CommandError."""

    def __init__(self, options: argparse.Namespace) -> None:
        login = "--registry http://USER:PASSWORD@…"
        registry = Registry(RegistrySettings(options.registry, login_names=login))
        try:
            self._key = _values(registry, options.key_schema, f"{options.topic}-key")
            self._value = _values(registry, options.schema, f"{options.topic}-value")
        except RegistryError as error:
            raise CommandError(str(error)) from error
        finally:
            registry.close()

    def encoded(self, record: ReadRecord) -> ReadRecord:
        """The record with its key and value in the registry's format; RecordLineError."""
        return record._replace(
            key=_written(self._key, "key", record.key),
            value=_written(self._value, "value", record.value),
        )


def _values(registry: Registry, named: str | None, subject: str) -> WritableValues | None:
    if named is None:
        return None
    kind = TYPES.get(Path(named).suffix)
    if kind is None or not Path(named).exists():
        schema = registry.newest(named)
    else:
        try:
            text = Path(named).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CommandError(f"cannot read {named}: {error}") from error
        schema = RegisteredSchema(registry.register(subject, text, kind), kind, text)
    try:
        return WritableValues(schema, registry.referenced(schema))
    except WrongSchema as error:
        raise CommandError(f"the schema of {named}, id {schema.id}: {error}") from error


def _written(values: WritableValues | None, what: str, content: bytes | None) -> bytes | None:
    if values is None or content is None:
        return content
    try:
        return values.written(content)
    except Unwritable as error:
        raise RecordLineError(f"its {what} doesn't fit the schema: {error}") from error
