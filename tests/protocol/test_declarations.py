"""The messages as kwire declares them are those of Apache Kafka 4.4.0's own definitions.

``tests/data/kafka-4.4-messages.json.gz`` has those definitions by name, without the comments.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwire.protocol import types
from kwire.protocol.messages import MODULES, message_classes
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

DEFINITIONS = Path(__file__).parent.parent / "data" / "kafka-4.4-messages.json.gz"
MESSAGES: list[type[types.Schema]] = [
    *(message for key in MODULES for message in message_classes(key)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
NAMES = {"bool": "boolean", "bytes": "binary", "records": "record_batches"}
"""Kafka's names of types for which kwire has others."""
NO_DEFAULT = ("struct", "record_batches")
"""Kafka's definitions don't say what these are without a value, so that is kwire's choice."""


ZEROS = {"string": "", "binary": b"", "uuid": types.ZERO_UUID, "array": []}


class Declared(NamedTuple):
    """A field, as far as it is in the versions that kwire has."""

    kind: str
    of: str
    since: int
    until: int
    nullable_since: int | None
    tag: int | None
    ignorable: bool
    default: Any


@pytest.fixture(scope="module")
def definitions() -> dict[str, Any]:
    """Kafka's definitions by the names of messages."""
    found: dict[str, Any] = json.loads(gzip.decompress(DEFINITIONS.read_bytes()))
    return found


def span(text: str, versions: tuple[int, int]) -> tuple[int, int] | None:
    """The versions that ``3+``, ``0-5`` or ``none`` and a message have in common."""
    if text == "none":
        return None
    first, _, last = text.removesuffix("+").partition("-")
    until = versions[1] if text.endswith("+") else int(last or first)
    both = max(int(first), versions[0]), min(until, versions[1])
    return both if both[0] <= both[1] else None


def defined(
    fields: list[Any], structs: dict[str, Any], versions: tuple[int, int], path: str = ""
) -> Iterator[tuple[str, Declared]]:
    """Each field of a definition, with its path, in the order of the wire."""
    for field in fields:
        both = span(field["versions"], versions)
        if both is None:
            continue
        is_array, of = field["type"].startswith("[]"), field["type"].removeprefix("[]")
        inner = field.get("fields") or structs.get(of)
        kind = "array" if is_array else "struct" if inner else NAMES.get(of, of)
        nullable = span(field.get("nullableVersions", "none"), both)
        name = f"{path}{field['name'].lower()}"
        yield (
            name,
            Declared(
                kind,
                ("struct" if inner else NAMES.get(of, of)) if is_array else "",
                *both,
                nullable[0] if nullable else None,
                field.get("tag"),
                bool(field.get("ignorable")),
                default_of(kind, field.get("default")),
            ),
        )
        if inner:
            yield from defined(inner, structs, both, f"{name}.")


def default_of(kind: str, text: Any) -> Any:
    """The value of a default that Kafka gives as text or as JSON; None for what has fields."""
    if kind in NO_DEFAULT:
        return None
    if text in ("null", None):
        return None if text else ZEROS.get(kind, 0)
    if kind == "boolean":
        return text in (True, "true")
    if kind.startswith(("int", "uint")):
        return int(text, 0) if isinstance(text, str) else text
    return float(text) if kind == "float64" else text


def declared(
    message: types.MessageType, versions: tuple[int, int], path: str = ""
) -> Iterator[tuple[str, Declared]]:
    """Each field of a class, like ``defined``."""
    for field in message.FIELDS:
        both = max(field.since, versions[0]), min(field.until, versions[1])
        name = f"{path}{field.name.replace('_', '')}"
        is_struct = isinstance(field.element, types.MessageType)
        of = "struct" if is_struct else getattr(field.element, "name", "")
        kind = field.kind.name
        nullable_since = max(field.nullable_since, both[0])
        is_new = field.default is types.MISSING
        yield (
            name,
            Declared(
                kind,
                of if kind == "array" else "",
                *both,
                nullable_since if nullable_since <= both[1] else None,
                field.tag,
                field.ignorable,
                None if kind in NO_DEFAULT else ZEROS["array"] if is_new else field.default,
            ),
        )
        if isinstance(field.element, types.MessageType):
            yield from declared(field.element, both, f"{name}.")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.__name__)
def test_a_message_is_kafkas(message: type[types.Schema], definitions: dict[str, Any]) -> None:
    """Its fields in their order: types, versions, tags, defaults, and what may be null or left."""
    definition = definitions[message.__name__]
    valid = span(definition["validVersions"], (0, types.LAST_VERSION))
    assert valid is not None
    assert valid[0] <= message.VERSIONS[0] <= message.VERSIONS[1] == valid[1]
    flexible = span(definition["flexibleVersions"], (0, types.LAST_VERSION))
    assert (flexible[0] if flexible else None) == message.FLEXIBLE_SINCE
    structs = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}
    wanted = defined(definition["fields"], structs, message.VERSIONS)
    assert list(declared(message, message.VERSIONS)) == list(wanted)
