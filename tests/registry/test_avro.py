"""Schemas of Avro: what is one, what makes two the same, what reads what, and hostile ones."""

import json
from typing import Any

import pytest

from kwire.registry.compatibility import Level, incompatibilities, violations
from kwire.registry.schema_types.parsed import (
    MAX_DEPTH,
    MAX_PARTS,
    MAX_REFERENCES,
    MAX_SCHEMA_BYTES,
    InvalidSchema,
    ParsedSchema,
    TooComplex,
)
from kwire.registry.schema_types.parsing import AVRO, parse


def avro(schema: Any, references: dict[str, ParsedSchema] | None = None) -> ParsedSchema:
    """A schema of what JSON has."""
    return parse(AVRO, json.dumps(schema), references)


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    """A record; a field is its name and its type, or an object."""
    listed = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": name, "fields": listed, **more}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    """An enum."""
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def broken(new: Any, old: Any) -> list[tuple[str, str]]:
    """The kinds and paths of what a reader with the new schema can't read."""
    return [(one.kind, one.path) for one in incompatibilities(avro(new), avro(old))]


@pytest.mark.parametrize(
    ("schema", "canonical"),
    [
        ("string", '"string"'),
        ({"type": "string"}, '"string"'),
        ({"logicalType": "date", "type": "int"}, '{"type":"int","logicalType":"date"}'),
        (["null", {"type": "int"}], '["null","int"]'),
        ({"values": {"type": "long"}, "type": "map"}, '{"type":"map","values":"long"}'),
        ({"items": "int", "x": 1, "type": "array"}, '{"type":"array","items":"int","x":1}'),
        (
            {"size": 4, "namespace": "n", "name": "F", "type": "fixed", "aliases": ["G", "m.H"]},
            '{"type":"fixed","name":"F","namespace":"n","size":4,"aliases":["G","m.H"]}',
        ),
        (
            enum("n.E", "A", "B", default="A", doc="d", x=[{"b": 1, "a": 2}]),
            (
                '{"type":"enum","name":"E","namespace":"n","doc":"d","symbols":["A","B"],'
                '"default":"A","x":[{"b":1,"a":2}]}'
            ),
        ),
        (
            record(
                "n.R",
                {"type": record("S"), "name": "a"},
                ("b", "n.S"),
                ("c", ["null", "R"]),
                {"default": None, "order": "ascending", "name": "d", "type": "null"},
                {"order": "ignore", "name": "e", "aliases": ["f"], "doc": "d", "type": "int"},
                ("g", record("m.T", ("h", "n.S"))),
            ),
            (
                '{"type":"record","name":"R","namespace":"n","fields":['
                '{"name":"a","type":{"type":"record","name":"S","fields":[]}},'
                '{"name":"b","type":"S"},{"name":"c","type":["null","R"]},'
                '{"name":"d","type":"null","default":null},'
                '{"name":"e","type":"int","doc":"d","order":"ignore","aliases":["f"]},'
                '{"name":"g","type":{"type":"record","name":"T","namespace":"m","fields":['
                '{"name":"h","type":"n.S"}]}}]}'
            ),
        ),
    ],
)
def test_the_canonical_text_is_that_of_avros_java_library(schema: Any, canonical: str) -> None:
    """And it is its own canonical text."""
    found = avro(schema)
    assert found.canonical == canonical
    assert parse(AVRO, canonical).canonical == canonical


def test_the_normalized_text_has_full_names_and_sorted_properties() -> None:
    """Two ways to write the same are one with normalize=true."""
    near = record("R", ("s", record("S")), namespace="n", z=1, a={"y": 1, "x": [{"k": 1, "b": 2}]})
    full = record("n.R", ("s", record("n.S")), a={"x": [{"b": 2, "k": 1}], "y": 1}, z=1)
    assert avro(near).canonical != avro(full).canonical
    assert avro(near).normalized == avro(full).normalized
    assert avro(json.loads(avro(near).normalized)).normalized == avro(near).normalized


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("Nowhere", "the type Nowhere is defined nowhere before it is used"),
        (None, "None is no type"),
        ({"name": "R"}, "has no type"),
        ({"type": {"type": "string"}}, "has to be a text here"),
        ({"type": "array"}, "a type array has no items"),
        ({"type": "map"}, "a type map has no values"),
        ({"type": "record", "fields": []}, "a type record has no name"),
        ({"type": "record", "name": "R"}, "record R has no list of fields"),
        (record("1R"), "1R is no name of a type"),
        (record("int"), "int is the name of a primitive type"),
        (record("R", namespace=1), "the namespace of R is no text"),
        (record("R", {"type": "int"}), "a field of record R has no name"),
        (record("R", {"name": "a"}), "the field a of record R has no type"),
        (record("R", ("a-b", "int")), "a-b of record R is no name of a field"),
        (record("R", ("a", "int"), ("a", "int")), "record R has the field a twice"),
        (record("R", {"name": "a", "type": "int", "order": "up"}), "up of record R is no order"),
        (record("R", aliases="S"), "aliases of R is no list of texts"),
        (record("R", ("a", record("R"))), "the type R is defined twice"),
        (["int", "int"], "a union has int twice"),
        ([{"type": "map", "values": "int"}] * 2, "a union has map twice"),
        (["null", ["int"]], "a union stands directly in a union"),
        ({"type": "enum", "name": "E"}, "enum E has no symbols"),
        (enum("E", "A", "A"), "enum E has a symbol twice"),
        (enum("E", "A-B"), "the symbol A-B of enum E is no name"),
        (enum("E", "A", default="B"), "the default of enum E is none of its symbols"),
        ({"type": "fixed", "name": "F"}, "fixed F has no size"),
        ({"type": "fixed", "name": "F", "size": -1}, "fixed F has no size"),
        ({"type": "fixed", "name": "F", "size": True}, "fixed F has no size"),
    ],
)
def test_no_schema(schema: Any, why: str) -> None:
    """The error says what is wrong."""
    with pytest.raises(InvalidSchema) as caught:
        avro(schema)
    assert why in str(caught.value)


