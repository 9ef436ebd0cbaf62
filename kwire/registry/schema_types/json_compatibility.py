"""What a reader with one JSON Schema can't read of what was written with another.

A reader reads everything that its schema allows. So the rule is one: whatever the old schema allows
has to be allowed by the new one. The rules of Confluent's documentation are that rule keyword by
keyword, and the kinds are Confluent's names. In three places they aren't the plain rule:

- A property or item that is new where the old schema is open (it allows any other) may have been
  there with any type, so it has to allow anything: PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL.
- A new required property is no break if it has a ``default``, which a reader fills in.
- Of ``oneOf``, that several branches may fit at once isn't looked at: it counts as ``anyOf``.

Where it can't be told by keywords alone, such as of a changed ``if`` or ``pattern``, the schema
counts as unreadable.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from kwire.registry.schema_types.comparison import Comparison
from kwire.registry.schema_types.json_facts import Facts, fits_name, text_of
from kwire.registry.schema_types.json_nodes import Node
from kwire.registry.schema_types.parsed import (
    Incompatibility,
)

_OPAQUE = {
    **dict.fromkeys(("if", "then", "else"), "object"),
    **dict.fromkeys(("unevaluatedProperties", "dependentSchemas"), "object"),
    **dict.fromkeys(("unevaluatedItems", "contains", "minContains", "maxContains"), "array"),
}
"""Keywords that have to stay as they are, or go."""
_ANYTHING = ("if", "then", "else")
"""Those of them that are about values of any type."""
_UPPER = {"string": ("maxLength",), "array": ("maxItems",), "object": ("maxProperties",)}
_LOWER = {"string": ("minLength",), "array": ("minItems",), "object": ("minProperties",)}


def unreadable(reader: Node, writer: Node) -> list[Incompatibility]:
    """The places that the reader can't read; TooComplex."""
    return _JsonComparison().unreadable(Facts.of(reader, {}), Facts.of(writer, {}), "#")


