"""One type for the columns of several topics, and values that become its own.

Names that a table takes for the same one are one column, with the first topic's spelling, at any
depth.
"""

from collections.abc import Iterator
from typing import Any

from kwire.spark.decode.same_names import keys_of
from kwire.spark.decode.spark_types import (
    ITEMS,
    KEYS,
    VALUES,
    Place,
    SparkType,
    array,
    field,
    kind_of,
    map_of,
    struct,
    text_of,
)

_WIDER = {
    ("byte", "short"): "short",
    ("byte", "integer"): "integer",
    ("byte", "long"): "long",
    ("short", "integer"): "integer",
    ("short", "long"): "long",
    ("integer", "long"): "long",
    ("float", "double"): "double",
    ("integer", "double"): "double",
}

Spelled = list[tuple[Place, str, str]]
"""Structs, and a field's name there with the name that it gets."""


def merged(
    old: SparkType,
    new: SparkType,
    conflicts: dict[Place, str],
    spelled: Spelled,
    path: Place = (),
) -> SparkType:
    """A type for the values of both: columns of ``old``, then columns that only ``new`` has.

    A column that one of the two lacks becomes nullable. Where no type fits both, that of ``old``
    stays; ``conflicts`` gets the place, and what the types are. So does the name of a column that
    is the same to a table; ``spelled`` gets both, the outer ones first.
    """
    if old == new:
        return old
    if isinstance(old, dict) and isinstance(new, dict) and kind_of(old) == kind_of(new):
        return _merged_nested(old, new, conflicts, spelled, path)
    if isinstance(old, str) and isinstance(new, str):
        wider = _WIDER.get((old, new)) or _WIDER.get((new, old))
        if wider is not None:
            return wider
    where = ".".join(path).replace(".[]", "[]").replace(".{", "{") or "the value"
    conflicts[path] = f"{where} is {text_of(new)}, not {text_of(old)}"
    return old


def _merged_nested(
    old: dict[str, Any],
    new: dict[str, Any],
    conflicts: dict[Place, str],
    spelled: Spelled,
    path: Place,
) -> SparkType:
    if kind_of(old) == "struct":
        mark = {"union": True} if "union" in old and "union" in new else {}
        return struct(list(_merged_fields(old, new, conflicts, spelled, path))) | mark
    if kind_of(old) == "array":
        item = merged(old["elementType"], new["elementType"], conflicts, spelled, (*path, ITEMS))
        return array(item, nullable=old["containsNull"] or new["containsNull"])
    key = merged(old["keyType"], new["keyType"], conflicts, spelled, (*path, KEYS))
    value = merged(old["valueType"], new["valueType"], conflicts, spelled, (*path, VALUES))
    return map_of(key, value, nullable=old["valueContainsNull"] or new["valueContainsNull"])


def _merged_fields(
    old: dict[str, Any],
    new: dict[str, Any],
    conflicts: dict[Place, str],
    spelled: Spelled,
    path: Place,
) -> Iterator[dict[str, Any]]:
    others = {one["name"]: one for one in new["fields"]}
    known = {one["name"] for one in old["fields"]}
    for one in old["fields"]:
        other = others.pop(one["name"], None)
        if other is None:
            keys = keys_of(one["name"])
            own = next((name for name in others if name not in known and keys & keys_of(name)), "")
            if own:
                other = others.pop(own)
                spelled.append((path, own, one["name"]))
        if other is None:
            yield {**one, "nullable": True}
            continue
        of = merged(one["type"], other["type"], conflicts, spelled, (*path, one["name"]))
        yield field(one["name"], of, nullable=one["nullable"] or other["nullable"])
    for other in others.values():
        yield {**other, "nullable": True}


def renamed(value: Any, path: Place, own: str, name: str) -> Any:
    """A decoded value whose structs at a place have another name for a field."""
    if value is None:
        return None
    if not path:
        if own not in value:
            return value
        kept = dict(value)  # it may be a default, which others share
        kept[name] = kept.pop(own)
        return kept
    step, rest = path[0], path[1:]
    if step == ITEMS:
        return [renamed(one, rest, own, name) for one in value]
    if step == KEYS:
        return [(renamed(key, rest, own, name), one) for key, one in value]
    if step == VALUES:
        return [(key, renamed(one, rest, own, name)) for key, one in value]
    return value | {step: renamed(value[step], rest, own, name)} if step in value else value