def test_the_types_of_references_are_known() -> None:
    """Also those of the references' own; their definitions aren't part of the schema."""
    inner = avro(record("n.Inner"))
    middle = avro(record("n.Middle", ("a", "n.Inner")), {"inner.avsc": inner})
    schema = avro(record("n.Outer", ("m", "Middle"), ("i", "Inner")), {"middle": middle})
    assert '"type":"Inner"' in schema.canonical
    assert not incompatibilities(schema, schema)
    with pytest.raises(InvalidSchema, match="defined nowhere"):
        avro(record("n.Outer", ("m", "Middle")))
    with pytest.raises(InvalidSchema, match="defined twice"):
        avro(record("n.Inner"), {"inner.avsc": inner})


MISSING_DEFAULT, MISMATCH = "READER_FIELD_MISSING_DEFAULT_VALUE", "TYPE_MISMATCH"
RECORD, INTS = record("R", ("a", "int")), {"type": "array", "items": "int"}
NUMBERS = ("int", "long", "float", "double")


@pytest.mark.parametrize("new", [*NUMBERS, "string", "bytes", "null", "boolean"])
def test_promotions(new: str) -> None:
    """A number is read as a longer one, a text as bytes and the other way round."""
    read = set(NUMBERS[: NUMBERS.index(new) + 1]) if new in NUMBERS else {new}
    if new in ("string", "bytes"):
        read = {"string", "bytes"}
    for old in (*NUMBERS, "string", "bytes", "null", "boolean"):
        assert broken(new, old) == ([] if old in read else [("TYPE_MISMATCH", "/")])


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (record("R", ("a", "int")), record("R"), [(MISSING_DEFAULT, "/fields/0")]),
        (record("R", {"name": "a", "type": "null", "default": None}), record("R"), []),
        (record("R"), record("R", ("a", "int")), []),
        (record("R", ("a", "int")), record("R", ("a", "string")), [(MISMATCH, "/fields/0/type")]),
        (record("R", {"name": "b", "type": "int", "aliases": ["a"]}), RECORD, []),
        (record("S"), record("R"), [("NAME_MISMATCH", "/name")]),
        (record("n.R"), record("m.R"), []),
        (record("S", aliases=["m.R"]), record("m.R"), []),
        (enum("E", "A"), enum("E", "A", "B"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
        (enum("E", "A", default="A"), enum("E", "A", "B"), []),
        (enum("E", "A", "B"), enum("E", "A"), []),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            [("FIXED_SIZE_MISMATCH", "/size")],
        ),
        (INTS, {"type": "array", "items": "long"}, [(MISMATCH, "/items")]),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, []),
        (["null", "long"], "int", []),
        (["null", "string"], "int", [("MISSING_UNION_BRANCH", "/")]),
        ("int", ["int", "null"], [("TYPE_MISMATCH", "/")]),
        (["null", "int"], ["int", "string", "null"], [("MISSING_UNION_BRANCH", "/1")]),
        (["int", "null", "string"], ["null", "int"], []),
    ],
)
def test_what_a_reader_reads(new: Any, old: Any, expected: list[tuple[str, str]]) -> None:
    """The kinds and paths of Avro's own checker."""
    assert broken(new, old) == expected


def test_every_place_is_told_at_its_own_path() -> None:
    """In words for a person, too."""
    new = record("n.R", ("a", "int"), ("b", record("S", ("c", "string"))))
    old = record("n.R", ("b", record("S", ("c", "int"))))
    assert [str(one) for one in incompatibilities(avro(new), avro(old))] == [
        (
            '{errorType:"READER_FIELD_MISSING_DEFAULT_VALUE", description:"field \'a\' of record '
            'n.R has no default, and the old schema has no such field (path /fields/0)"}'
        ),
        (
            '{errorType:"TYPE_MISMATCH", description:"string can\'t read int '
            '(path /fields/1/type/fields/0/type)"}'
        ),
    ]


