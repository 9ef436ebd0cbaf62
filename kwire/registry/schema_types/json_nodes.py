"""The nodes of a JSON Schema: its parts, with their references resolved.

A reference leads to a place within the schema, by pointer, ``$id`` or anchor, or into another
schema that the tree was made with. Nothing is ever fetched.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kwire.registry.schema_types.parsed import InvalidSchema

if TYPE_CHECKING:
    from referencing import Registry, Specification
    from referencing._core import Resolver

_ROOT = "kwire:schema"
"""The address of a schema without ``$id``; no schema is fetched from anywhere."""
_REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")
_MAX_REFERENCES_IN_A_ROW = 20

Schema = dict[str, Any] | bool


class Node:
    """A schema within the tree, where its references are resolved; known by its identity."""

    def __init__(self, schema: Schema, resolver: "Resolver[Any]", tree: "Tree") -> None:
        self.schema = schema
        self.resolver = resolver
        self._tree = tree

    @property
    def keywords(self) -> dict[str, Any]:
        """Its keywords; those of ``true`` are none, and ``false`` is ``not`` anything."""
        if isinstance(self.schema, bool):
            return {} if self.schema else {"not": True}
        return self.schema

    @property
    def is_old_draft(self) -> bool:
        """Whether ``$ref`` hides the keywords beside it (draft 7 and before)."""
        return self._tree.is_old_draft

    def at(self, schema: Schema) -> "Node":
        """The node of a schema that stands within this one."""
        return self._tree.node(schema, self.resolver)

    def target(self) -> "Node | None":
        """The node that this one refers to; None without a reference."""
        for keyword in _REFERENCES:
            reference = self.keywords.get(keyword)
            if isinstance(reference, str):
                return self._tree.look_up(reference, self.resolver)
        return None

    def without(self, *keywords: str) -> "Node":
        """This node without some keywords; the same node each time."""
        return self._tree.variant(self, keywords)

    def of_type(self, name: str) -> "Node":
        """This node for values of one type; the same node each time."""
        return self._tree.variant(self, (), name)


class Tree:
    """The nodes of a schema and of what it refers to, each made once."""

    def __init__(
        self, document: Schema, specification: "Specification[Any]", known: "Registry[Any]"
    ) -> None:
        self.is_old_draft = specification.name in ("draft-04", "draft-06", "draft-07")
        self._specification = specification
        self._nodes: dict[int, Node] = {}
        self._variants: dict[tuple[int, tuple[str, ...], str], Node] = {}
        resource = specification.create_resource(document)
        # Its own address, so that ``#`` within it means itself.
        registry: Registry[Any] = known.with_resource(resource.id() or _ROOT, resource).crawl()
        resolver = registry.resolver(resource.id() or _ROOT)
        self.root = self.node(document, resolver)

    def node(self, schema: Schema, resolver: "Resolver[Any]") -> Node:
        """The node of a part of the document; InvalidSchema if it isn't a schema."""
        if not isinstance(schema, dict | bool):
            raise InvalidSchema(f"{str(schema)[:50]} is referred to, and is no schema")
        found = self._nodes.get(id(schema))
        if found is None:
            resource = self._specification.create_resource(schema)
            found = Node(schema, resolver.in_subresource(resource), self)
            self._nodes[id(schema)] = found
        return found

    def variant(self, node: Node, without: tuple[str, ...], type_name: str = "") -> Node:
        """See ``Node.without`` and ``Node.of_type``."""
        key = (id(node), without, type_name)
        found = self._variants.get(key)
        if found is None:
            keywords = {name: one for name, one in node.keywords.items() if name not in without}
            if type_name:
                keywords["type"] = type_name
            found = Node(keywords, node.resolver, self)
            self._variants[key] = found
        return found

    def look_up(self, reference: str, resolver: "Resolver[Any]") -> Node:
        """What a reference leads to; InvalidSchema if that is nowhere, or another reference …"""
        from referencing.exceptions import Unresolvable

        for _ in range(_MAX_REFERENCES_IN_A_ROW):
            try:
                found = resolver.lookup(reference)
            except (Unresolvable, ValueError, TypeError, LookupError) as error:
                text = f"{reference[:100]} is neither in the schema nor among its references"
                raise InvalidSchema(text) from error
            node = self.node(found.contents, found.resolver)
            further = node.keywords.get("$ref")
            if not isinstance(further, str) or (not self.is_old_draft and len(node.keywords) > 1):
                return node
            reference, resolver = further, found.resolver
        raise InvalidSchema(f"{reference[:100]} leads to references only")

    def subschemas(self, node: Node) -> Iterator[Node]:
        """The nodes that stand directly within one."""
        if isinstance(node.schema, dict):
            for one in self._specification.subresources_of(node.schema):
                if isinstance(one, dict):
                    yield node.at(one)
