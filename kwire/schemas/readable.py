"""Values as JSON for people to read, by the schemas of a registry, within limits.

Rules:

- ``learn`` asks the registry, and may wait: it belongs into a thread. ``decoded`` never waits.
- A schema that was found stays. A question that failed is asked again by a later ``learn``, after
  the new ones; how soon, ``SchemaCache`` says. A schema that can't be used isn't asked for again.
- Whatever is wrong is Undecodable with one line: the registry, the schema, the value, or a package
  that isn't installed. Such a line contains no password.
- Limits: ``MAX_SCHEMA_BYTES`` of a schema, ``MAX_VALUE_BYTES`` of a value, ``MAX_CHARS`` of its
  text, ``MAX_KIND`` of its type's name, and those of ``avro_readable``. ``MAX_READERS`` schemas and
  failures are kept, and of schemas ``MAX_KEPT_CHARS``.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kwire.config.extras import needs
from kwire.schemas import avro_readable, protobuf_readable
from kwire.schemas.avro_names import Schema, full_name, schema_and_names
from kwire.schemas.cache import SchemaCache
from kwire.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    Registry,
    RegistryError,
    RegistrySettings,
)
from kwire.schemas.undecodable import NotYet, Undecodable, WrongSchema
from kwire.schemas.wire_format import HEADER_BYTES, message_indexes, schema_id

EXTRA = "schemas"
MAX_VALUE_BYTES = 32 * 1024
MAX_SCHEMA_BYTES = 256 * 1024
MAX_CHARS = 64 * 1024
MAX_KIND = 200
MAX_READERS = 1000
MAX_KEPT_CHARS = 4 * 1024 * 1024
_INDENTED = json.JSONEncoder(indent=2, ensure_ascii=False)

T = TypeVar("T")

Read = Callable[[bytes], tuple[str, Any]]
"""From a value with its header to the name of its type, and the value as what JSON has."""


class Decoded(NamedTuple):
    """A value as text; ``kind`` names the format and the type: ``Avro shop.Order``."""

    kind: str
    text: str


class ReadableValues:
    """Decodes the values of one registry; see the module's rules."""

    def __init__(
        self, settings: RegistrySettings, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = Registry(settings)
        self._now_s = now_s
        self._cache = SchemaCache(self._registry, now_s)
        self._readers: dict[int, Read] = {}
        self._kept_chars = 0
        self._failed: dict[int, Undecodable] = {}

    def _forget(self) -> None:
        """Forget the schemas, also those that the registry's client keeps."""
        self._registry.close()
        self._cache = SchemaCache(self._registry, self._now_s)
        self._readers = {}
        self._kept_chars = 0

    def unknown(self, values: Iterable[bytes]) -> list[int]:
        """The ids of those schemas that may be asked for: the new ones, then those that failed."""
        numbers = {schema_id(value) for value in values if is_framed(value)}
        found = {number: self._failed.get(number) for number in numbers - self._readers.keys()}
        new = sorted(number for number, error in found.items() if error is None)
        return new + sorted(number for number, error in found.items() if isinstance(error, NotYet))

    def learn(self, numbers: Iterable[int], until_s: float) -> None:
        """Ask for schemas until this time; what fails is the error of their values."""
        if self._kept_chars > MAX_KEPT_CHARS:
            self._forget()
        for number in numbers:
            if self._now_s() > until_s:
                return
            try:
                read = self._reader(number)
            except Undecodable as error:
                # Without the frames that the error refers to, and with them a schema and a value.
                _put(self._failed, number, type(error)(str(error)))
            else:
                _put(self._readers, number, read)
                self._failed.pop(number, None)

    def decoded(self, value: bytes) -> Decoded:
        """A value with its header as text; Undecodable."""

        def as_text(kind: str, found: Any) -> Decoded:
            kind = kind if len(kind) <= MAX_KIND else f"{kind[:MAX_KIND]}…"
            return Decoded(_sendable(kind), _text(found))

        return self._read(value, as_text)

    def document(self, value: bytes) -> Any:
        """A value with its header as what JSON has; Undecodable."""
        return self._read(value, lambda _, found: found)

    def _read(self, value: bytes, use: Callable[[str, Any], T]) -> T:
        """What ``use`` makes of a value's type and of the value; Undecodable."""
        if len(value) > MAX_VALUE_BYTES:
            raise Undecodable(f"it has more than {MAX_VALUE_BYTES:,} bytes")
        number = schema_id(value)
        read = self._readers.get(number)
        if read is None:
            failed = self._failed.get(number) or NotYet("it hasn't answered yet; ask again")
            raise failed.with_traceback(None)  # or it would get longer each time
        try:
            return use(*read(value))
        except WrongSchema as error:
            raise Undecodable(f"its schema, id {number}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise Undecodable(f"its schema, id {number}, isn't one for this value") from error

    def _reader(self, number: int) -> Read:
        try:
            schema, used = self._cache.schema(number)
            size_chars = len(schema.text) + sum(len(one.text) for one in used.values())
            self._kept_chars += size_chars
            if size_chars > MAX_SCHEMA_BYTES:
                raise WrongSchema(f"it has more than {MAX_SCHEMA_BYTES:,} characters")
            return _reader_of(schema, used)
        except RegistryError as error:
            raise NotYet(str(error)) from error
        except ImportError as error:
            what = f"to ask it {needs(EXTRA, 'confluent-kafka[schemaregistry]')}"
            raise NotYet(what) from error
        except WrongSchema as error:
            raise Undecodable(f"its schema, id {number}: {error}") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise NotYet(f"schema id {number} can't be read at the moment: {reason}") from error
        except Exception as error:  # whatever a schema, or the answer, makes a library raise
            reason = type(error).__name__
            raise Undecodable(f"its schema, id {number}, can't be read: {reason}") from error


def _put(kept: dict[int, T], number: int, value: T) -> None:
    """Keep a value, and forget the oldest one if there are too many."""
    if number not in kept and len(kept) >= MAX_READERS:
        kept.pop(next(iter(kept)))
    kept[number] = value


def is_framed(value: bytes) -> bool:
    """Whether a value begins as one whose schema is in a registry."""
    return len(value) >= HEADER_BYTES and value[0] == 0


def _reader_of(schema: RegisteredSchema, used: dict[str, RegisteredSchema]) -> Read:
    if schema.type == AVRO:
        return _avro(schema, used)
    if schema.type == JSON:
        return _json(schema)
    if schema.type == PROTOBUF:
        return _protobuf(schema, used)
    raise WrongSchema(f"its type is {schema.type}, which isn't read")


def _avro(schema: RegisteredSchema, used: dict[str, RegisteredSchema]) -> Read:
    parsed, names = schema_and_names(schema.text, [one.text for one in used.values()])
    kind = f"Avro {_name(parsed)}"

    def read(value: bytes) -> tuple[str, Any]:
        return kind, avro_readable.readable(parsed, names, value[HEADER_BYTES:])

    return read


def _name(schema: Schema) -> str:
    if not isinstance(schema, dict):
        return schema if isinstance(schema, str) else "union"
    return full_name(schema, "") if "name" in schema else str(schema.get("type"))


def _json(schema: RegisteredSchema) -> Read:
    try:
        parsed = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise WrongSchema(f"it is no JSON: {error}") from error
    title = parsed.get("title", "") if isinstance(parsed, dict) else ""
    kind = f"JSON Schema {title}".rstrip()

    def read(value: bytes) -> tuple[str, Any]:
        try:
            return kind, json.loads(value[HEADER_BYTES:])
        except (ValueError, RecursionError) as error:
            raise Undecodable("it is no JSON") from error

    return read


def _protobuf(schema: RegisteredSchema, used: dict[str, RegisteredSchema]) -> Read:
    of_messages = protobuf_readable.reader(
        schema.text, ((name, one.text) for name, one in used.items())
    )

    def read(value: bytes) -> tuple[str, Any]:
        indexes, position = message_indexes(value)
        name, fields = of_messages(indexes, value[position:])
        return f"Protobuf {name}", fields

    return read


def _text(found: Any) -> str:
    """JSON with indents, cut after ``MAX_CHARS``: a few bytes may stand for long names."""
    pieces, left = [], MAX_CHARS
    for piece in _INDENTED.iterencode(found):
        pieces.append(piece[:left])
        left -= len(piece)
        if left < 0:
            pieces.append("…")
            break
    return _sendable("".join(pieces))


def _sendable(text: str) -> str:
    """A text without half characters, which JSON may have, and no page can be sent with."""
    return text.encode("utf-8", "backslashreplace").decode()
