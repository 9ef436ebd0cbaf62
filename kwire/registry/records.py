"""The records of ``_schemas``, as Confluent's registry writes and reads them.

Key and value are compact JSON. A key's properties have one order, because compaction compares keys
byte by byte:

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    {"keytype":"CONFIG","subject":"orders-value","magic":0}        without subject: of all subjects
    {"keytype":"MODE","subject":"orders-value","magic":0}          likewise
    {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}
    {"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}
    {"keytype":"CONTEXT","tenant":"default","context":".other","magic":0}
    {"keytype":"NOOP","magic":0}

A record without a value deletes what its key names. The value of a schema has its id, its text and
what it refers to, and whether it is soft deleted. Properties that kwire has no use for, such as
those of a newer registry, are kept when the record is written again.

Source: SchemaKey, SchemaValue, ConfigValue, ModeValue and others of Confluent's registry.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

SCHEMA, CONFIG, MODE, NOOP = "SCHEMA", "CONFIG", "MODE", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT"

TENANT = "default"
AVRO = "AVRO"
"""The type of a schema whose record and answer name none."""

MAX_NUMBER = (1 << 31) - 1
"""The largest id and version: an int of Java."""

_MAGIC = {SCHEMA: 1}
_ORDER = ("keytype", "tenant", "context", "subject", "version", "magic")
_KNOWN = frozenset(
    ("subject", "version", "id", "schemaType", "references", "schema", "deleted", "md5")
)
"""What a schema's value has that kwire writes itself; ``md5`` would not fit a changed text."""

Body: TypeAlias = dict[str, Any]


class InvalidRecord(Exception):
    """A key or value that no registry writes; the text says why."""


class Key(NamedTuple):
    """The key of a record; ``subject`` is empty for all subjects, ``version`` 0 for none."""

    keytype: str
    subject: str = ""
    version: int = 0
    context: str = ""


class Reference(NamedTuple):
    """Another schema that one uses, by the name that it has in there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema without its id: what makes it the same as another one, and what it needs."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    more: str = "{}"
    """Its other properties as JSON: ``metadata``, ``ruleSet``, and those of newer registries."""

    @property
    def chars(self) -> int:
        """The characters that it has in memory, besides its references."""
        return len(self.text) + len(self.more)


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class RegistryRecord:
    """A record of the topic; ``value`` is None to delete what the key names."""

    key: Key
    value: SchemaValue | Mapping[str, Any] | None = field(default=None)


def encode(record: RegistryRecord) -> tuple[bytes, bytes | None]:
    """A record's key and value as bytes."""
    key, value = record.key, record.value
    parts: Body = {**key._asdict(), "magic": _MAGIC.get(key.keytype, 0)}
    if key.context:
        parts["tenant"] = TENANT
    written = {name: parts[name] for name in _ORDER if parts.get(name) or name == "magic"}
    if value is None:
        return _json(written), None
    return _json(written), _json(schema_body(value) if isinstance(value, SchemaValue) else value)


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """The record of these bytes; InvalidRecord."""
    if key is None:
        raise InvalidRecord("it has no key")
    parts = _object(key)
    keytype = parts.get("keytype")
    if not isinstance(keytype, str):
        raise InvalidRecord("its key has no keytype")
    read = Key(
        keytype,
        _text(parts, "subject"),
        _number(parts, "version") if keytype == SCHEMA else 0,
        _text(parts, "context"),
    )
    if value is None or keytype == NOOP:
        return RegistryRecord(read)
    body = _object(value)
    return RegistryRecord(read, _schema_value(read, body) if keytype == SCHEMA else body)


def schema_body(value: SchemaValue) -> Body:
    """The value of a version's record."""
    schema = value.schema
    body: Body = {"subject": value.subject, "version": value.version, "id": value.id}
    more: Body = json.loads(schema.more)
    return body | described(schema) | more | {"deleted": value.is_deleted}


def described(schema: Schema) -> Body:
    """A schema as records and answers have it; Avro is not named."""
    body: Body = {}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [one._asdict() for one in schema.references]
    body["schema"] = schema.text
    return body


def more_of(body: Mapping[str, Any], *names: str) -> str:
    """Other properties of a schema, as ``Schema.more`` has them; by default all unknown ones.

    Raises InvalidRecord.
    """
    found = names or sorted(set(body) - _KNOWN)
    more = {name: body[name] for name in found if body.get(name) is not None}
    try:
        return json.dumps(more, allow_nan=False)
    except ValueError:
        raise InvalidRecord("it has a number that JSON hasn't, such as 1e999") from None


def references_of(body: Mapping[str, Any]) -> tuple[Reference, ...]:
    """The references of a schema's JSON; InvalidRecord."""
    found = body.get("references") or []
    if not isinstance(found, list):
        raise InvalidRecord("references is no list")
    read = []
    for one in found:
        if not isinstance(one, dict):
            raise InvalidRecord("a reference is no object")
        name, subject, version = one.get("name"), one.get("subject"), one.get("version")
        is_text = isinstance(name, str) and isinstance(subject, str)
        if not is_text or type(version) is not int:
            raise InvalidRecord("a reference needs name, subject and version")
        read.append(Reference(str(name), str(subject), version))
    return tuple(read)


def _schema_value(key: Key, body: Mapping[str, Any]) -> SchemaValue:
    number, text = body.get("id"), body.get("schema")
    if type(number) is not int or not 0 <= number <= MAX_NUMBER or not isinstance(text, str):
        raise InvalidRecord("its schema has no id or no text")
    if not key.subject or not 1 <= key.version <= MAX_NUMBER:
        raise InvalidRecord("its key has no subject or no version")
    kind = body.get("schemaType") or AVRO
    schema = Schema(str(kind), text, references_of(body), more_of(body))
    return SchemaValue(key.subject, key.version, number, schema, body.get("deleted") is True)


def _object(content: bytes) -> Body:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidRecord("it is no JSON object")
    return found


def _text(parts: Body, name: str) -> str:
    found = parts.get(name)
    if found is not None and not isinstance(found, str):
        raise InvalidRecord(f"the key's {name} is no text")
    return found or ""


def _number(parts: Body, name: str) -> int:
    found = parts.get(name)
    if type(found) is not int:
        raise InvalidRecord(f"the key's {name} is no number")
    return found


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
