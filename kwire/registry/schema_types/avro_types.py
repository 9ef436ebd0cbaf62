"""The types of an Avro schema, and the parser that makes them of JSON.

Rules, those of Avro's Java library, which Confluent's registry uses:

- A type is named before it is used. A name without a dot belongs to the enclosing namespace, else
  to none.
- Attributes that Avro doesn't know belong to the schema: logical types are such.
- A default isn't held against its field's type (``avro.validate.defaults`` is off there, too), so
  that whatever is in Confluent's ``_schemas`` is a schema here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.registry.schema_types.parsed import MAX_DEPTH, MAX_PARTS, InvalidSchema

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
UNION = "union"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OF_TYPES = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"}
)
_OF_FIELDS = frozenset({"type", "name", "doc", "aliases", "default", "order"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
_MAX_FIXED_BYTES = 2**31 - 1
_MAX_CHARS_OF_A_NAME = 1000
"""Of a full name: each type within a namespace repeats it."""


@dataclass(eq=False, slots=True)
class AvroType:
    """A type; which of its attributes mean something depends on ``kind``.

    ``kind`` is a primitive type, ``record``, ``error``, ``enum``, ``fixed``, ``array``, ``map`` or
    ``union``. Types are compared by identity, for a recursive one has no end.
    """

    kind: str
    name: str = ""
    """The full name of a record, an enum or a fixed."""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    """Full names."""
    fields: "list[AvroField]" = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """The symbol that stands for those that a reader doesn't know (enums)."""
    size: int = 0
    parts: "list[AvroType]" = field(default_factory=list)
    """The branches of a union; the one type of an array's items or a map's values."""
    properties: dict[str, Any] = field(default_factory=dict)
    """The attributes that Avro doesn't know."""

    @property
    def namespace(self) -> str:
        """The namespace of the name; empty without one."""
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record; ``properties`` has the default, if there is one, as ``default``."""

    name: str
    type: AvroType
    doc: str | None = None
    has_default: bool = False
    default: Any = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


class TypeParser:
    """Makes types of JSON; ``names`` has the types of other schemas, and then those found."""

    def __init__(self, names: dict[str, AvroType]) -> None:
        self.names = names
        self.own: list[AvroType] = []
        """The named types of the schemas parsed here."""
        self._parts = 0

    def parse(self, schema: Any, namespace: str = "", depth: int = 0) -> AvroType:
        """The type of a JSON value that stands in a namespace; InvalidSchema."""
        self._count(depth)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace, depth)
        if not isinstance(schema, dict):
            raise InvalidSchema(f"{_short(schema)} is no type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            raise InvalidSchema(f"the type {_short(kind)} has to be a text here")
        if kind in PRIMITIVE:
            return AvroType(str(kind), properties=_others(schema, _OF_TYPES))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(schema, str(kind), namespace, depth)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in schema:
                raise InvalidSchema(f"a type {kind} has no {inner}")
            parts = [self.parse(schema[inner], namespace, depth + 1)]
            return AvroType(str(kind), parts=parts, properties=_others(schema, _OF_TYPES))
        if not isinstance(kind, str):
            raise InvalidSchema(f"{_short(schema)} has no type")
        return self._by_name(kind, namespace)

    def _count(self, depth: int) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidSchema(f"it has more than {MAX_PARTS:,} parts")
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"it is nested more than {MAX_DEPTH} deep")

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVE:
            return AvroType(name)
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise InvalidSchema(f"the type {_short(full)} is defined nowhere before it is used")
        return found

    def _union(self, schema: list[Any], namespace: str, depth: int) -> AvroType:
        branches = [self.parse(one, namespace, depth + 1) for one in schema]
        seen = set()
        for branch in branches:
            if branch.kind == UNION:
                raise InvalidSchema("a union stands directly in a union")
            name = branch.name or branch.kind
            if name in seen:
                raise InvalidSchema(f"a union has {_short(name)} twice")
            seen.add(name)
        return AvroType(UNION, parts=branches)

    def _named(self, schema: dict[str, Any], kind: str, namespace: str, depth: int) -> AvroType:
        name = _full_name(schema, kind, namespace)
        if name in self.names:
            raise InvalidSchema(f"the type {_short(name)} is defined twice")
        found = AvroType(kind, name, doc=_doc(schema))
        found.aliases = tuple(
            one if "." in one or not found.namespace else f"{found.namespace}.{one}"
            for one in _texts(schema, "aliases", name)
        )
        others = _OF_TYPES | {"default"} if kind == "enum" else _OF_TYPES
        found.properties = _others(schema, others)
        self.names[name] = found  # before its fields, which may name it
        self.own.append(found)
        if kind == "enum":
            self._add_symbols(found, schema)
        elif kind == "fixed":
            found.size = _size(schema, name)
        else:
            self._add_fields(found, schema, depth)
        return found

    def _add_symbols(self, found: AvroType, schema: dict[str, Any]) -> None:
        if "symbols" not in schema:
            raise InvalidSchema(f"enum {_short(found.name)} has no symbols")
        found.symbols = _texts(schema, "symbols", found.name)
        self._parts += len(found.symbols)
        for one in found.symbols:
            if not _NAME.match(one):
                raise InvalidSchema(f"the symbol {_short(one)} of enum {found.name} is no name")
        if len(set(found.symbols)) < len(found.symbols):
            raise InvalidSchema(f"enum {found.name} has a symbol twice")
        if "default" in schema:
            found.default = schema["default"]
            if found.default not in found.symbols:
                raise InvalidSchema(f"the default of enum {found.name} is none of its symbols")

    def _add_fields(self, found: AvroType, schema: dict[str, Any], depth: int) -> None:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"record {_short(found.name)} has no list of fields")
        names = set()
        for one in fields:
            self._count(depth)
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise InvalidSchema(f"a field of record {found.name} has no name")
            name = one["name"]
            if not _NAME.match(name):
                raise InvalidSchema(f"{_short(name)} of record {found.name} is no name of a field")
            if name in names:
                raise InvalidSchema(f"record {found.name} has the field {name} twice")
            if "type" not in one:
                raise InvalidSchema(f"the field {name} of record {found.name} has no type")
            names.add(name)
            found.fields.append(self._field(one, found, depth))

    def _field(self, schema: dict[str, Any], record: AvroType, depth: int) -> AvroField:
        order = schema.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"{_short(order)} of record {record.name} is no order")
        return AvroField(
            name=schema["name"],
            type=self.parse(schema["type"], record.namespace, depth + 1),
            doc=_doc(schema),
            has_default="default" in schema,
            default=schema.get("default"),
            order=order.lower(),
            aliases=_texts(schema, "aliases", record.name),
            properties=_others(schema, _OF_FIELDS),
        )


def _full_name(schema: Mapping[str, Any], kind: str, namespace: str) -> str:
    """The full name of a type that stands in a namespace; InvalidSchema."""
    name, own = schema.get("name"), schema.get("namespace", namespace)
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"a type {kind} has no name")
    if not isinstance(own, str | None):
        raise InvalidSchema(f"the namespace of {_short(name)} is no text")
    if not _NAME.match(name.rpartition(".")[2]):
        raise InvalidSchema(f"{_short(name)} is no name of a type")
    full = name if "." in name or not own else f"{own}.{name}"
    full = full.removeprefix(".")
    if len(full) > _MAX_CHARS_OF_A_NAME:
        raise InvalidSchema(f"the name {_short(full)} has more than {_MAX_CHARS_OF_A_NAME} chars")
    if full in PRIMITIVE:
        raise InvalidSchema(f"{full} is the name of a primitive type")
    return full


def _size(schema: Mapping[str, Any], name: str) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_FIXED_BYTES:
        raise InvalidSchema(f"fixed {_short(name)} has no size in bytes")
    return size


def _texts(schema: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = schema.get(name)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidSchema(f"{name} of {_short(where)} is no list of texts")
    return tuple(found)


def _doc(schema: Mapping[str, Any]) -> str | None:
    doc = schema.get("doc")
    return doc if isinstance(doc, str) else None


def _others(schema: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: one for name, one in schema.items() if name not in known}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
