"""JSON Schema: what is a schema, what makes two the same, what reads what, and hostile ones."""

import json
import random
from typing import Any

import pytest

from kwire.registry.compatibility import incompatibilities
from kwire.registry.schema_types.parsed import (
    MAX_PARTS,
    InvalidSchema,
    ParsedSchema,
    TooComplex,
)
from kwire.registry.schema_types.parsing import JSON, parse
from tests.registry.schema_pairs import json_schema_pair

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="make .venv/.test installs it")

PAIRS = 300
NEWEST = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def schema(given: Any, references: dict[str, ParsedSchema] | None = None) -> ParsedSchema:
    """A schema of what JSON has."""
    return parse(JSON, json.dumps(given), references)


def thing(properties: Any, rest: Any = None, **more: Any) -> Any:
    """A schema of objects; ``rest`` is what it says of other properties."""
    found = {"type": "object", "properties": properties, **more}
    return found if rest is None else {**found, "additionalProperties": rest}


def broken(new: Any, old: Any) -> list[tuple[str, str]]:
    """The kinds and paths of what a reader with the new schema can't read."""
    return [(one.kind, one.path) for one in incompatibilities(schema(new), schema(old))]


def test_the_canonical_text_keeps_the_order_and_the_normalized_doesnt() -> None:
    """As those of Confluent's registry."""
    found = parse(JSON, '{ "type": "object",\n "properties": {"b": {}, "a": true} }')
    assert found.canonical == '{"type":"object","properties":{"b":{},"a":true}}'
    assert found.normalized == '{"properties":{"a":true,"b":{}},"type":"object"}'


@pytest.mark.parametrize("draft", DRAFTS)
def test_each_draft_has_its_own_rules(draft: str) -> None:
    """In draft 4, ``exclusiveMaximum`` is true or false; after that it is a number."""
    is_oldest = draft == DRAFTS[0]
    assert schema({"$schema": draft, "maximum": 3, "exclusiveMaximum": True if is_oldest else 4})
    with pytest.raises(InvalidSchema, match="it is no JSON Schema at #/exclusiveMaximum"):
        schema({"$schema": draft, "maximum": 3, "exclusiveMaximum": 4 if is_oldest else True})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (3, "it is neither an object nor true nor false"),
        ([], "it is neither an object nor true nor false"),
        ({"type": "strin"}, "it is no JSON Schema at #/type"),
        ({"properties": {"a": {"maxLength": -1}}}, "at #/properties/a/maxLength"),
        ({"$schema": "http://localhost:1/schema"}, "its $schema is http://localhost:1/schema"),
        ({"$schema": 3}, "its $schema is 3"),
        ({"$ref": "http://localhost:1/x"}, "is neither in the schema nor among its references"),
        ({"$ref": "file:///etc/passwd"}, "is neither in the schema nor among its references"),
        ({"$ref": "#/definitions/b"}, "is neither in the schema nor among its references"),
        ({"not": {"items": [{"$ref": "#x"}]}}, "is neither in the schema nor among its references"),
        ({"$ref": "#/type", "type": 1}, "it is no JSON Schema at #/type"),
        ({"$ref": "#/required", "required": ["a"]}, "['a'] is referred to, and is no schema"),
        ({"$ref": "#"}, "# leads to references only"),
        (
            {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}},
            "leads to references only",
        ),
    ],
)
def test_no_schema(given: Any, why: str) -> None:
    """The error says what is wrong; nothing is fetched from anywhere."""
    with pytest.raises(InvalidSchema) as caught:
        schema(given)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


def test_references_are_found_by_name_address_and_anchor() -> None:
    """A name counts beside the address of the schema, too."""
    text, number = schema({"definitions": {"t": TEXT}}), schema(NUMBER)
    used = {"text.json": text, "number.json": number}
    for own in ({}, {"$id": "http://example.com/own.json"}):
        found = schema(
            own | thing({"a": {"$ref": "text.json#/definitions/t"}, "b": {"$ref": "number.json"}}),
            used,
        )
        same = schema(thing({"a": TEXT, "b": NUMBER}))
        assert not incompatibilities(found, same)
        assert not incompatibilities(same, found)
    named = {"$defs": {"x": {"$anchor": "here", **TEXT}, "y": {"$id": "there", **NUMBER}}}
    assert not broken(
        {**NEWEST, **named, **thing({"a": {"$ref": "#here"}, "b": {"$ref": "there"}})},
        {**NEWEST, **thing({"a": TEXT, "b": NUMBER})},
    )


