"""Random schemas with random changes, of which checkers should say the same."""

import copy
import random
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
