"""JSON Schema: a schema, its canonical and its normalized text.

Rules:

- Drafts 4, 6, 7, 2019-09 and 2020-12, by ``$schema``; draft 7 without it, as Confluent's registry
  has it.
- A text is a schema if the meta-schema of its draft says so. ``jsonschema-rs`` checks that; it
  takes milliseconds where ``jsonschema`` takes seconds.
- The canonical text is the JSON without spaces; the normalized one has its keys by name.
- Every ``$ref`` is resolved when the schema is parsed: within the schema, by ``$id`` or anchor, or
  in one of the registered references by its name. Nothing is ever fetched.
- No regular expression is run here. ``json_compatibility`` runs those of ``patternProperties`` on
  names of properties, by RE2, which takes linear time.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from kwire.config.extras import needs
from kwire.registry.schema_types.json_compatibility import unreadable
from kwire.registry.schema_types.json_nodes import Schema, Tree
from kwire.registry.schema_types.parsed import (
    MAX_PARTS,
    Incompatibility,
    InvalidSchema,
    NoSuchType,
    ParsedSchema,
    all_references,
    parsed_json,
    written_json,
)

if TYPE_CHECKING:
    from referencing import Registry, Specification

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": "DRAFT4",
    "http://json-schema.org/draft-06/schema": "DRAFT6",
    "http://json-schema.org/draft-07/schema": "DRAFT7",
    "https://json-schema.org/draft/2019-09/schema": "DRAFT201909",
    "https://json-schema.org/draft/2020-12/schema": "DRAFT202012",
}
_DEFAULT_DRAFT = "http://json-schema.org/draft-07/schema"
_MAX_CHARS_OF_A_REASON = 200


class JsonSchema(ParsedSchema):
    """A schema of JSON Schema."""

    type = "JSON"

    def __init__(
        self, text: str, references: Mapping[str, ParsedSchema], document: Schema, tree: Tree
    ) -> None:
        super().__init__(text, references)
        self.document = document
        """The JSON of the schema."""
        self.tree = tree
        """Its nodes."""

    @cached_property
    def canonical(self) -> str:
        """As the module says."""
        return written_json(self.document)

    @cached_property
    def normalized(self) -> str:
        """As the module says."""
        return written_json(self.document, in_order=True)

    def unreadable_of(self, writer: ParsedSchema) -> list[Incompatibility]:
        """See ``json_compatibility``."""
        assert isinstance(writer, JsonSchema)
        return unreadable(self.tree.root, writer.tree.root)


def parse(text: str, references: Mapping[str, ParsedSchema]) -> JsonSchema:
    """Parse a schema within the limits of ``parsed``; InvalidSchema."""
    document = parsed_json(text)
    if not isinstance(document, dict | bool):
        raise InvalidSchema("it is neither an object nor true nor false")
    draft = _draft(document)
    _check(draft, document)
    tree = Tree(document, _specification(draft), _known(document, references))
    _resolve_all(tree)
    return JsonSchema(text, references, document, tree)


def _draft(document: Schema) -> str:
    """The address of a document's draft, without a fragment; InvalidSchema."""
    if isinstance(document, bool) or "$schema" not in document:
        return _DEFAULT_DRAFT
    given = document["$schema"]
    found = given.removesuffix("#") if isinstance(given, str) else ""
    secured = found.replace("http://json-schema.org/draft/", "https://json-schema.org/draft/")
    if secured not in _DRAFTS:
        raise InvalidSchema(f"its $schema is {str(given)[:100]}, none of {', '.join(_DRAFTS)}")
    return secured


@cache
def _validator(draft: str) -> Any:
    """What checks schemas of a draft."""
    try:
        import jsonschema_rs
    except ImportError as error:
        raise NoSuchType(f"JSON Schema: it {needs('registry', 'jsonschema-rs')}") from error

    def never(address: str) -> Any:
        raise ValueError(f"{address} isn't fetched")

    return jsonschema_rs.validator_for({"$schema": draft, "$ref": draft}, retriever=never)


def _check(draft: str, document: Schema) -> None:
    for error in _validator(draft).iter_errors(document):
        path = "/".join(map(str, error.instance_path))
        reason = " ".join(str(error.message).split())[:_MAX_CHARS_OF_A_REASON]
        raise InvalidSchema(f"it is no JSON Schema at #/{path[:_MAX_CHARS_OF_A_REASON]}: {reason}")


@cache
def _specification(draft: str) -> "Specification[Any]":
    try:
        from referencing import jsonschema
    except ImportError as error:
        raise NoSuchType(f"JSON Schema: it {needs('registry', 'referencing')}") from error
    found: Specification[Any] = getattr(jsonschema, _DRAFTS[draft])
    return found


def _known(document: Schema, references: Mapping[str, ParsedSchema]) -> "Registry[Any]":
    """The references by their names, which are also read as addresses beside the document's."""
    from referencing import Registry

    own = str(document.get("$id", "")) if isinstance(document, dict) else ""
    registry: Registry[Any] = Registry()
    for name, one in all_references(references):
        if isinstance(one, JsonSchema):
            resource = _specification(_draft(one.document)).create_resource(one.document)
            for address in (name, urljoin(own, name)):
                registry = registry.with_resource(address, resource)
    return registry


def _resolve_all(tree: Tree) -> None:
    """Resolve every reference of a tree; InvalidSchema for one that leads nowhere."""
    seen: set[int] = set()
    waiting = [tree.root]
    while waiting:
        node = waiting.pop()
        if id(node.schema) in seen:
            continue
        seen.add(id(node.schema))
        if len(seen) > MAX_PARTS:
            raise InvalidSchema(f"it has more than {MAX_PARTS:,} parts with its references")
        target = node.target()
        if target is not None:
            waiting.append(target)
        waiting += tree.subschemas(node)
