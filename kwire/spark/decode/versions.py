"""Versions of a schema: the columns of all of them, and values that only one's own version reads.

Rules:

- A record keeps the value of a field that its version has, whenever it is read: in the same batch
  as newer ones, after a restart, by ``replay``. So the columns are those of all versions, and the
  newest one with a column says its type. The column is null for records whose version lacks it.
- A field that was only renamed isn't removed: by Avro's aliases, or by Protobuf's numbers, its
  values are in the column of the new name. So is one whose name has changed only by case, because a
  table takes both names for the same.
- Where a field has another type in the newest version, its value must be the same by both versions.
  A long may be no double, and Protobuf cuts numbers without a word.
- A value of the record's own version that can be in no column is an error.
- Structs, arrays, maps and the members of Avro's unions are compared within.

Types are those of ``spark_types``. A field of them may also have ``aliases`` (names), or Protobuf's
``number``, ``kind``, ``oneof`` (the numbers of its fields) and ``unset`` (what the value is without
one). A field, array or map may have a ``unit`` that only its own version reads, and the struct of a
union ``union``. ``loosened`` leaves these out.
"""

from collections.abc import Callable
from typing import Any

from kwire.schemas.undecodable import Undecodable
from kwire.spark.decode.same_names import keys_of, named_once
from kwire.spark.decode.spark_types import SparkType, array, kind_of, loosened, map_of

How = str | dict[str, Any]
"""What to take of a value by its own version: TAKE, REFUSE, the type for which both values are
compared (``is``, with ``unset``, of a field that may be unset by the newest), or the same for
``fields`` (with their ``names`` in this version, and with those that are in no column: ``lost``),
``items``, ``values`` or a union's ``members``."""

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
    found = next((fields[name] for name in names if name in fields), None)
    keys = keys_of(field["name"])
    return found or next((one for one in old["fields"] if keys & keys_of(one["name"])), None)


