"""Versions of a schema: the columns of all of them, and values that only one's own version reads.

Rules:

- A record keeps the value of a field that its version has, whenever it is read: in the same batch
  as newer ones, after a restart, by ``replay``. So the columns are those of all versions, and the
  newest one with a column says its type. The column is null for records whose version lacks it.
- A field that was only renamed isn't removed: by Avro's aliases, or by Protobuf's numbers, its
  values are in the column of the new name.
- Where a field has another type in the newest version, its value must be the same by both versions.
  A long may be no double, and Protobuf cuts numbers without a word.
- Structs, arrays and maps are compared within; the members of Avro's unions are not.

Types are those of ``spark_types``. A field of them may also have ``aliases`` (names), or ``number``
and ``kind`` (Protobuf's), and the struct of a union ``union``; ``loosened`` leaves these out.
"""

from collections.abc import Callable
from typing import Any

from kwire.spark.decode.spark_types import SparkType, array, kind_of, loosened, map_of
from kwire.spark.decode.undecodable import Undecodable

How = str | dict[str, Any]
"""What to take of a value by its own version: TAKE, REFUSE, the type for which both values are
compared, or the same for ``fields`` (with their ``names`` in this version), ``items`` or
``values``."""

TAKE = ""
REFUSE = "!"
"""A newer version gives the column another type, so only null can be taken."""

Same = Callable[[Any, Any, str], bool]
"""Whether the value by the newest version, which has a type, is that by its own version."""


def with_removed(new: SparkType, old: SparkType) -> SparkType:
    """The newer type, with the columns that only the older one has."""
    if isinstance(new, str) or isinstance(old, str) or kind_of(new) != kind_of(old):
        return new
    if kind_of(new) == "struct":
        kept = [
            one | {"type": with_removed(one["type"], (_same_field(one, old) or one)["type"])}
            for one in new["fields"]
        ]
        removed = [one | {"type": loosened(one["type"])} for one in _removed(new, old)]
        return new | {"fields": [*kept, *(one | {"nullable": True} for one in removed)]}
    if kind_of(new) == "array":
        item = with_removed(new["elementType"], old["elementType"])
        return array(item, nullable=new["containsNull"])
    value = with_removed(new["valueType"], old["valueType"])
    return map_of(new["keyType"], value, nullable=new["valueContainsNull"])


def _same_field(field: dict[str, Any], old: dict[str, Any]) -> dict[str, Any] | None:
    """The field of an older struct that has become a field: by its number, name or aliases."""
    for one in old["fields"]:
        if "number" in one and (one["number"], one["kind"]) == (field["number"], field["kind"]):
            return dict(one)
    names = (field["name"], *field.get("aliases", ()))
    fields = {one["name"]: one for one in old["fields"]}
    return next((fields[name] for name in names if name in fields), None)


def _removed(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of the older struct that none of the newer one has become."""
    if "union" in new or "union" in old:
        return []
    found = (_same_field(one, old) for one in new["fields"])
    kept = {one["name"] for one in (*new["fields"], *found) if one is not None}
    return [one for one in old["fields"] if one["name"] not in kept]


def has_more(old: SparkType, new: SparkType) -> bool:
    """Whether a value of the older type may have columns that the newer one lacks."""
    return loosened(with_removed(new, old)) != loosened(new)


def how_to_fill(new: SparkType, old: SparkType, columns: SparkType) -> How | None:
    """What ``filled`` has to do for values of the older version; None if there is nothing.

    ``columns`` is the type of all versions together.
    """
    kinds = {kind_of(new), kind_of(old), kind_of(columns)}
    if isinstance(new, str) or isinstance(old, str) or isinstance(columns, str) or len(kinds) > 1:
        return None if new == old else kind_of(new)
    if kind_of(new) == "struct":
        return _how_of_fields(new, old, columns)
    name, inner = ("items", "elementType") if kind_of(new) == "array" else ("values", "valueType")
    how = how_to_fill(new[inner], old[inner], columns[inner])
    return None if how is None else {name: how}


def _how_of_fields(new: dict[str, Any], old: dict[str, Any], columns: dict[str, Any]) -> How | None:
    if "union" in new or "union" in old:
        return None
    known = {one["name"]: one for one in new["fields"]}
    fields: dict[str, How] = {}
    names: dict[str, str] = {}
    for column in columns["fields"]:
        name = column["name"]
        own = _same_field(known.get(name, column), old)
        if own is None or (name not in known and own["name"] in known):
            continue
        how = _how_of_field(known.get(name), own, column)
        if how is not None:
            fields[name] = how
            names[name] = own["name"]
    return {"fields": fields, "names": names} if fields else None


def _how_of_field(
    new: dict[str, Any] | None, own: dict[str, Any], column: dict[str, Any]
) -> How | None:
    if new is None:
        return TAKE if loosened(own["type"]) == loosened(column["type"]) else REFUSE
    how = how_to_fill(new["type"], own["type"], column["type"])
    is_alike = all(new.get(one) == own.get(one) for one in ("number", "kind"))
    return kind_of(new["type"]) if how is None and not is_alike else how


def filled(new: Any, old: Any, how: How, same: Same, path: str = "") -> Any:
    """A value by the newest version, with what only its own version has.

    Undecodable if a value isn't the same by both versions, or can't be in its column. Values are
    those that pyarrow takes: dicts, lists, and pairs for maps.
    """
    if how == TAKE:
        return old
    if how == REFUSE:
        if old is not None:
            raise Undecodable(f"{path} has another type in a newer version of the schema")
        return new
    if isinstance(how, str):
        if not same(new, old, how):
            raise Undecodable(
                f"{path} is {str(old)[:60]} by its own version of the schema, and {str(new)[:60]} "
                "by the newest"
            )
        return new
    if new is None or old is None:
        return new
    if "fields" in how:
        names = how["names"]
        return new | {
            name: filled(
                new.get(name), old.get(names[name]), one, same, f"{path}.{name}".lstrip(".")
            )
            for name, one in how["fields"].items()
        }
    if "items" in how:
        pairs = zip(new, old, strict=True)
        return [filled(*both, how["items"], same, f"{path}[]") for both in pairs]
    others = dict(old)
    return [
        (key, filled(one, others.get(key), how["values"], same, f"{path}{{}}")) for key, one in new
    ]