class _JsonComparison(Comparison[Facts]):
    """Compares schemas; the reader's is the new one."""

    def compared(self, new: Facts, old: Facts, path: str) -> bool:
        """See ``Comparison``."""
        if new.is_true or old.is_false:
            return True
        if new.is_false:
            return self.note("TYPE_CHANGED", path, "the new schema allows nothing here")
        fits = True
        for where, one in new.all:
            fits &= self._member(one, old, f"{path}{where}")
        for group in new.any:
            fits &= self._alternatives(group, old, path)
        return self._base(new.base, old, path) and fits

    def _member(self, new: Facts, old: Facts, path: str) -> bool:
        """A schema that is one of several that all have to be fulfilled."""
        ways = [one for _, one in old.all]
        if self.some(partial(self.compare, new, one, path) for one in (old, *ways)):
            return True
        if not ways:
            return self.compare(new, old, path)
        text = "nothing in the old schema keeps its values within this part of the new one"
        return self.note("PRODUCT_TYPE_EXTENDED", path, text)

    def _alternatives(self, group: list[tuple[str, Facts]], old: Facts, path: str) -> bool:
        """Several schemas of which one has to be fulfilled."""

        def fits(one: Facts) -> bool:
            return self.some(partial(self.compare, branch, one, path) for _, branch in group)

        if fits(old) or any(fits(one) for _, one in old.all):
            return True
        for others in old.any:
            if all(fits(one) for _, one in others):
                return True
        if old.by_type and all(fits(one) for one in old.by_type):
            return True
        if len(group) == 1 and not old.any:
            return self.compare(group[0][1], old, f"{path}{group[0][0]}")
        unfit = [where for others in old.any[:1] for where, one in others if not fits(one)]
        if not unfit:
            return self.note("TYPE_CHANGED", path, "no branch of the new schema allows all of it")
        text = "no branch of the new schema allows all that this branch of the old one does"
        return self.note("SUM_TYPE_NARROWED", f"{path}{unfit[0]}", text)

    def _base(self, new: Facts, old: Facts, path: str) -> bool:
        """The keywords of a schema beside those that combine others."""
        if new.is_true:
            return True
        parts = old.conjuncts
        if len(parts) == 1 and not old.any:
            return self._keywords(new, parts[0], path)
        if self.some(partial(self._keywords, new, one, path) for one in parts):
            return True
        for group in old.any:
            if self.some([partial(self._all, new, [one for _, one in group], path)]):
                return True
        if len(parts) > 1 or parts[0].is_true:
            text = "no part of the old schema by itself keeps its values within the new one"
            return self.note("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, text)
        return self._keywords(new, parts[0], path)

    def _all(self, new: Facts, old: list[Facts], path: str) -> bool:
        return all(self.compare(new, one, path) for one in old)

    def _keywords(self, new: Facts, old: Facts, path: str) -> bool:
        """All keywords that are no combination, of values of all types that the old one allows."""
        self.count()
        if not self._types(new, old, path):
            return False
        fits = self._values(new, old, path) and self._not(new, old, path)
        fits &= self._opaque(new, old, path, _ANYTHING)
        checks: Mapping[str, Callable[[Facts, Facts, str], bool]] = {
            "string": self._string,
            "number": self._number,
            "array": self._array,
            "object": self._object,
        }
        for name, check in checks.items():
            if name in old.types or (name == "number" and "integer" in old.types):
                fits &= check(new, old, path)
        return fits

    def _types(self, new: Facts, old: Facts, path: str) -> bool:
        lost = sorted(old.types - new.types)
        if not lost or new.values is not None:
            return True  # of values that are listed, ``_values`` tells which are lost
        if lost == ["number"] and "integer" in new.types:
            return self.note("TYPE_NARROWED", path, "a number may only be an integer now")
        kind = "TYPE_NARROWED" if old.types & new.types else "TYPE_CHANGED"
        allowed = ", ".join(sorted(new.types)) or "nothing"
        return self.note(kind, path, f"{', '.join(lost)} was allowed, and is {allowed} now")

    def _values(self, new: Facts, old: Facts, path: str) -> bool:
        if new.values is None:
            return True
        if old.values is None:
            if old.types == {"null"} and "null" in new.values:
                return True
            text = "only some values are allowed now, and any were before"
            return self.note("ENUM_ARRAY_NARROWED", path, text)
        lost = [text for text in old.values if text not in new.values]
        if not lost:
            return True
        kind = "ENUM_ARRAY_NARROWED" if set(new.values) < set(old.values) else "ENUM_ARRAY_CHANGED"
        names = ", ".join(one[:50] for one in lost[:10]) + (" …" if len(lost) > 10 else "")
        return self.note(kind, path, f"{names} aren't allowed any more")

    def _not(self, new: Facts, old: Facts, path: str) -> bool:
        if "not" not in new.keywords:
            return True
        if "not" in old.keywords:
            allowed, forbidden = old.within(old.keywords["not"]), new.within(new.keywords["not"])
            # Turned round: what is forbidden now has to be part of what was forbidden.
            if self.some([partial(self.compare, allowed, forbidden, path)]):
                return True
        return self.note("NOT_TYPE_EXTENDED", f"{path}/not", "more is forbidden than before")

    def _opaque(self, new: Facts, old: Facts, path: str, names: tuple[str, ...]) -> bool:
        fits = True
        for name in names:
            if name not in new.keywords or new.keywords[name] in (True, {}):
                continue
            if name in old.keywords and text_of(old.keywords[name]) == text_of(new.keywords[name]):
                continue
            text = f"'{name}' is new or changed, so it may forbid what was allowed"
            fits = self.note("TYPE_CHANGED", f"{path}/{name}", text)
        return fits

    def _string(self, new: Facts, old: Facts, path: str) -> bool:
        fits = self._limits(new, old, path, "string")
        pattern = new.keywords.get("pattern")
        if pattern is None or pattern == old.keywords.get("pattern"):
            return fits
        how = "CHANGED" if "pattern" in old.keywords else "ADDED"
        text = "the pattern is new or changed, so it may forbid what was allowed"
        return self.note(f"PATTERN_{how}", f"{path}/pattern", text)

    def _limits(self, new: Facts, old: Facts, path: str, type_name: str) -> bool:
        """The keywords that count characters, items or properties."""
        fits = True
        for names, sign, how in ((_UPPER, 1, "DECREASED"), (_LOWER, -1, "INCREASED")):
            for name in names[type_name]:
                limit, before = new.keywords.get(name), old.keywords.get(name)
                if limit is None or (name.startswith("min") and limit == 0):
                    continue
                if before is not None and limit * sign >= before * sign:
                    continue
                kind = f"{_in_capitals(name)}_{'ADDED' if before is None else how}"
                text = f"{name} is {limit}, and was {'none' if before is None else before}"
                fits = self.note(kind, f"{path}/{name}", text)
        return fits

    def _number(self, new: Facts, old: Facts, path: str) -> bool:
        fits = self._multiple(new, old, path)
        for end, sign, how in (("aximum", 1, "DECREASED"), ("inimum", -1, "INCREASED")):
            before = _bound(old, end, sign)
            for name, limit in _bounds(new, end, sign):
                if before is not None and before <= limit:
                    continue
                kind = f"{_in_capitals(name)}_{'ADDED' if before is None else how}"
                text = f"{name} is {limit[0] * sign}, which excludes numbers that were allowed"
                fits = self.note(kind, f"{path}/{name}", text)
        return fits

    def _multiple(self, new: Facts, old: Facts, path: str) -> bool:
        factor, before = new.keywords.get("multipleOf"), old.keywords.get("multipleOf")
        if factor is None or factor == before:
            return True
        is_integer = "number" not in old.types
        if is_integer and before is None:
            before = 1
        if before is not None and _is_multiple(before, factor):
            return True
        if "multipleOf" not in old.keywords:
            how = "ADDED"
        else:
            how = "EXPANDED" if _is_multiple(factor, before) else "CHANGED"
        text = f"numbers have to be multiples of {factor} now"
        return self.note(f"MULTIPLE_OF_{how}", f"{path}/multipleOf", text)

    def _array(self, new: Facts, old: Facts, path: str) -> bool:
        fits = self._limits(new, old, path, "array")
        names = tuple(name for name, of in _OPAQUE.items() if of == "array")
        fits &= self._opaque(new, old, path, names)
        if new.keywords.get("uniqueItems") and not old.keywords.get("uniqueItems"):
            text = "items have to differ from each other now"
            fits = self.note("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", text)
        (firsts, rest), (old_firsts, old_rest) = new.items, old.items
        for (where, one), (_, before) in zip(firsts, old_firsts, strict=False):
            fits &= self.compare(one, before, f"{path}{where}")
        for where, one in firsts[len(old_firsts) :]:
            covering = [old.within(old_rest)]
            fits &= self._added(one, covering, f"{path}{where}", "ITEM")
        for where, one in old_firsts[len(firsts) :]:
            covering = [new.within(rest)]
            fits &= self._removed(one, covering, f"{path}{where}", "ITEM")
        where = "additionalItems" if firsts else "items"
        return fits and self._rest(new.within(rest), old.within(old_rest), path, where)

    def _object(self, new: Facts, old: Facts, path: str) -> bool:
        fits = self._limits(new, old, path, "object")
        names = tuple(name for name, of in _OPAQUE.items() if of == "object")
        names = tuple(name for name in names if name not in _ANYTHING)
        if new.base is new:
            names = tuple(name for name in names if name != "unevaluatedProperties")
        fits &= self._opaque(new, old, path, names)
        fits &= self._required(new, old, path)
        fits &= self._dependencies(new, old, path)
        if "propertyNames" in new.keywords:
            names_of_new = new.within(new.keywords["propertyNames"])
            names_of_old = old.within(old.keywords.get("propertyNames", True))
            fits &= self.compare(names_of_new, names_of_old, f"{path}/propertyNames")
        fits &= self._properties(new, old, path)
        fits &= self._patterns(new, old, path)
        return (
            self._rest(new.within(new.rest), old.within(old.rest), path, "additionalProperties")
            and fits
        )

    def _properties(self, new: Facts, old: Facts, path: str) -> bool:
        fits = True
        properties = new.keywords.get("properties", {})
        before = old.keywords.get("properties", {})
        for name, schema in properties.items():
            where, one = f"{path}/properties/{_escaped(name)}", new.within(schema)
            if name in before:
                fits &= self.compare(one, old.within(before[name]), where)
            else:
                fits &= self._added(one, self._covering(old, name), where, "PROPERTY")
        for name, schema in before.items():
            if name not in properties:
                where = f"{path}/properties/{_escaped(name)}"
                fits &= self._removed(
                    old.within(schema), self._covering(new, name), where, "PROPERTY"
                )
        return fits

    def _covering(self, one: Facts, name: str) -> list[Facts]:
        """What a schema says of a property that it doesn't name; each pattern is a step."""
        self.count(len(one.keywords.get("patternProperties", ())))
        return one.covering(name)

    def _patterns(self, new: Facts, old: Facts, path: str) -> bool:
        fits = True
        before = old.keywords.get("patternProperties", {})
        for text, schema in new.keywords.get("patternProperties", {}).items():
            where, one = f"{path}/patternProperties/{_escaped(text)}", new.within(schema)
            if text in before:
                fits &= self.compare(one, old.within(before[text]), where)
                continue
            named = old.keywords.get("properties", {})
            self.count(len(named) + len(before))
            others = [other for name, other in named.items() if fits_name(text, name)]
            for other in (*others, *before.values(), old.rest):
                fits &= self._added(one, [old.within(other)], where, "PROPERTY")
        for text, schema in before.items():
            if text not in new.keywords.get("patternProperties", {}):
                where = f"{path}/patternProperties/{_escaped(text)}"
                rest = [new.within(new.rest)]
                fits &= self._removed(old.within(schema), rest, where, "PROPERTY")
        return fits

    def _added(self, new: Facts, covering: list[Facts], path: str, what: str) -> bool:
        """A property or an item that the old schema doesn't name, and what it says of such."""
        if new.is_true or any(one.is_false for one in covering):
            return True
        name = what.lower()
        if all(one.is_true for one in covering):
            text = f"the {name} is new, and the old schema allows any value there"
            return self.note(f"{what}_ADDED_TO_OPEN_CONTENT_MODEL", path, text)
        if self.some(partial(self.compare, new, one, path) for one in covering):
            return True
        text = f"the {name} is new, and the old schema allows other values there"
        kind = f"{what}_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return self.note(kind, path, text)

    def _removed(self, old: Facts, covering: list[Facts], path: str, what: str) -> bool:
        """A property or an item that the new schema doesn't name, and what it says of such."""
        if old.is_false or all(one.is_true for one in covering):
            return True
        name = what.lower()
        if any(one.is_false for one in covering):
            text = f"the {name} is gone, and the new schema allows no others"
            return self.note(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, text)
        if self.some([partial(self._covered, old, covering, path)]):
            return True
        text = f"the {name} is gone, and what the new schema says of others doesn't allow it"
        kind = f"{what}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return self.note(kind, path, text)

    def _covered(self, old: Facts, covering: list[Facts], path: str) -> bool:
        return all(self.compare(one, old, path) for one in covering)

    def _rest(self, new: Facts, old: Facts, path: str, name: str) -> bool:
        """What holds for properties or items that aren't named."""
        if new.is_true or old.is_false:
            return True
        what, where = _in_capitals(name), f"{path}/{name}"
        if new.is_false:
            return self.note(f"{what}_REMOVED", where, "no others are allowed any more")
        if old.is_true:
            kind = "SCHEMA_ADDED" if name == "items" else f"{what}_NARROWED"
            return self.note(kind, where, "any were allowed, and only some are now")
        return self.compare(new, old, where)

    def _required(self, new: Facts, old: Facts, path: str) -> bool:
        fits = True
        before = old.keywords.get("required", ())
        old_properties = old.keywords.get("properties", {})
        for name in new.keywords.get("required", ()):
            if name in before:
                continue
            schema = new.keywords.get("properties", {}).get(name)
            if isinstance(schema, dict) and "default" in new.within(schema).keywords:
                continue
            known = name in old_properties or old.within(old.rest).is_true
            kind = "REQUIRED_ATTRIBUTE_ADDED" if known else _ADDED_TO_CLOSED
            text = f"'{name}' is required now, and has no default"
            fits = self.note(kind, f"{path}/required/{_escaped(name)}", text)
        return fits

    def _dependencies(self, new: Facts, old: Facts, path: str) -> bool:
        fits, before = True, dict(_dependencies(old))
        for name, needed in _dependencies(new):
            where, known = f"{path}/dependencies/{_escaped(name)}", before.get(name)
            if isinstance(needed, list):
                if not isinstance(known, list):
                    text = f"with '{name}', others are required now"
                    fits = self.note("DEPENDENCY_ARRAY_ADDED", where, text)
                elif not set(needed) <= set(known):
                    text = f"with '{name}', more others are required now"
                    fits = self.note("DEPENDENCY_ARRAY_EXTENDED", where, text)
            elif known is None or isinstance(known, list):
                if not new.within(needed).is_true:
                    text = f"with '{name}', more has to be true now"
                    fits = self.note("DEPENDENCY_SCHEMA_ADDED", where, text)
            else:
                fits &= self.compare(new.within(needed), old.within(known), where)
        return fits


_ADDED_TO_CLOSED = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"


def _dependencies(one: Facts) -> Iterator[tuple[str, Any]]:
    for keyword in ("dependencies", "dependentRequired"):
        yield from one.keywords.get(keyword, {}).items()


def _bounds(one: Facts, end: str, sign: int) -> list[tuple[str, tuple[Any, bool]]]:
    """The limits at one end of a range, as the numbers times ``sign``: the lower, the stricter.

    Each has whether the number itself is allowed: draft 4 has ``exclusiveMaximum: true``.
    """
    found = []
    plain, exclusive = one.keywords.get(f"m{end}"), one.keywords.get(f"exclusiveM{end}")
    if plain is not None:
        found.append((f"m{end}", (plain * sign, exclusive is not True)))
    if exclusive is not None and not isinstance(exclusive, bool):
        found.append((f"exclusiveM{end}", (exclusive * sign, False)))
    return found


def _bound(one: Facts, end: str, sign: int) -> tuple[Any, bool] | None:
    """The stricter of the limits at one end; None without any."""
    return min((limit for _, limit in _bounds(one, end, sign)), default=None)


def _is_multiple(number: Any, factor: Any) -> bool:
    try:
        return bool(number % factor == 0)
    except (ArithmeticError, TypeError):
        return False


def _in_capitals(name: str) -> str:
    """``maxLength`` → ``MAX_LENGTH``."""
    return "".join(f"_{one}" if one.isupper() else one.upper() for one in name)


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
