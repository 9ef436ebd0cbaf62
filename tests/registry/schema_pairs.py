"""Random schemas with random changes, of which checkers should say the same."""

import copy
import random
from base64 import b64encode
from typing import Any

_SCALARS = ["string", "integer", "number", "boolean", "null"]


def json_schema_pair(seed: int) -> tuple[Any, Any]:
    """A JSON Schema (draft 7), and the same with one or two changes."""
    chance = random.Random(seed)
    old = _schema(chance, 0)
    new = _changed(chance, old, 0)
    return old, _changed(chance, new, 0) if chance.random() < 0.3 else new


def _schema(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth > 2 or kind < 0.5:
        return _scalar(chance)
    if kind < 0.75:
        return _object(chance, depth)
    if kind < 0.85:
        return _array(chance, depth)
    if kind < 0.96:
        several = [_schema(chance, depth + 1) for _ in range(chance.randint(1, 3))]
        return {chance.choice(["anyOf", "anyOf", "allOf"]): several}
    return {"not": _schema(chance, depth + 1)}


def _scalar(chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.08:
        return {"enum": chance.sample(["a", "b", "c", 1, 2, None], chance.randint(1, 3))}
    if kind < 0.13:
        return chance.choice([True, {}, {"const": "a"}])
    if kind < 0.25:
        return {"type": chance.sample(_SCALARS, 2)}
    name = chance.choice(_SCALARS)
    found: dict[str, Any] = {"type": name}
    if name == "string" and chance.random() < 0.5:
        found[chance.choice(["minLength", "maxLength"])] = chance.randint(0, 4)
    if name in ("integer", "number") and chance.random() < 0.6:
        limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
        found[chance.choice(limits)] = chance.randint(1, 6)
    return found


def _object(chance: random.Random, depth: int) -> Any:
    names = chance.sample(["a", "b", "c"], chance.randint(0, 3))
    properties = {name: _schema(chance, depth + 1) for name in names}
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if chance.random() < 0.3:
        found["required"] = chance.sample(["a", "b", "c"], chance.randint(1, 2))
    if chance.random() < 0.5:
        rest = chance.choice([False, False, True, _schema(chance, depth + 2)])
        found["additionalProperties"] = rest
    if chance.random() < 0.15:
        pattern = chance.choice(["^a", "^x"])
        found["patternProperties"] = {pattern: _schema(chance, depth + 2)}
    if chance.random() < 0.1:
        found[chance.choice(["minProperties", "maxProperties"])] = chance.randint(0, 3)
    if chance.random() < 0.08:
        found["dependencies"] = {
            "a": chance.choice([["b"], ["b", "c"], _schema(chance, depth + 2)])
        }
    return found


def _array(chance: random.Random, depth: int) -> Any:
    found: dict[str, Any] = {"type": "array"}
    if chance.random() < 0.7:
        found["items"] = _schema(chance, depth + 1)
    else:
        found["items"] = [_schema(chance, depth + 1) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.5:
            found["additionalItems"] = chance.choice([False, True, _schema(chance, depth + 2)])
    if chance.random() < 0.3:
        found[chance.choice(["minItems", "maxItems"])] = chance.randint(0, 3)
    if chance.random() < 0.1:
        found["uniqueItems"] = True
    return found


def _changed(chance: random.Random, schema: Any, depth: int) -> Any:
    schema = copy.deepcopy(schema)
    if not isinstance(schema, dict) or not schema or chance.random() < 0.12:
        return _schema(chance, depth)
    name = chance.choice(list(schema))
    if chance.random() < 0.2:
        del schema[name]
    else:
        schema[name] = _changed_keyword(chance, name, schema[name], depth)
    return schema


def _changed_keyword(chance: random.Random, name: str, value: Any, depth: int) -> Any:
    if name in ("properties", "patternProperties"):
        return _changed_properties(chance, value, depth)
    if name in ("anyOf", "allOf") or (name == "items" and isinstance(value, list)):
        at, kind = chance.randrange(len(value)), chance.random()
        if kind < 0.3 and len(value) > 1:
            return [one for index, one in enumerate(value) if index != at]
        if kind < 0.6:
            return [*value, _schema(chance, depth + 1)]
        return [*value[:at], _changed(chance, value[at], depth + 1), *value[at + 1 :]]
    if name in ("items", "additionalProperties", "additionalItems", "not"):
        return _changed(chance, value, depth + 1)
    if name == "type":
        return chance.choice([*_SCALARS[:3], ["integer", "string"], ["number", "null"]])
    if name == "enum":
        return value[:-1] if len(value) > 1 and chance.random() < 0.5 else [*value, "other"]
    if name == "required":
        return value[:-1] if len(value) > 1 else ["a", "b"]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1 if name == "multipleOf" else 0, value + chance.choice([-1, 1, 2]))
    return value


def _changed_properties(chance: random.Random, properties: Any, depth: int) -> Any:
    name = chance.choice(["a", "b", "c", "ax"])
    if not properties or chance.random() < 0.3:
        return {**properties, name: _schema(chance, depth + 1)}
    name = chance.choice(list(properties))
    if chance.random() < 0.25:
        return {other: one for other, one in properties.items() if other != name}
    return {**properties, name: _changed(chance, properties[name], depth + 1)}


def avro_pair(seed: int) -> tuple[Any, Any]:
    """A schema of Avro, and the same with one or two changes."""
    chance = random.Random(seed)
    old = _Avro(chance).schema(0)
    new = _Avro(chance).changed(old)
    return old, _Avro(chance).changed(new) if chance.random() < 0.3 else new


class _Avro:
    """Makes types whose names are numbered, so that each is defined once."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"T{self._names}"

    def schema(self, depth: int) -> Any:
        """A random type."""
        kind = self._chance.random()
        if depth > 2 or kind < 0.4:
            return self._chance.choice(_PRIMITIVE)
        if kind < 0.7:
            return self._record(depth)
        if kind < 0.8:
            symbols = self._chance.sample(["A", "B", "C"], self._chance.randint(1, 3))
            found = {"type": "enum", "name": self._name(), "symbols": symbols}
            return {**found, "default": symbols[0]} if self._chance.random() < 0.3 else found
        if kind < 0.85:
            return {"type": "fixed", "name": self._name(), "size": self._chance.randint(1, 3)}
        if kind < 0.93:
            inner = self._chance.choice([("array", "items"), ("map", "values")])
            return {"type": inner[0], inner[1]: self.schema(depth + 1)}
        branches = self._chance.sample(_PRIMITIVE, self._chance.randint(1, 3))
        more = {"type": "fixed", "name": self._name(), "size": 2}
        return [*branches, more] if self._chance.random() < 0.5 else branches

    def _record(self, depth: int) -> Any:
        name, fields = self._name(), []
        for one in self._chance.sample(["a", "b", "c"], self._chance.randint(0, 3)):
            field = {"name": one, "type": self.schema(depth + 1)}
            if self._chance.random() < 0.1:
                field["type"] = ["null", name]
            if self._chance.random() < 0.3:
                field |= {"type": ["null", self._chance.choice(_PRIMITIVE[1:])], "default": None}
            if self._chance.random() < 0.1:
                field["doc"] = "what it is"
            fields.append(field)
        found = {"type": "record", "name": name, "fields": fields}
        if self._chance.random() < 0.2:
            found["namespace"] = self._chance.choice(["n", "n.m"])
        return found

    def changed(self, schema: Any) -> Any:
        """A type with one change somewhere; names that are made are beyond those there."""
        self._names = 1000 + self._chance.randint(0, 10**6)
        return self._changed(copy.deepcopy(schema))

    def _changed(self, schema: Any) -> Any:
        chance = self._chance
        if isinstance(schema, list):
            return self._changed_union(schema)
        if not isinstance(schema, dict) or chance.random() < 0.1:
            return chance.choice([*_PRIMITIVE, ["null", "int"]])
        if "fields" in schema:
            schema["fields"] = self._changed_fields(schema["fields"])
        elif "symbols" in schema:
            schema["symbols"] = chance.sample(["A", "B", "C", "D"], chance.randint(1, 4))
            schema.pop("default", None)
        elif "size" in schema:
            schema["size"] += 1
        else:
            inner = "items" if "items" in schema else "values"
            schema[inner] = self._changed(schema[inner])
        if "name" in schema and chance.random() < 0.1:
            other = self._name()
            aliases = {"aliases": [schema["name"]]} if chance.random() < 0.5 else {}
            return schema | {"name": other} | aliases if "fields" not in schema else schema
        return schema

    def _changed_union(self, schema: Any) -> Any:
        left = [one for one in schema if self._chance.random() < 0.8] or schema
        more = [one for one in _PRIMITIVE if one not in left]
        return [*left, self._chance.choice(more)] if self._chance.random() < 0.4 else left

    def _changed_fields(self, fields: Any) -> Any:
        chance, kind = self._chance, self._chance.random()
        if kind < 0.3 or not fields:
            field = {"name": f"new{self._names}", "type": chance.choice(_PRIMITIVE)}
            default = {"type": ["null", "int"], "default": None} if chance.random() < 0.5 else {}
            return [*fields, field | default]
        at = chance.randrange(len(fields))
        if kind < 0.5 and not isinstance(fields[at]["type"], dict):
            return [one for index, one in enumerate(fields) if index != at]
        if kind < 0.6:
            renamed = {"name": f"r{at}{self._names}"}
            return [
                one | renamed | ({"aliases": [one["name"]]} if chance.random() < 0.5 else {})
                if index == at
                else one
                for index, one in enumerate(fields)
            ]
        changed = {**fields[at], "type": self._changed(fields[at]["type"])}
        changed.pop("default", None)
        return [changed if index == at else one for index, one in enumerate(fields)]


_PRIMITIVE = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


def protobuf_pair(seed: int) -> tuple[str, str]:
    """Two files of Protobuf as descriptors in base64: the second has one or two changes."""
    chance = random.Random(seed)
    messages = {name: _fields(chance) for name in ("A", "B", "C")[: chance.randint(1, 3)]}
    changed = copy.deepcopy(messages)
    for _ in range(chance.choice([1, 1, 2])):
        _change_message(chance, changed)
    return _descriptor(messages), _descriptor(changed)


_KINDS = (1, 2, 3, 4, 5, 8, 9, 12, 13, 17, 18, 11)
"""Of FieldDescriptorProto.Type; 11 is a message, always A."""


def _fields(chance: random.Random) -> dict[int, dict[str, Any]]:
    fields = {}
    for number in chance.sample(range(1, 6), chance.randint(1, 4)):
        fields[number] = _field(chance, number)
    return fields


def _field(chance: random.Random, number: int) -> dict[str, Any]:
    is_in_oneof = chance.random() < 0.25
    label = 1 if is_in_oneof or chance.random() < 0.8 else 3
    kind = chance.choice(_KINDS)
    return {"name": f"f{number}", "kind": kind, "label": label, "oneof": is_in_oneof}


def _change_message(chance: random.Random, messages: dict[str, dict[int, dict[str, Any]]]) -> None:
    name, what = chance.choice(list(messages)), chance.random()
    fields = messages[name]
    number = chance.choice(list(fields)) if fields else 9
    if what < 0.1 and name != "A":
        del messages[name]
    elif what < 0.3 or not fields:
        fields[chance.randint(6, 9)] = _field(chance, chance.randint(6, 9)) | {"name": "added"}
    elif what < 0.5:
        del fields[number]
    elif what < 0.6:
        fields[number]["name"] += "_renamed"
    elif what < 0.8:
        fields[number]["kind"] = chance.choice(_KINDS)
    elif what < 0.9:
        fields[number] |= {"oneof": not fields[number]["oneof"], "label": 1}
    else:
        fields[number] |= {"oneof": False, "label": 4 - fields[number]["label"]}


def _descriptor(messages: dict[str, dict[int, dict[str, Any]]]) -> str:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        if any(one["oneof"] for one in fields.values()):
            message.oneof_decl.add(name="o")
        taken: set[str] = set()
        for number, one in fields.items():
            own = one["name"] if one["name"] not in taken else f"{one['name']}{number}"
            taken.add(own)
            field = message.field.add(name=own, number=number, label=one["label"])
            field.type = one["kind"]
            if one["kind"] == 11:
                field.type_name = ".A"
            if one["oneof"]:
                field.oneof_index = 0
    return b64encode(file.SerializeToString()).decode()
