"""Avro: a schema, its canonical and its normalized text.

The canonical text is that of Avro's Java library (``Schema.toString``), which Confluent's registry
has in its ids: attributes in a fixed order, a namespace only where it changes, a type that was
defined before (or in a reference) by its name. The normalized text has full names instead of
namespaces, and the attributes that Avro doesn't know by name.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from kwire.registry.schema_types.avro_compatibility import unreadable
from kwire.registry.schema_types.avro_types import (
    PRIMITIVE,
    UNION,
    AvroField,
    AvroType,
    TypeParser,
)
from kwire.registry.schema_types.parsed import (
    Incompatibility,
    ParsedSchema,
    all_references,
    parsed_json,
    written_json,
)


class AvroSchema(ParsedSchema):
    """A schema of Avro."""

    type = "AVRO"

    def __init__(
        self,
        text: str,
        references: Mapping[str, ParsedSchema],
        root: AvroType,
        own: list[AvroType],
    ) -> None:
        super().__init__(text, references)
        self.root = root
        """The type of the whole schema."""
        self.own = own
        """The named types that it defines; others are those of its references."""

    @cached_property
    def canonical(self) -> str:
        """As the module says; the texts of references aren't part of it."""
        return written_json(_Writer(self.own, is_normal=False).written(self.root, ""))

    @cached_property
    def normalized(self) -> str:
        """As the module says."""
        return written_json(_Writer(self.own, is_normal=True).written(self.root, ""))

    def unreadable_of(self, writer: ParsedSchema) -> list[Incompatibility]:
        """See ``avro_compatibility``."""
        assert isinstance(writer, AvroSchema)
        return unreadable(self.root, writer.root)


def parse(text: str, references: Mapping[str, ParsedSchema]) -> AvroSchema:
    """Parse a schema within the limits of ``parsed``; InvalidSchema.

    The types of its references, also of theirs, are known to it by their own full names.
    """
    names: dict[str, AvroType] = {}
    for _, used in all_references(references):
        if isinstance(used, AvroSchema):
            names.update((one.name, one) for one in used.own)
    parser = TypeParser(names)
    return AvroSchema(text, references, parser.parse(parsed_json(text)), parser.own)


class _Writer:
    """Writes a type as what JSON has; a named type in full where it stands first."""

    def __init__(self, own: list[AvroType], *, is_normal: bool) -> None:
        self._unwritten = set(own)
        self._is_normal = is_normal

    def written(self, one: AvroType, namespace: str) -> Any:
        """The JSON of a type that stands in a namespace."""
        if one.kind == UNION:
            return [self.written(branch, namespace) for branch in one.parts]
        if one.name:
            return self._named(one, namespace)
        if one.kind in PRIMITIVE:
            return {"type": one.kind, **self._others(one)} if one.properties else one.kind
        inner = "items" if one.kind == "array" else "values"
        return {
            "type": one.kind,
            inner: self.written(one.parts[0], namespace),
            **self._others(one),
        }

    def _named(self, one: AvroType, namespace: str) -> Any:
        if one not in self._unwritten:
            is_near = one.namespace == namespace and not self._is_normal
            return one.short_name if is_near else one.name
        self._unwritten.remove(one)
        found: dict[str, Any] = {"type": one.kind, "name": one.name}
        if not self._is_normal:
            found["name"] = one.short_name
            if one.namespace != namespace:
                found["namespace"] = one.namespace
        if one.doc is not None:
            found["doc"] = one.doc
        if one.kind == "enum":
            found["symbols"] = list(one.symbols)
            if one.default is not None:
                found["default"] = one.default
        elif one.kind == "fixed":
            found["size"] = one.size
        else:
            found["fields"] = [self._field(part, one.namespace) for part in one.fields]
        found |= self._others(one)
        if one.aliases:
            found["aliases"] = [self._alias(alias, one.namespace) for alias in one.aliases]
        return found

    def _alias(self, alias: str, namespace: str) -> str:
        own, _, short = alias.rpartition(".")
        return short if own == namespace and not self._is_normal else alias

    def _field(self, one: AvroField, namespace: str) -> dict[str, Any]:
        found = {"name": one.name, "type": self.written(one.type, namespace)}
        if one.doc is not None:
            found["doc"] = one.doc
        if one.has_default:
            found["default"] = one.default
        if one.order != "ascending":
            found["order"] = one.order
        if one.aliases:
            found["aliases"] = list(one.aliases)
        return found | self._others(one)

    def _others(self, one: AvroType | AvroField) -> dict[str, Any]:
        if not self._is_normal:
            return one.properties
        return {name: _in_order(one.properties[name]) for name in sorted(one.properties)}


def _in_order(value: Any) -> Any:
    """A value of JSON whose objects have their keys by name."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(one) for one in value] if isinstance(value, list) else value