def test_what_looks_like_a_reference_and_is_none() -> None:
    """A property of that name, and values."""
    assert schema({"properties": {"$ref": TEXT}, "enum": [{"$ref": "x"}], "default": {"$ref": "x"}})


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({}, TEXT, []),
        (TEXT, False, []),
        (False, TEXT, [("TYPE_CHANGED", "#")]),
        (TEXT, {}, [("TYPE_NARROWED", "#")]),
        (TEXT, NUMBER, [("TYPE_CHANGED", "#")]),
        (NUMBER, {"type": "integer"}, []),
        ({"type": "integer"}, NUMBER, [("TYPE_NARROWED", "#")]),
        ({"type": ["string", "null"]}, TEXT, []),
        (TEXT, {"type": ["string", "null"]}, [("TYPE_NARROWED", "#")]),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"type": ["string", "null"]}, []),
        ({"type": ["string", "null"]}, {"oneOf": [TEXT, {"type": "null"}]}, []),
        ({**TEXT, "maxLength": 3}, TEXT, [("MAX_LENGTH_ADDED", "#/maxLength")]),
        ({"maxLength": 3}, {"maxLength": 4}, [("MAX_LENGTH_DECREASED", "#/maxLength")]),
        ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 4}, []),
        ({"minLength": 3}, {"minLength": 2}, [("MIN_LENGTH_INCREASED", "#/minLength")]),
        ({**TEXT, "minLength": 0}, TEXT, []),
        ({**TEXT, "pattern": "a"}, TEXT, [("PATTERN_ADDED", "#/pattern")]),
        ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, [("PATTERN_CHANGED", "#/pattern")]),
        (TEXT, {**TEXT, "pattern": "b"}, []),
        ({**NUMBER, "maximum": 3}, NUMBER, [("MAXIMUM_ADDED", "#/maximum")]),
        ({**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 4}, [("MAXIMUM_DECREASED", "#/maximum")]),
        ({**NUMBER, "maximum": 3}, {**NUMBER, "exclusiveMaximum": 3}, []),
        (
            {**NUMBER, "exclusiveMinimum": 3},
            {**NUMBER, "minimum": 3},
            [("EXCLUSIVE_MINIMUM_INCREASED", "#/exclusiveMinimum")],
        ),
        ({**NUMBER, "multipleOf": 2}, NUMBER, [("MULTIPLE_OF_ADDED", "#/multipleOf")]),
        ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4}, []),
        ({"multipleOf": 4}, {"multipleOf": 2}, [("MULTIPLE_OF_EXPANDED", "#/multipleOf")]),
        ({"multipleOf": 3}, {"multipleOf": 2}, [("MULTIPLE_OF_CHANGED", "#/multipleOf")]),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, [("ENUM_ARRAY_NARROWED", "#")]),
        ({"enum": ["a", "c"]}, {"enum": ["a", "b"]}, [("ENUM_ARRAY_CHANGED", "#")]),
        ({"enum": ["a", "b", 1.0]}, {"enum": ["a", 1]}, []),
        ({"enum": [True]}, {"enum": [1]}, [("ENUM_ARRAY_CHANGED", "#")]),
        ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, []),
        ({"not": {"type": ["string", "null"]}}, {"not": TEXT}, [("NOT_TYPE_EXTENDED", "#/not")]),
        ({"if": TEXT, "then": {}}, {}, [("TYPE_CHANGED", "#/if")]),
        ({}, {"if": TEXT, "then": {"maxLength": 1}}, []),
        (
            {"allOf": [{"maxLength": 3}, {"minLength": 1}]},
            {"allOf": [{"maxLength": 3}]},
            [("PRODUCT_TYPE_EXTENDED", "#/allOf/1")],
        ),
        ({"allOf": [{"maxLength": 3}]}, {"allOf": [{"maxLength": 3}, {"minLength": 1}]}, []),
        ({"oneOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}, [("SUM_TYPE_NARROWED", "#/oneOf/1")]),
        ({"oneOf": [NUMBER, TEXT]}, {"oneOf": [TEXT]}, []),
    ],
)
def test_what_a_reader_reads_of_values(new: Any, old: Any, expected: Any) -> None:
    """Everything that the old schema allows, and the kinds are Confluent's."""
    assert broken(new, old) == expected


