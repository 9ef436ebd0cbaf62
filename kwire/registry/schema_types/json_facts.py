"""What a JSON Schema says, as its comparison with another asks for it.

Patterns of names run on RE2, which takes linear time; nothing else of a schema is run.
"""

from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any

from kwire.registry.schema_types.json_nodes import Node
from kwire.registry.schema_types.parsed import MAX_PARTS, TooComplex, written_json

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_COMBINING = ("allOf", "anyOf", "oneOf", "$ref", "$recursiveRef", "$dynamicRef")
_MOST_CHARS_OF_A_PATTERN = 1000


class Facts:
    """What a node says, as the comparison asks for it; known by its identity."""

    def __init__(self, node: Node, known: "dict[int, Facts]") -> None:
        self.node = node
        self._known = known
        """The facts of all nodes of a tree by the node's identity, which the facts keep."""
        self.keywords = node.keywords

    @classmethod
    def of(cls, node: Node, known: "dict[int, Facts]") -> "Facts":
        """The facts of a node, made once; a reference that stands alone is its target."""
        target = node.target()
        if target is not None and (node.is_old_draft or len(node.keywords) == 1):
            node = target
        found = known.get(id(node))
        if found is None:
            if len(known) > MAX_PARTS:
                raise TooComplex(f"a schema has more than {MAX_PARTS:,} parts with its references")
            found = known[id(node)] = cls(node, known)
        return found

    def within(self, schema: Any) -> "Facts":
        """The facts of a schema that stands within this one."""
        return self.of(self.node.at(schema), self._known)

    @property
    def is_true(self) -> bool:
        """Whether it allows everything by saying nothing."""
        return not any(name not in _SAYS_NOTHING for name in self.keywords)

    @property
    def is_false(self) -> bool:
        """Whether it is ``false`` or ``not`` anything."""
        return self.keywords.get("not") in (True, {}) and "not" in self.keywords

    @cached_property
    def base(self) -> "Facts":
        """This schema without those that it combines."""
        if not any(name in self.keywords for name in _COMBINING):
            return self
        return self.of(self.node.without(*_COMBINING), self._known)

    @cached_property
    def all(self) -> "list[tuple[str, Facts]]":
        """The schemas that all have to be fulfilled, beside ``base``, with their paths."""
        found = [
            (f"/allOf/{index}", self.within(one))
            for index, one in enumerate(self.keywords.get("allOf", ()))
        ]
        target = self.node.target()
        if target is not None:
            found.append(("/$ref", self.of(target, self._known)))
        return found

    @cached_property
    def any(self) -> "list[list[tuple[str, Facts]]]":
        """Groups of schemas; of each group one has to be fulfilled."""
        return [
            [(f"/{name}/{at}", self.within(one)) for at, one in enumerate(self.keywords[name])]
            for name in ("anyOf", "oneOf")
            if name in self.keywords
        ]

    @cached_property
    def by_type(self) -> "list[Facts]":
        """This schema once for each of its types, if it lists several."""
        types = self.keywords.get("type")
        if not isinstance(types, list) or len(types) < 2:
            return []
        return [self.of(self.node.of_type(one), self._known) for one in types]

    @cached_property
    def conjuncts(self) -> "list[Facts]":
        """The bases of all schemas that have to be fulfilled, also of those within them."""
        found: dict[int, Facts] = {}
        groups: list[Facts] = [self]
        seen = {id(self)}
        while groups:
            one = groups.pop()
            if not one.base.is_true:
                found[id(one.base)] = one.base
            for _, part in one.all:
                if id(part) not in seen:
                    seen.add(id(part))
                    groups.append(part)
        return list(found.values()) or [self.base]

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that it allows, by ``type``, ``enum`` and ``const``; ``integer`` is apart."""
        values = self.values
        return self._listed if values is None else frozenset(map(_type_of, values.values()))

    @cached_property
    def _listed(self) -> frozenset[str]:
        given = self.keywords.get("type", list(_TYPES))
        found = frozenset([given] if isinstance(given, str) else given)
        return found | {"integer"} if "number" in found else found

    @cached_property
    def values(self) -> dict[str, Any] | None:
        """The values of ``enum`` or ``const`` by their text; None if it has neither."""
        if "const" in self.keywords:
            found = [self.keywords["const"]]
        elif "enum" in self.keywords:
            found = self.keywords["enum"]
        else:
            return None
        return {text_of(one): one for one in found if _type_of(one) in self._listed}

    @cached_property
    def rest(self) -> Any:
        """The schema of properties that aren't named."""
        if "additionalProperties" in self.keywords:
            return self.keywords["additionalProperties"]
        if "unevaluatedProperties" in self.keywords and self.base is self:
            return self.keywords["unevaluatedProperties"]
        return True

    def covering(self, name: str) -> "list[Facts]":
        """What holds for a property that isn't named: the patterns that fit, else the rest."""
        patterns = self.keywords.get("patternProperties", {})
        found = [self.within(one) for text, one in patterns.items() if fits_name(text, name)]
        return found or [self.within(self.rest)]

    @cached_property
    def items(self) -> "tuple[list[tuple[str, Facts]], Any]":
        """The schemas of the first items with their paths, and the schema of further ones."""
        listed, rest, name = self.keywords.get("prefixItems"), "items", "prefixItems"
        if not isinstance(listed, list):
            listed, rest, name = self.keywords.get("items"), "additionalItems", "items"
        if not isinstance(listed, list):
            return [], self.keywords.get("items", True)
        found = [(f"/{name}/{at}", self.within(one)) for at, one in enumerate(listed)]
        return found, self.keywords.get(rest, True)


_SAYS_NOTHING = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$comment", "title"}
    | {"description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"}
    | {"definitions", "$defs", "contentEncoding", "contentMediaType", "contentSchema"}
)


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    names = {float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def text_of(value: Any) -> str:
    """A text that two values of JSON share if they are equal, at least where they are numbers."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return written_json(value, in_order=True)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    """The pattern for RE2; None for one that it doesn't know, such as one that looks ahead."""
    re2 = import_module("re2")  # it has no types

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options) if len(pattern) <= _MOST_CHARS_OF_A_PATTERN else None
    except re2.error:
        return None


def fits_name(pattern: str, name: str) -> bool:
    """Whether a name of a property fits a pattern; one that can't be run fits every name."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(name) is not None
