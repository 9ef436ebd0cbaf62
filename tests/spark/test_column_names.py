"""Names of columns: what a table can't keep is written otherwise, and can be read back."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.spark.column_names import (
    DELTA,
    DELTA_MAPPED,
    FILES,
    ICEBERG,
    PLAIN_FILES,
    NameRule,
    original,
    original_type,
)
from kwire.spark.decode.ddl import parse_ddl, parse_type
from kwire.spark.decode.inferred import grown, settled
from kwire.spark.decode.same_names import keys_of, named_once
from kwire.spark.decode.spark_types import array, field, map_of, struct
from kwire.spark.rows import METADATA
from kwire.spark.sql import columns_text, literal, quoted, type_text

RULES = (DELTA, DELTA_MAPPED, ICEBERG, FILES, PLAIN_FILES)
WORST = st.sampled_from(
    (
        *(
            "",
            "%",
            "%%",
            "%20",
            "%2",
            "%ff",
            "Date Time",
            "a;b",
            "a,b",
            "{}",
            "()",
            "\t",
            "\n",
            "=",
        ),
        *(
            "`",
            "``",
            "a.b",
            ".",
            "'",
            '"',
            "\\",
            "\0",
            "\x7f",
            "İ",
            "\u0131",
            "I",
            "\u017f",
            "\u212a",
            "ß",
            "é",
        ),
        *("topic", "Partition", "_file", "_FILE", "_incarnation", "_change_type", "__kt", "0042"),
        "x` string COMMENT 'hello from a producer', `y",
        "x" * 300,
    )
)
NAMES = st.text(max_size=12) | WORST | st.builds("".join, st.lists(WORST, max_size=4))
OWN = frozenset(METADATA)
"""Names of the record's own columns, which a value's columns don't have."""


def types(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Types with structs in structs, arrays and maps."""
    return st.recursive(
        st.sampled_from(("long", "string", "decimal(10,2)")),
        lambda inner: (
            st.lists(st.tuples(names, inner), min_size=1, max_size=4).map(_struct)
            | inner.map(array)
            | inner.map(lambda of: map_of("string", of))
        ),
        max_leaves=6,
    )


def _struct(fields: list[tuple[str, Any]]) -> Any:
    return struct(named_once(field(*one) for one in fields))


@given(NAMES, st.sampled_from(RULES), st.booleans())
@example("%20", DELTA, False)
def test_a_stored_name_can_be_read_back(name: str, rule: NameRule, is_nested: bool) -> None:
    """It has no character that the format refuses, and is none of the table's own names."""
    stored = rule.stored(name, is_nested=is_nested)
    assert stored
    if name in OWN and not is_nested:
        assert stored == name
        return
    assert original(stored) == name
    assert not rule.characters & set(stored)
    assert is_nested or not keys_of(stored) & rule.reserved


@given(NAMES)
@example("%ff")
def test_names_of_other_tables_can_be_read(name: str) -> None:
    """A name that no rule has made is one too."""
    assert isinstance(original(name), str)


@given(NAMES, st.sampled_from(RULES))
def test_what_a_format_keeps_stays(name: str, rule: NameRule) -> None:
    """Only a name with a refused character, of the table, or like an encoded one changes."""
    plain = not rule.characters & set(name) and not keys_of(name) & rule.reserved
    if plain and name not in ("", "%") and not re.search("%[0-9a-fA-F]{2}", name):
        assert rule.stored(name) == name


@given(NAMES, NAMES, st.sampled_from(RULES))
@example("a,b", "a%2cb", DELTA)
@example("_file", "%5ffile", ICEBERG)
def test_two_columns_stay_two(one: str, other: str, rule: NameRule) -> None:
    """Whatever the rule makes of their names, a table tells them apart if it did before."""
    if not keys_of(one) & keys_of(other) and not {one, other} & OWN:
        assert not keys_of(rule.stored(one)) & keys_of(rule.stored(other))


@pytest.mark.parametrize(
    "pair", ["idID", "I\u0131", "iI", "i\u0130", "\u212ak", "\u017fS", "\u1e9e\u00df"]
)
def test_names_that_spark_takes_for_the_same(pair: str) -> None:
    """Only the first of them becomes a column; Java compares them so in equalsIgnoreCase."""
    half = len(pair) // 2
    fields = [field(pair[:half], "long"), field(pair[half:], "long"), field("other", "long")]
    assert [one["name"] for one in named_once(fields)] == [pair[:half], "other"]


@given(types(NAMES), st.sampled_from(RULES))
def test_names_within_a_type_are_mapped_and_quoted(of: Any, rule: NameRule) -> None:
    """What SQL reads is what was meant, at every depth; the shape of a type stays."""
    stored = rule.stored_type(of)
    assert parse_type(type_text(stored)) == stored
    assert type_text(_without_names(of)) == type_text(_without_names(stored))
    assert original_type(stored) == of


def _without_names(of: Any) -> Any:
    if isinstance(of, str):
        return of
    found = {key: _without_names(value) for key, value in of.items() if key.endswith("Type")}
    if "fields" in of:
        found["fields"] = [field("n", _without_names(one["type"])) for one in of["fields"]]
    return {**of, **found}


@given(st.lists(st.tuples(NAMES, types(NAMES)), min_size=1, max_size=5))
def test_no_producer_writes_sql(fields: list[tuple[str, Any]]) -> None:
    """The columns of CREATE TABLE are those of the rows, whatever their names say."""
    of = _struct(fields)
    assert parse_ddl(columns_text(of)) == of


@given(NAMES)
def test_quotes_end_where_they_should(name: str) -> None:
    """A name is one token between backticks; a text has no quote that isn't escaped."""
    assert quoted(name)[1:-1].replace("``", "").count("`") == 0
    assert quoted(name)[1:-1].replace("``", "`") == name
    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", literal(name), re.DOTALL)
    assert re.sub(r"\\(.)", r"\1", literal(name)[1:-1], flags=re.DOTALL) == name


@given(types(NAMES), types(NAMES))
def test_no_sample_gives_a_schema_that_stops_the_next_one(one: Any, other: Any) -> None:
    """Schemas of samples with any names grow, and keep each name once."""
    known, found = settled(struct([field("v", one)])), settled(struct([field("v", other)]))
    assert known is not None
    assert found is not None
    whole = grown(known, found)
    assert grown(whole, found) == whole
    assert settled(whole) == whole


def test_a_sample_that_is_nested_deep() -> None:
    """What lies deeper than a column may becomes text: one record must not stop the pipeline."""
    deep = "BIGINT"
    for _ in range(900):
        deep = f"OBJECT<a: {deep}, `b c`: DECIMAL(3,1), 2fa: ARRAY<STRING>>"
    of, depth = settled(parse_type(deep, cut=True)), 0
    while isinstance(of, dict):
        assert [one["name"] for one in of["fields"]] == ["a", "b c", "2fa"]
        of, depth = of["fields"][0]["type"], depth + 1
    assert (of, depth) == ("string", 50)
