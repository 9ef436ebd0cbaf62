"""Avro schemas as one self-contained object, whose names are all full, checked for traps.

Rules:

- A named type stands in full where it is first used, and by its full name afterwards. Types of
  other schemas (a registry's references) are put in at their first use.
- A recursive schema is refused, because Spark's types can't be recursive.
- An array of items that take no bytes is refused: nine bytes would stand for 2^60 items.
"""

import json
from collections.abc import Iterable
from typing import Any

PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
"""The types that have a name."""
MAX_NODES = 20_000
"""The most types in a schema, so that no schema fills the memory of an executor."""
_MAX_DEPTH = 200

Schema = Any
"""A schema as parsed JSON: a text, a list (a union) or an object."""


class WrongSchema(ValueError):
    """A schema that can't be used, and why."""


def load(text: str, used: Iterable[str] = ()) -> Schema:
    """The schema of a text; ``used`` are the texts of schemas it refers to. WrongSchema."""
    names: dict[str, tuple[Schema, str]] = {}
    for one in used:
        _collect(_parsed(one), "", names)
    schema = _parsed(text)
    _collect(schema, "", names)
    return _Assembly(names).whole(schema, "")


def as_record(schema: Schema) -> Schema:
    """The schema, or a record with the one field ``value``: it has the same bytes."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return schema
    return {
        "type": "record",
        "name": "kwire_value",
        "fields": [{"name": "value", "type": schema}],
    }


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


def _namespace_of(name: str) -> str:
    return name.rpartition(".")[0]


def _collect(
    schema: Schema, namespace: str, names: dict[str, tuple[Schema, str]], depth: int = 0
) -> None:
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
        namespace = _namespace_of(name)
    for part in _parts(schema):
        _collect(part, namespace, names, depth + 1)


def _parts(schema: dict[str, Any]) -> list[Schema]:
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


class _Assembly:
    """Puts named types in where they are first used."""

    def __init__(self, names: dict[str, tuple[Schema, str]]) -> None:
        self._names = names
        self._done: dict[str, Schema] = {}
        self._open: list[str] = []
        self._nodes = 0

    def whole(self, schema: Schema, namespace: str) -> Schema:
        """The schema without references that stand before their type."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise WrongSchema(f"it has more than {MAX_NODES} types")
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return [self.whole(one, namespace) for one in schema]
        if not isinstance(schema, dict):
            raise WrongSchema(f"{json.dumps(schema)[:80]} is no type")
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.whole(kind, namespace)
        if kind in NAMED:
            return self._named(schema, full_name(schema, namespace))
        if kind in ("array", "map"):
            return self._collection(schema, kind, namespace)
        if kind in PRIMITIVE:
            return dict(schema)
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> Schema:
        if name in PRIMITIVE:
            return name
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = full if full in self._names else name
        if found not in self._names:
            raise WrongSchema(f"type {full} is defined nowhere")
        return self._named(self._names[found][0], found)

    def _named(self, schema: dict[str, Any], name: str) -> Schema:
        if name in self._open:
            raise WrongSchema(
                f"it is recursive ({' → '.join([*self._open, name])}), and Spark has no such type"
            )
        if name in self._done:
            return name
        self._open.append(name)
        whole = {key: value for key, value in schema.items() if key not in ("namespace", "fields")}
        whole["name"] = name
        if "fields" in schema:
            _parts(schema)
            whole["fields"] = [
                {**one, "type": self.whole(one["type"], _namespace_of(name))}
                for one in schema["fields"]
            ]
        self._open.pop()
        self._done[name] = whole
        return whole

    def _collection(self, schema: dict[str, Any], kind: str, namespace: str) -> Schema:
        [inner] = _parts(schema)
        whole = self.whole(inner, namespace)
        if kind == "array" and self._is_empty(whole):
            raise WrongSchema("an array's items take no bytes: a few bytes would be 2^60 items")
        return {**schema, ("items" if kind == "array" else "values"): whole}

    def _is_empty(self, schema: Schema) -> bool:
        """Whether values of a type take no bytes."""
        if isinstance(schema, str):
            return schema == "null" or self._is_empty(self._done.get(schema, [schema]))
        if isinstance(schema, list):
            return False
        kind = schema["type"]
        if kind in ("record", "error"):
            return all(self._is_empty(one["type"]) for one in schema["fields"])
        return kind == "null" or (kind == "fixed" and not schema.get("size"))
