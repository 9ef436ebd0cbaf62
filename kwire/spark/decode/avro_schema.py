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

from kwire.schemas.avro_names import (
    NAMED,
    PRIMITIVE,
    Names,
    Schema,
    find_name,
    full_name,
    namespace_of,
    parts_of,
    schema_and_names,
)
from kwire.schemas.undecodable import WrongSchema

MAX_NODES = 20_000
"""The most types in a schema, so that no schema fills the memory of an executor."""


def load(text: str, used: Iterable[str] = ()) -> Schema:
    """The schema of a text; ``used`` are the texts of schemas it refers to. WrongSchema."""
    schema, names = schema_and_names(text, used)
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


class _Assembly:
    """Puts named types in where they are first used."""

    def __init__(self, names: Names) -> None:
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
        found = find_name(name, namespace, self._names)
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
            parts_of(schema)
            whole["fields"] = [
                {**one, "type": self.whole(one["type"], namespace_of(name))}
                for one in schema["fields"]
            ]
        self._open.pop()
        self._done[name] = whole
        return whole

    def _collection(self, schema: dict[str, Any], kind: str, namespace: str) -> Schema:
        [inner] = parts_of(schema)
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
