"""The named types of Avro schemas: where a name is defined, and by which namespace it is read.

Rules:

- A name without a dot belongs to the namespace of the type that it stands in.
- Types of other schemas, a registry's references, are found like those of the schema itself.
"""

import json
from collections.abc import Iterable
from typing import Any

from kwire.schemas.undecodable import WrongSchema

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
"""The types that have a name."""
_MAX_DEPTH = 200

Schema = Any
"""A schema as parsed JSON: a text, a list (a union) or an object."""

Names = dict[str, tuple[dict[str, Any], str]]
"""Each full name's type, and the namespace that the type stands in."""


def schema_and_names(text: str, used: Iterable[str] = ()) -> tuple[Schema, Names]:
    """The schema of a text, and all named types; ``used`` are texts it refers to. WrongSchema."""
    names: Names = {}
    for one in used:
        _collect(_parsed(one), "", names)
    schema = _parsed(text)
    _collect(schema, "", names)
    return schema, names


def find_name(name: str, namespace: str, names: Names) -> str:
    """The full name of a type that is named within a namespace; WrongSchema if there is none."""
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    found = full if full in names else name
    if found not in names:
        raise WrongSchema(f"type {full} is defined nowhere")
    return found


def _parsed(text: str) -> Schema:
    text = text.strip()
    if text in PRIMITIVE:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongSchema(f"it is no JSON: {error}") from error


def full_name(schema: dict[str, Any], namespace: str) -> str:
    """The full name of a named type that stands within a namespace."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise WrongSchema(f"a {schema.get('type')} has no name")
    own = schema.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def namespace_of(name: str) -> str:
    """The namespace of a full name; empty without one."""
    return name.rpartition(".")[0]


def _collect(schema: Schema, namespace: str, names: Names, depth: int = 0) -> None:
    """Note every named type, with the namespace that its own names are read in."""
    if depth > _MAX_DEPTH:
        raise WrongSchema(f"it is nested more than {_MAX_DEPTH} deep")
    if isinstance(schema, list):
        for one in schema:
            _collect(one, namespace, names, depth + 1)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if not isinstance(kind, str):
        _collect(kind, namespace, names, depth + 1)
        return
    if kind in NAMED:
        name = full_name(schema, namespace)
        names[name] = (schema, namespace)
        namespace = namespace_of(name)
    for part in parts_of(schema):
        _collect(part, namespace, names, depth + 1)


def parts_of(schema: dict[str, Any]) -> list[Schema]:
    """The types within a type."""
    kind = schema["type"]
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(one, dict) and "name" in one and "type" in one for one in fields
        ):
            raise WrongSchema(f"record {schema.get('name')} has no list of fields")
        return [one["type"] for one in fields]
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        if inner not in schema:
            raise WrongSchema(f"{kind} has no {inner}")
        return [schema[inner]]
    return []