def test_recursive_types_end() -> None:
    """Also where the difference is within the recursion, and a union tries the type first."""
    new = record("R", ("a", "long"), ("next", ["null", "R"]))
    old = record("R", ("a", "int"), ("next", ["null", "R"]))
    assert not broken(new, old)
    assert broken(old, new) == [
        ("TYPE_MISMATCH", "/fields/0/type"),
        ("MISSING_UNION_BRANCH", "/fields/1/type/1"),
    ]


def test_a_pair_that_a_union_tried_is_told_where_it_stands_by_itself() -> None:
    """What is known from a trial isn't told before."""
    new = record("O", ("a", ["null", record("R", ("x", "int"))]), ("b", "R"))
    old = record("O", ("a", ["null", record("R", ("x", "string"))]), ("b", "R"))
    assert broken(new, old) == [
        ("MISSING_UNION_BRANCH", "/fields/0/type/1"),
        ("TYPE_MISMATCH", "/fields/1/type/fields/0/type"),
    ]


def test_what_seemed_to_fit_within_a_recursion_is_looked_at_again() -> None:
    """R is assumed to fit while S is compared; it doesn't, so S doesn't either."""

    def schema(kind: str) -> Any:
        inner = record("S", ("r", "R"))
        return record("R", ("u", ["null", inner]), ("x", kind), ("v", ["null", "S"]))

    assert ("MISSING_UNION_BRANCH", "/fields/2/type/1") in broken(schema("int"), schema("string"))


def test_the_levels() -> None:
    """Which pairs each level looks at, in which direction."""
    first = avro(record("R", ("a", "int"), ("b", "int")))
    second = avro(record("R", ("a", "int")))
    third = avro(record("R", ("a", "int"), {"name": "b", "type": "string", "default": ""}))
    older = {1: first, 2: second}
    passed = {level for level in Level if not violations(level, third, older)}
    assert passed == {Level.NONE, Level.BACKWARD, Level.FORWARD, Level.FULL}
    assert not any(violations(level, third, {}) for level in Level)
    said = violations(Level.FULL_TRANSITIVE, third, older)
    assert [one[:25] for one in said[:2]] == ['{errorType:"TYPE_MISMATCH'] * 2
    assert said[2:] == [
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{first.canonical}'}}",
        "{compatibility: 'FULL_TRANSITIVE'}",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 10_000,
        '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000,
        '{"type":"array","items":' * (MAX_DEPTH + 1) + '"int"' + "}" * (MAX_DEPTH + 1),
        '{"type":"int","x":' + "[" * 200 + "]" * 200 + "}",
        '{"type":"int","x":NaN}',
        '{"type":"int","x":' + "9" * 5000 + "}",
        '{"type":"int","x":"\\ud800"}',
        '"\ud800"',
        json.dumps(enum("E", *(f"S{number}" for number in range(MAX_PARTS)))),
        '"' + "x" * MAX_SCHEMA_BYTES + '"',
        "x" * (10 * MAX_SCHEMA_BYTES),
        json.dumps(record("a." * 500 + "b")),
    ],
    ids=range(14),
)
def test_hostile_texts(text: str) -> None:
    """Each ends in one short line."""
    with pytest.raises(InvalidSchema) as caught:
        parse(AVRO, text)
    assert len(str(caught.value)) < 300


def test_another_type_of_schema() -> None:
    """The error has the types there are."""
    with pytest.raises(InvalidSchema, match="the type XML is none of AVRO, JSON, PROTOBUF"):
        parse("XML", "<a/>")


def test_references_are_counted_once_each() -> None:
    """However many ways lead to each of them: 2^n ways for n schemas here."""
    schemas: dict[str, ParsedSchema] = {}
    for number in range(30):
        schemas[f"s{number}"] = avro(record(f"R{number}"), dict(schemas))
    assert avro("R29", schemas).canonical == '"R29"'
    many = {f"s{number}": avro(record(f"R{number}")) for number in range(MAX_REFERENCES + 1)}
    with pytest.raises(InvalidSchema, match="uses more than"):
        avro("R1", many)
    with pytest.raises(InvalidSchema, match="uses more than"):
        avro("R1", {"all": avro("R1", dict(list(many.items())[:-1]))})


def doubling(levels: int, leaf: str) -> Any:
    """A record whose every level uses the level below twice."""
    below = [f"R{one}" for one in range(levels - 1)]
    return [
        record("R0", ("x", leaf)),
        *(record(f"R{one}", ("a", name), ("b", name)) for one, name in enumerate(below, 1)),
    ]


def test_what_is_used_often_is_told_once() -> None:
    """Avro's checkers repeat it at each use: 2^60 times here."""
    assert len(broken(doubling(60, "int"), doubling(60, "string"))) < 70


@pytest.mark.parametrize(
    "schema",
    [
        [record(f"R{one}", {"name": "x", "type": "int", "default": 0}) for one in range(2000)],
        doubling(400, "int"),
    ],
    ids=["wide", "deep"],
)
def test_comparing_is_bounded(schema: Any) -> None:
    """Unions of thousands of branches, or types in types in types."""
    changed = json.loads(json.dumps(schema).replace('"int"', '"string"'))
    with pytest.raises(TooComplex):
        broken(schema, changed)
