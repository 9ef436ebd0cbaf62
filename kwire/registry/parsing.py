"""Schemas with all that they refer to, and the work on them, which threads do.

Rules:

- A schema has at most ``MAX_REFERENCES`` others under it, ``MOST_DEPTH`` deep, and at most
  ``MOST_CHARS`` characters with them. Each of them is parsed once, however often it is referred to.
- A reference names a version of a subject, which may be soft deleted. Without a context it is in
  that of the schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.registry.compatibility import Level, violations
from kwire.registry.names import subject_beside
from kwire.registry.records import Schema
from kwire.registry.refusals import invalid_schema, no_such_type
from kwire.registry.schema_types.parsed import (
    MAX_REFERENCES,
    InvalidSchema,
    NoSuchType,
    ParsedSchema,
)
from kwire.registry.schema_types.parsing import parse
from kwire.registry.state import Place, RegistryState

MOST_DEPTH = 32
MOST_CHARS = 8 << 20


@dataclass(frozen=True, slots=True)
class SchemaTree:
    """A schema and those under it, by their names in it."""

    schema: Schema
    references: Mapping[str, "SchemaTree"] = field(default_factory=dict)


def tree_of(state: RegistryState, subject: str, schema: Schema) -> SchemaTree:
    """A schema with all that it refers to; Refused (42201)."""
    return _Gathering(state).tree(subject, schema, 0)


class _Gathering:
    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._known: dict[Place, SchemaTree] = {}
        self._chars = 0

    def tree(self, subject: str, schema: Schema, depth: int) -> SchemaTree:
        self._chars += len(schema.text)
        if self._chars > MOST_CHARS or len(self._known) > MAX_REFERENCES:
            raise invalid_schema(
                f"with its references it has more than {MAX_REFERENCES} schemas, or more than "
                f"{MOST_CHARS >> 20} MB"
            )
        if depth > MOST_DEPTH:
            raise invalid_schema(f"its references are more than {MOST_DEPTH} deep")
        found = {}
        for name, other, version in schema.references:
            place = Place(subject_beside(subject, other), version)
            if place not in self._known:
                value = self._state.version(place)
                if value is None:
                    text = f"No schema reference found for subject {other!r} and version {version}"
                    raise invalid_schema(text)
                self._known[place] = self.tree(place.subject, value.schema, depth + 1)
            found[name] = self._known[place]
        return SchemaTree(schema, found)


def parse_tree(tree: SchemaTree) -> ParsedSchema:
    """The parsed schema; Refused (42201)."""
    try:
        return _parse(tree, {})
    except NoSuchType as error:
        raise no_such_type(str(error)) from error
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from error
    except RecursionError as error:
        raise invalid_schema("it is nested too deeply") from error


def _parse(tree: SchemaTree, done: dict[int, ParsedSchema]) -> ParsedSchema:
    if id(tree) not in done:
        references = {name: _parse(one, done) for name, one in tree.references.items()}
        done[id(tree)] = parse(tree.schema.type, tree.schema.text, references)
    return done[id(tree)]


def canonical_text(tree: SchemaTree) -> str:
    """The canonical text of a schema that is stored already; its own text if it is no schema."""
    try:
        return _parse(tree, {}).canonical
    except (InvalidSchema, RecursionError):
        return tree.schema.text


def problems(level: Level, tree: SchemaTree, earlier: Mapping[int, SchemaTree]) -> list[str]:
    """Why a schema may not follow others, which are by their versions; Refused (42201).

    A stored schema that can't be parsed, as another registry may have stored it, is no problem
    of a later one.
    """
    new = parse_tree(tree)
    parsed = {version: _parsed_or_none(one) for version, one in earlier.items()}
    try:
        found = {version: one for version, one in parsed.items() if one is not None}
        return violations(level, new, found)
    except InvalidSchema as error:
        raise invalid_schema(str(error)) from error


def _parsed_or_none(tree: SchemaTree) -> ParsedSchema | None:
    try:
        return _parse(tree, {})
    except (InvalidSchema, RecursionError):
        return None