def _removed(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of the older struct that none of the newer one has become."""
    if "union" in new or "union" in old:
        return []
    found = (_same_field(one, old) for one in new["fields"])
    kept = {one["name"] for one in found if one is not None}
    removed = [one for one in old["fields"] if one["name"] not in kept]
    return named_once(removed, [one["name"] for one in new["fields"]])


def has_more(old: SparkType, new: SparkType) -> bool:
    """Whether a value of the older type may have something that the newer one doesn't read."""
    return loosened(with_removed(new, old)) != loosened(new) or _has_unread(
        how_to_fill(new, old, new)
    )


def _has_unread(how: How | None) -> bool:
    if not isinstance(how, dict):
        return how in (TAKE, REFUSE)
    inner = (how.get(one) for one in ("items", "values", "members"))
    parts = (*how.get("fields", {}).values(), *inner)
    return bool(how.get("lost")) or any(map(_has_unread, parts))


def how_to_fill(new: SparkType, old: SparkType, columns: SparkType) -> How | None:
    """What ``filled`` has to do for values of the older version; None if there is nothing.

    ``columns`` is the type of all versions together.
    """
    if _is_union(new) or _is_union(old):
        return None if new == old else _how_of_union(new, old, columns)
    kinds = {kind_of(new), kind_of(old), kind_of(columns)}
    if isinstance(new, str) or isinstance(old, str) or isinstance(columns, str) or len(kinds) > 1:
        return None if new == old else kind_of(new)
    if kind_of(new) == "struct":
        return _how_of_fields(new, old, columns)
    name, inner = ("items", "elementType") if kind_of(new) == "array" else ("values", "valueType")
    if new.get("unit") != old.get("unit") and "unit" in old:
        how: How | None = _by_itself(old[inner], columns[inner])
    else:
        how = how_to_fill(new[inner], old[inner], columns[inner])
    return None if how is None else {name: how}


def _is_union(spark_type: SparkType) -> bool:
    return not isinstance(spark_type, str) and "union" in spark_type


def _how_of_union(new: SparkType, old: SparkType, columns: SparkType) -> How:
    both = _is_union(new) and _is_union(old) and kind_of(columns) == "struct"
    return {
        "members": _how_of_fields(new, old, columns) if both else None,  # type: ignore[arg-type]
        "new": "" if _is_union(new) else kind_of(new),
        "old": "" if _is_union(old) else kind_of(old),
    }


def _how_of_fields(new: dict[str, Any], old: dict[str, Any], columns: dict[str, Any]) -> How | None:
    known = {one["name"]: one for one in new["fields"]}
    fields: dict[str, How] = {}
    names: dict[str, str] = {}
    kept = set()
    for column in columns["fields"]:
        name = column["name"]
        own = _same_field(known.get(name, column), old)
        if own is None or (name not in known and own["name"] in known):
            continue
        kept.add(own["name"])
        how = _how_of_field(known.get(name), own, column)
        if how is not None:
            fields[name] = how
            names[name] = own["name"]
    # Which member of a union has become which one is seen by its value.
    lost = (
        {}
        if "union" in new
        else {one["name"]: one.get("unset") for one in old["fields"] if one["name"] not in kept}
    )
    return {"fields": fields, "names": names, "lost": lost} if fields or lost else None


def _how_of_field(
    new: dict[str, Any] | None, own: dict[str, Any], column: dict[str, Any]
) -> How | None:
    is_unread = "unit" in own and new is not None and new.get("unit") != own["unit"]
    if new is None or is_unread or _is_spelled_otherwise(new, own):
        return _by_itself(own["type"], column["type"])
    how = how_to_fill(new["type"], own["type"], column["type"])
    if how is not None:
        return how
    if new.get("oneof", own.get("oneof")) != own.get("oneof"):
        return {"is": kind_of(new["type"]), "unset": own.get("unset")}
    is_alike = all(new.get(one) == own.get(one) for one in ("number", "kind"))
    return None if is_alike else kind_of(new["type"])


def _by_itself(own: SparkType, column: SparkType) -> How:
    return TAKE if loosened(own) == loosened(column) else REFUSE


def _is_spelled_otherwise(new: dict[str, Any], own: dict[str, Any]) -> bool:
    """Whether the newest version doesn't read a field, which differs by the case of its name."""
    return "number" not in own and own["name"] not in (new["name"], *new.get("aliases", ()))


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
            raise _differs(new, old, path)
        return new
    if "is" in how:
        is_unset = new is None and _is_unset(old, how["unset"])
        return new if is_unset else filled(new, old, how["is"], same, path)
    if new is None or old is None:
        return new
    return _filled_within(new, old, how, same, path)


def _filled_within(new: Any, old: Any, how: dict[str, Any], same: Same, path: str) -> Any:
    if "members" in how:
        return _filled_union(new, old, how, same, path)
    if "fields" in how:
        return _filled_fields(new, old, how, same, path)
    if "items" in how:
        pairs = zip(new, old, strict=True)
        return [filled(*both, how["items"], same, f"{path}[]") for both in pairs]
    others = dict(old)
    return [
        (key, filled(one, others.get(key), how["values"], same, f"{path}{{}}")) for key, one in new
    ]


def _differs(new: Any, old: Any, path: str) -> Undecodable:
    return Undecodable(
        f"{path} is {str(old)[:60]} by its own version of the schema, and {str(new)[:60]} "
        "by the newest"
    )


def _filled_fields(new: Any, old: Any, how: dict[str, Any], same: Same, path: str) -> Any:
    for name, unset in how["lost"].items():
        if not _is_unset(old.get(name), unset):
            where = f"{path}.{name}".lstrip(".")
            raise Undecodable(f"{where} is in no column of the newest version of the schema")
    names = how["names"]
    return new | {
        name: filled(new.get(name), old.get(names[name]), one, same, f"{path}.{name}".lstrip("."))
        for name, one in how["fields"].items()
    }


def _is_unset(value: Any, unset: Any) -> bool:
    return value is None or (unset is not None and (not value or value == unset))


def _filled_union(new: Any, old: Any, how: dict[str, Any], same: Same, path: str) -> Any:
    whole = new if how["members"] is None else filled(new, old, how["members"], same, path)
    name, one = _member_of(whole, how["new"])
    old_name, other = _member_of(old, how["old"])
    # Members of the same name were compared as fields.
    if (name != old_name or how["new"] or how["old"]) and not _has_all(one, other, name, same):
        raise _differs(new, old, path)
    return whole


def _member_of(value: Any, kind: str) -> tuple[str, Any]:
    """The name and the value of the member that is there; ``kind`` of what is no union."""
    if kind:
        return kind, value
    return next(((name, one) for name, one in value.items() if one is not None), ("", None))


def _has_all(new: Any, old: Any, of: str, same: Same) -> bool:
    """Whether nothing of a value is lost in a member, or outside of it."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(
            one is None or (name in new and _has_all(new[name], one, "", same))
            for name, one in old.items()
        )
    if isinstance(old, list) and isinstance(new, list):
        pairs = zip(new, old, strict=True)
        return all(_has_all(*both, "", same) for both in pairs)
    if isinstance(old, tuple) and isinstance(new, tuple):
        return _has_all(new[1], old[1], "", same)
    if type(old) is int and type(new) is int:
        return new == old
    return same(new, old, of.removeprefix("member_"))