CLOSED, OPEN = thing({"a": TEXT}, rest=False), thing({"a": TEXT})
OF_TEXTS = thing({"a": TEXT}, rest=TEXT)
WITH_NUMBER, WITH_TEXT = {"a": TEXT, "b": NUMBER}, {"a": TEXT, "b": TEXT}


@pytest.mark.parametrize(
    ("new", "old", "kinds"),
    [
        (thing(WITH_TEXT), OPEN, ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (thing({"a": TEXT, "b": {}}), OPEN, []),
        (thing(WITH_TEXT, rest=False), CLOSED, []),
        (
            thing(WITH_TEXT, rest=False, required=["b"]),
            CLOSED,
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
        ),
        (thing({"a": TEXT, "b": {**TEXT, "default": ""}}, rest=False, required=["b"]), CLOSED, []),
        (thing(WITH_TEXT, rest=TEXT), OF_TEXTS, []),
        (
            thing(WITH_NUMBER, rest=TEXT),
            OF_TEXTS,
            ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (OPEN, thing(WITH_TEXT), []),
        (CLOSED, thing(WITH_TEXT, rest=False), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (CLOSED, thing({"a": TEXT, "b": False}, rest=False), []),
        (OF_TEXTS, thing(WITH_TEXT, rest=TEXT), []),
        (
            OF_TEXTS,
            thing(WITH_NUMBER, rest=TEXT),
            ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (OPEN, CLOSED, []),
        (CLOSED, OPEN, ["ADDITIONAL_PROPERTIES_REMOVED"]),
        (OF_TEXTS, OPEN, ["ADDITIONAL_PROPERTIES_NARROWED"]),
        (thing({"a": TEXT}, required=["a"]), OPEN, ["REQUIRED_ATTRIBUTE_ADDED"]),
        (thing({"a": {**TEXT, "default": ""}}, required=["a"]), OPEN, []),
        (OPEN, thing({"a": TEXT}, required=["a"]), []),
        (thing({"a": TEXT}, maxProperties=2), OPEN, ["MAX_PROPERTIES_ADDED"]),
        (thing({"a": TEXT}, dependencies={"a": ["b"]}), OPEN, ["DEPENDENCY_ARRAY_ADDED"]),
        (
            thing({"a": TEXT}, dependencies={"a": ["b", "c"]}),
            thing({"a": TEXT}, dependencies={"a": ["b"]}),
            ["DEPENDENCY_ARRAY_EXTENDED"],
        ),
        (thing({"a": TEXT}, dependencies={"a": OPEN}), OPEN, ["DEPENDENCY_SCHEMA_ADDED"]),
        (
            {"type": "object", "patternProperties": {"^x": NUMBER}, "additionalProperties": False},
            thing({"xy": TEXT}, rest=False),
            [
                "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            ],
        ),
        (
            {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False},
            thing({"xy": TEXT}, rest=False),
            [],
        ),
        (thing({}, propertyNames={"maxLength": 3}), thing({}), ["MAX_LENGTH_ADDED"]),
        ({"type": "array", "items": TEXT}, {"type": "array"}, ["SCHEMA_ADDED"]),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": NUMBER}, ["TYPE_CHANGED"]),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
        ({"type": "array", "maxItems": 1}, {"type": "array"}, ["MAX_ITEMS_ADDED"]),
        (
            {"type": "array", "items": [TEXT, NUMBER]},
            {"type": "array", "items": [TEXT]},
            ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
        ),
        (
            {"type": "array", "items": [TEXT], "additionalItems": False},
            {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False},
            ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
        ),
        (
            {**NEWEST, "type": "array", "prefixItems": [TEXT], "items": False},
            {"type": "array", "items": [TEXT], "additionalItems": False},
            [],
        ),
    ],
)
def test_what_a_reader_reads_of_objects_and_arrays(new: Any, old: Any, kinds: list[str]) -> None:
    """The rules of open and closed content models, as Confluent documents them."""
    assert [kind for kind, _ in broken(new, old)] == kinds


def test_recursive_schemas_end() -> None:
    """Also where they differ."""

    def tree(leaf: Any) -> Any:
        children = {"type": "array", "items": {"$ref": "#/definitions/n"}}
        node = thing({"v": leaf, "c": children}, rest=False)
        return {"$ref": "#/definitions/n", "definitions": {"n": node}}

    assert not broken(tree(NUMBER), tree({"type": "integer"}))
    assert broken(tree(TEXT), tree(NUMBER))[0] == ("TYPE_CHANGED", "#/properties/v")


def test_a_pair_is_told_as_a_library_that_proves_containment_has_it() -> None:
    """What is called readable here is never provably unreadable; each schema reads itself."""
    proven = readable = 0
    for seed in range(PAIRS):
        old, new = json_schema_pair(seed)
        assert not broken(old, old), old
        found = broken(new, old)
        try:
            covers = _canonical(new).covers(_canonical(old)).value
        except ValueError:
            continue  # a schema that allows nothing, or one beyond the library
        assert found or covers != "no", f"{json.dumps(old)} → {json.dumps(new)}"
        proven += covers != "unknown"
        readable += not found and covers == "yes"
    assert proven > PAIRS * 0.7
    assert readable > PAIRS * 0.2


def _canonical(given: Any) -> Any:
    return jsonschema_rs.canonicalize(given)


def _definitions(count: int, made: Any) -> Any:
    return {"definitions": {f"d{one}": made(one) for one in range(count)}}


def refer(number: int) -> Any:
    """A reference to a definition."""
    return {"$ref": f"#/definitions/d{number}"}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000,
        '{"not":' * 10_000 + "{}" + "}" * 10_000,
        '{"not":' * 150 + "{}" + "}" * 150,
        json.dumps({"enum": list(range(MAX_PARTS))}),
        '{"$ref":"#/' + "a/" * 100_000 + '"}',
        '{"pattern":"("}',
        json.dumps(_definitions(1000, lambda one: refer(one + 1))),
    ],
    ids=range(7),
)
def test_hostile_texts(text: str) -> None:
    """Each ends in one short line."""
    with pytest.raises(InvalidSchema) as caught:
        parse(JSON, text)
    assert len(str(caught.value)) < 500


def test_patterns_are_never_run_without_a_bound() -> None:
    """RE2 runs those of names; one that it doesn't know counts as fitting all names."""
    evil = thing({}, rest=False, patternProperties={"(a+)+$": TEXT, "(?=a)b": NUMBER})
    assert broken(evil, thing({"a" * 5000 + "b": TEXT}, rest=False)) != []
    assert not broken(evil, evil)


def test_many_patterns_end() -> None:
    """Of thousands, each would be run on each of thousands of names."""
    named = thing({f"p{one}": TEXT for one in range(5000)}, rest=False)
    patterns = {f"^a{one}(b|c)*$": TEXT for one in range(5000)}
    with pytest.raises(TooComplex):
        broken(thing({}, rest=False, patternProperties=patterns), named)


def doubling(levels: int, kind: str) -> Any:
    """Each definition uses the one below twice, in branches of which one has to fit."""
    branches = _definitions(
        levels,
        lambda one: (
            {"anyOf": [thing({"a": refer(one - 1)}), {"items": refer(one - 1)}]}
            if one
            else {"type": kind}
        ),
    )
    return {**branches, **refer(levels - 1)}


@pytest.mark.parametrize("levels", [10, 40, 400])
def test_exponential_schemas_end(levels: int) -> None:
    """In an answer, or in TooComplex."""
    try:
        assert broken(doubling(levels, "string"), doubling(levels, "number"))
    except TooComplex:
        assert levels > 10


def test_many_branches_end() -> None:
    """Of thousands, each is compared with each."""
    chance = random.Random(1)

    def several(limit: int) -> Any:
        return {"anyOf": [{**TEXT, "maxLength": chance.randint(1, limit)} for _ in range(1000)]}

    with pytest.raises(TooComplex):
        broken(several(9), several(99))
