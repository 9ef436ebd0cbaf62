"""The Spark type of a JSON Schema (drafts 4 to 2020-12).

===================================  =====================================================
JSON Schema                          Spark
===================================  =====================================================
object with properties               struct; ``required`` ones are NOT NULL
object without properties            map<string, …> of ``additionalProperties``; else string
array                                array
string                               string; ``format``: date, date-time (timestamp)
integer, number, boolean             bigint, double, boolean
enum, const                          the type of its values
one type and null                    that type, nullable
allOf                                its objects' properties together
other mixtures                       string: the value's JSON text
===================================  =====================================================

``$ref`` names a place in the document, or a registry's reference by its name. Other rules of JSON
Schema than types (patterns, ranges, ``additionalProperties: false``) aren't checked.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from kwire.schemas.undecodable import WrongSchema
from kwire.spark.decode.avro_schema import MAX_NODES
from kwire.spark.decode.spark_types import SparkType, array, field, map_of, struct

_FORMATS = {"date": "date", "date-time": "timestamp"}
_SIMPLE: dict[str, SparkType] = {"integer": "long", "number": "double", "boolean": "boolean"}


def row_type(text: str, used: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The struct of a schema's object; ``used`` are the texts of references. WrongSchema."""
    documents = {name: _parsed(one) for name, one in (used or {}).items()}
    root = _parsed(text)
    found, _ = _Reader({**documents, "": root}).type(root, "")
    if not isinstance(found, dict) or found["type"] != "struct":
        raise WrongSchema("it describes no object with properties")
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongSchema(f"it is no JSON: {error}") from error


class _Reader:
    """Reads one document and the documents to which it refers."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._open: list[str] = []
        self._nodes = 0

    def type(self, schema: Any, document: str) -> tuple[SparkType, bool]:
        """A type, and whether its values may be null; ``document`` contains the schema."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise WrongSchema(f"it has more than {MAX_NODES} types")
        if not isinstance(schema, dict):
            return "string", True
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), document)
        if "allOf" in schema:
            return self._together(schema, document), False
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._one_of(schema[word], document)
        kinds = _kinds(schema)
        nullable = "null" in kinds
        kinds.discard("null")
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1:
            return "string", nullable or not kinds
        return self._single(kinds.pop(), schema, document), nullable

    def _single(self, kind: str, schema: dict[str, Any], document: str) -> SparkType:
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), "string")
        if kind == "array":
            item, nullable = self.type(schema.get("items"), document)
            return array(item, nullable=nullable)
        if kind == "object":
            return self._object(schema, document)
        found = _SIMPLE.get(kind)
        if found is None:
            raise WrongSchema(f"{kind} is no type of JSON Schema")
        return found

    def _object(self, schema: dict[str, Any], document: str) -> SparkType:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = schema.get("additionalProperties")
            if isinstance(values, dict):
                of, nullable = self.type(values, document)
                return map_of("string", of, nullable=nullable)
            return "string"
        required = set(schema.get("required") or ())
        fields = []
        for name, one in properties.items():
            of, nullable = self.type(one, document)
            fields.append(field(name, of, nullable=nullable or name not in required))
        return struct(fields)

    def _together(self, schema: dict[str, Any], document: str) -> SparkType:
        """The properties of all parts of ``allOf``, and its own."""
        own = {key: value for key, value in schema.items() if key != "allOf"}
        parts: Iterable[Any] = [*schema["allOf"], *([own] if "properties" in own else [])]
        fields: dict[str, dict[str, Any]] = {}
        for part in parts:
            of, _ = self.type(part, document)
            if not isinstance(of, dict) or of["type"] != "struct":
                return "string"
            fields.update({one["name"]: one for one in of["fields"]})
        return struct(list(fields.values()))

    def _one_of(self, choices: list[Any], document: str) -> tuple[SparkType, bool]:
        found = [self.type(one, document) for one in choices if one != {"type": "null"}]
        nullable = len(found) < len(choices) or any(one[1] for one in found)
        types = [one[0] for one in found]
        if types and all(one == types[0] for one in types):
            return types[0], nullable
        return "string", nullable

    def _reference(self, reference: str, document: str) -> tuple[SparkType, bool]:
        name, _, pointer = reference.partition("#")
        target = name or document
        if target not in self._documents:
            raise WrongSchema(f"$ref {reference} leads to no schema that is known")
        place = f"{target}#{pointer}"
        if place in self._open:
            trail = " → ".join([*self._open, place])
            raise WrongSchema(f"it is recursive ({trail}), and Spark has no such type")
        self._open.append(place)
        found = self.type(_at(self._documents[target], pointer, reference), target)
        self._open.pop()
        return found


def _at(document: Any, pointer: str, reference: str) -> Any:
    """The part of a document to which a JSON pointer points."""
    found = document
    for part in pointer.split("/")[1:]:
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or part not in found:
            raise WrongSchema(f"$ref {reference} leads nowhere")
        found = found[part]
    return found


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types that a schema allows, by ``type``, ``enum``, ``const`` or its other words."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return set(map(str, kinds))
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if isinstance(values, list) and values:
        return {_kind_of_value(one) for one in values}
    if "properties" in schema:
        return {"object"}
    return {"array"} if "items" in schema else set()


def _kind_of_value(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")
