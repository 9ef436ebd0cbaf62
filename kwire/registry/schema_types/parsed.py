"""What all types of schemas have in common: a parsed schema, its errors and its limits.

Rules:

- A schema is hostile until it is parsed. Every step of parsing and comparing is counted, and ends
  in InvalidSchema or TooComplex when a limit of this module is reached.
- A schema is never fetched: what it refers to is among its references, or is nowhere.
- ``canonical`` makes two schemas the same: spaces, and what the type's format leaves open, are
  gone. ``normalized`` is what a client asks for with ``normalize=true``: the order of what has no
  order is gone, too.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_SCHEMA_BYTES = 1024 * 1024
"""Of a schema's text, in UTF-8: what a record of ``_schemas`` holds with Kafka's defaults."""
MAX_DEPTH = 100
"""How deep the parts of a schema are nested in each other."""
MAX_PARTS = 50_000
"""The parts of a schema: its types, fields, symbols, or the values of its JSON."""
MAX_REFERENCES = 500
"""The schemas that a schema uses, also indirectly."""
MAX_STEPS = 50_000
"""The pairs of parts that are looked at to compare two schemas."""
MAX_COMPARED_DEPTH = 150
"""How deep two schemas are looked into, from type to type by their names."""
MAX_FOUND = 100
"""The incompatibilities that are told of one pair of schemas."""


class InvalidSchema(ValueError):
    """A text that is no schema of its type, or one beyond the limits; the text says why."""


class NoSuchType(InvalidSchema):
    """A schema of a type whose package isn't installed; the text says how to install it."""


class TooComplex(InvalidSchema):
    """Two schemas whose comparison takes more than ``MAX_STEPS``."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """What a reader with one schema can't read of data that was written with another.

    ``kind`` is Confluent's name for it, such as READER_FIELD_MISSING_DEFAULT_VALUE, and ``path``
    the place in the reader's schema.
    """

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        """As the messages of a verbose answer have it: ``{errorType:"…", description:"…"}``."""
        return f'{{errorType:"{self.kind}", description:"{self.text} (path {self.path})"}}'


class ParsedSchema(ABC):
    """A schema that was parsed; it never changes."""

    type: str
    """AVRO, JSON or PROTOBUF."""

    def __init__(self, text: str, references: Mapping[str, "ParsedSchema"]) -> None:
        self.text = text
        """As it was registered."""
        self.references = dict(references)
        """The schemas that this one uses, by the names that it uses."""

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text that makes two schemas the same, if they have the same references."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """The text of ``normalize=true``; a schema of the same type with the same meaning."""

    @abstractmethod
    def unreadable_of(self, writer: "ParsedSchema") -> list[Incompatibility]:
        """What a reader with this schema can't read of ``writer``'s data; both of one type.

        Up to ``MAX_FOUND``. Raises TooComplex.
        """


def all_references(references: Mapping[str, ParsedSchema]) -> Iterator[tuple[str, ParsedSchema]]:
    """The references by name, each after those that it uses; each name once.

    Raises InvalidSchema for more than ``MAX_REFERENCES``.
    """
    found: dict[str, ParsedSchema] = {}
    opened: set[str] = set()
    waiting = list(reversed(list(references.items())))
    while waiting:
        name, schema = waiting[-1]
        if name in opened:
            waiting.pop()
            found.setdefault(name, schema)
            continue
        opened.add(name)
        if len(opened) > MAX_REFERENCES:
            raise InvalidSchema(f"it uses more than {MAX_REFERENCES} other schemas")
        own = [(one, used) for one, used in schema.references.items() if one not in opened]
        waiting += reversed(own)
    return iter(found.items())


def parsed_json(text: str) -> Any:
    """The JSON of a text, within ``MAX_DEPTH`` and ``MAX_PARTS``; InvalidSchema."""
    try:
        found = json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise InvalidSchema(f"it is nested more than {MAX_DEPTH} deep") from error
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from error
    parts, level, depth = 0, [found], 0
    while level:
        parts, depth = parts + len(level), depth + 1
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"it is nested more than {MAX_DEPTH} deep")
        if parts > MAX_PARTS:
            raise InvalidSchema(f"it has more than {MAX_PARTS:,} parts")
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
    return found


def written_json(value: Any, *, in_order: bool = False) -> str:
    """JSON without spaces; ``in_order`` sorts the keys of objects."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=in_order)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
