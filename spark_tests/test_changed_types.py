"""What becomes of a column whose type changes, at each sink; docs/PIPELINES.md has the same table.

A first batch makes the table, a second one has another type in the column ``c``. Each cell says
which type the table has then for readers without Spark, and which values are rows or dead letters.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kwire.spark import rows as names
from kwire.spark.batch import Batch
from kwire.spark.batch_work import BatchWork
from kwire.spark.column_names import DELTA, ICEBERG, PARTITION_COLUMN
from kwire.spark.settings import Decode, PipelineSettings, Transform
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.delta import WIDENING
from kwire.spark.sql import quoted
from spark_tests.decoding import records_of
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch
from spark_tests.test_far_times import KINDS, given
from spark_tests.test_names import stored, without_nulls

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
KINDS = {name: options for name, options in KINDS.items() if name != "parquet"}
ONE, TWO = batch(0, 0, 1, partitions=1), batch(1, 0, 100, partitions=1)
WIDE = "delta with widening"
"""A Delta table whose property lets its columns become wider; deltalake can't read it then."""

MIDNIGHT = "2026-01-31T00:00:00Z"


class Change(NamedTuple):
    """Types before and after, the values of the second batch, and what the sinks make of it."""

    before: str
    after: str
    first: str
    values: tuple[str, str, str]
    """Of the second batch, as JSON; the last one doesn't fit the first type."""
    rows: int
    """How many of the second batch's three are rows where the column keeps its type."""
    iceberg: str = ""
    """The type that Iceberg widens the column to."""
    delta: str = ""
    """The type that Delta widens the column to, if it may."""
    kept: str = ""
    """The type that the column has where it isn't widened, if new fields are added to it."""


CHANGES = [
    Change("int", "bigint", "1", ("2", "null", "1099511627776"), 2, "bigint", "bigint"),
    Change("float", "double", "1.5", ("2.5", "null", "0.1"), 2, "double", "double"),
    Change("decimal(9,2)", "decimal(12,2)", "1.25", ("2.25", "null", "1234567890.25"), 2)._replace(
        iceberg="decimal(12,2)", delta="decimal(12,2)"
    ),
    Change("decimal(9,2)", "decimal(12,4)", "1.25", ("2.25", "null", "1.2345"), 2)._replace(
        delta="decimal(12,4)"
    ),
    Change("int", "double", "1", ("2.0", "null", "2.5"), 2, delta="double"),
    Change("int", "decimal(12,2)", "1", ("2.00", "null", "2.50"), 2, delta="decimal(12,2)"),
    Change("bigint", "int", "1", ("2", "null", "3"), 3),
    Change("double", "float", "1.5", ("2.5", "null", "3.5"), 3),
    Change("bigint", "double", "1", ("2.0", "null", "2.5"), 2),
    Change("double", "bigint", "1.5", ("2", "null", "9007199254740993"), 2),
    Change("int", "string", "1", ('"2"', "null", '"x"'), 1),
    Change("string", "int", '"x"', ("2", "null", "3"), 3),
    Change("boolean", "int", "true", ("1", "null", "0"), 1),
    Change("date", "timestamp", '"2026-01-31"', (f'"{MIDNIGHT}"', "null", f'"{MIDNIGHT}"'), 1),
    Change("string", "struct<a: int>", '"x"', ('{"a": 1}', "null", '{"a": 2}'), 1),
    Change("array<int>", "array<bigint>", "[1]", ("[2]", "null", "[3, 1099511627776]"), 2)._replace(
        iceberg="array<bigint>", delta="array<bigint>"
    ),
    Change("struct<a: int>", "struct<a: bigint, b: string>", '{"a": 1}',
        ('{"a": 2, "b": "x"}', "null", '{"a": 1099511627776}'), 2)._replace(
        iceberg="struct<a: bigint, b: string>", delta="struct<a: bigint, b: string>",
        kept="struct<a: int, b: string>",
    ),
    Change("map<string, int>", "map<string, bigint>", '{"k": 1}',
        ('{"k": 2}', "null", '{"k": 1099511627776}'), 2)._replace(
        iceberg="map<string, bigint>", delta="map<string, bigint>"
    ),
]  # fmt: skip


class Dead:
    """Dead letters, by offset."""

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}

    def write(self, dead: DataFrame, batch: Batch) -> None:
        """Keep them."""
        found = dead.select(names.OFFSET, names.ERROR).collect()
        assert len({row[0] for row in found}) == len(found)
        self.errors |= {row[0]: row[1] for row in found}


def settings_of(kind: str, path: Path) -> Any:
    """The settings of a sink."""
    if kind == WIDE:
        return replace(given("delta", path), options={"properties": {WIDENING: "true"}})
    found = given(kind, path)
    # A row may lack every column: the key of upserts is the record's.
    return replace(found, options={**found.options, "key": ["_key"]}) if "upsert" in kind else found


def run(
    spark: SparkSession, sink: Any, schema: str, values: list[bytes], one: Batch, **parts: Any
) -> tuple[int, dict[int, str]]:
    """A batch of JSON through the whole work on it: how many rows, and the errors by offset."""
    decode = Decode(format="json", options={"schema": schema})
    settings = PipelineSettings("p", SOURCE, sink, "/checkpoint", decode=decode, **parts)
    made = make_sink(sink, SOURCE, "p")
    made.open(spark)
    dead = Dead()
    records = records_of(spark, values)
    key = f.concat_ws("-", f.lit(one.batch_id), "offset").cast("binary")
    counts = BatchWork(settings, made, dead).run(records.withColumn("key", key), one)
    assert counts.dead_letters == len(dead.errors)
    return counts.records - counts.dead_letters, dead.errors


def schema_of(types: Iterable[str]) -> str:
    """A column for each type: c0, c1, …"""
    return ", ".join(f"c{number} {one}" for number, one in enumerate(types))


def alone() -> list[bytes]:
    """Three records for each change, which have no other column."""
    return [
        b'{"c%d": %s}' % (number, value.encode())
        for number, one in enumerate(CHANGES)
        for value in one.values
    ]


def wider(kind: str, change: Change) -> str:
    """The type that a kind's table gets; empty if it keeps its own."""
    return change.delta if kind == WIDE else change.iceberg if "iceberg" in kind else ""


def fitting(kind: str) -> set[int]:
    """The offsets of the records that are rows."""
    found = set()
    for number, change in enumerate(CHANGES):
        fit = {3: (0, 1, 2), 2: (0, 1), 1: (1,)}[3 if wider(kind, change) else change.rows]
        found |= {3 * number + one for one in fit}
    return found


def types_of(kind: str) -> dict[str, str]:
    """The type of each column after the change, as Spark writes it; new fields are always added."""
    return {
        f"c{number}": (wider(kind, one) or one.kept or one.before)
        .replace(": ", ":")
        .replace(", ", ",")
        for number, one in enumerate(CHANGES)
    }


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", [*KINDS, *([WIDE] if STOCK else [])])
def test_columns_that_change_their_types(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Nothing stops; a value is a row as it was, or a dead letter that says why."""
    sink = settings_of(kind, tmp_path / "t")
    before, after = (schema_of(one[at] for one in CHANGES) for at in (0, 1))
    first = b"{%s}" % b", ".join(
        b'"c%d": %s' % (number, one.first.encode()) for number, one in enumerate(CHANGES)
    )
    assert run(spark, sink, before, [first], ONE) == (1, {})
    rows, errors = run(spark, sink, after, alone(), TWO)
    assert set(range(len(alone()))) - set(errors) == fitting(kind)
    for offset, error in errors.items():
        assert error.startswith(f"value: column c{offset // 3} is "), error
        assert "and the table's " in error
    table = read(kind, tmp_path / "t")
    assert table.num_rows == 1 + rows
    found = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    types = {one.name: one.dataType.simpleString() for one in found if one.name[1:].isdigit()}
    assert types == types_of(kind)
    # The same batch once more, as after a kill, then a batch of the first types.
    assert run(spark, sink, after, alone(), TWO) == (rows, errors)
    three = batch(2, 0, 1, partitions=1)
    assert run(spark, sink, before, [first], three) == (1, {})
    table = read(kind, tmp_path / "t")
    assert table.num_rows == 2 + rows
    numbers = sorted(one for one in table["c0"].to_pylist() if one is not None)
    assert numbers == ([1, 1, 2, 1099511627776] if wider(kind, CHANGES[0]) else [1, 1, 2])


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", [*KINDS, *([WIDE] if STOCK else [])])
def test_columns_of_any_name(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """They change their types and get new fields as others do, at every depth."""
    sink = settings_of(kind, tmp_path / "t")
    tops = ("Date Time", "a`b", "a.b", "%20")

    def schema(number: str, more: str) -> str:
        inner = f"struct<`Date Time`: {number}, `%20`: {number}{more}>"
        columns = [f"{quoted(one)} {number}" for one in tops]
        return ", ".join([*columns, f"`a b` {inner}, l array<{inner}>, m map<string, {inner}>"])

    def value(number: int, **more: str) -> dict[str, Any]:
        inner = {"Date Time": number, "%20": number, **more}
        return {**dict.fromkeys(tops, number), "a b": inner, "l": [inner], "m": {"k": inner}}

    values = [value(1), value(2, **{"x.y z": "new"}), value(1099511627776)]
    first, *others = [json.dumps(one).encode() for one in values]
    assert run(spark, sink, schema("int", ""), [first], ONE) == (1, {})
    rows, errors = run(spark, sink, schema("bigint", ", `x.y z`: string"), others, TWO)
    if wider(kind, CHANGES[0]):
        assert (rows, errors) == (2, {})
    else:
        assert (rows, list(errors)) == (1, [1])
        assert errors[1].startswith("value: column Date Time is bigint in the record")
        del values[2]
    table = read(kind, tmp_path / "t")
    own = {*names.METADATA, PARTITION_COLUMN}
    found = [
        {name: one for name, one in without_nulls(with_maps(row)).items() if name not in own}
        for row in table.to_pylist()
    ]
    rule = ICEBERG if "iceberg" in kind else DELTA
    found.sort(key=lambda row: row["l"][0][rule.stored("Date Time", is_nested=True)])
    assert found == [stored(one, rule) for one in values]


def with_maps(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose map is a dict, whatever the reader made of it."""
    return {**row, "m": dict(row["m"])}


def test_rows_of_a_transform(spark: SparkSession, tmp_path: Path) -> None:
    """They become dead letters by their place; without it, the error says what to do."""
    sink = settings_of("delta-rs", tmp_path / "t")
    run(spark, sink, "c int", [b'{"c": 1}'], ONE)
    kept = {"transforms": (Transform(sql="SELECT *, c + 1 AS d FROM rows"),)}
    rows, errors = run(spark, sink, "c bigint", [b'{"c": 2}', b'{"c": 1099511627776}'], TWO, **kept)
    assert (rows, list(errors)) == (1, [1])
    dropped = {"transforms": (Transform(sql="SELECT c FROM rows"),)}
    with pytest.raises(RuntimeError, match=r"c is bigint, .* keep these columns"):
        run(spark, sink, "c bigint", [b'{"c": 3}'], batch(3, 0, 1, partitions=1), **dropped)


def test_a_record_of_several_rows_is_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever of its rows don't fit, for whichever reasons."""
    sink = settings_of("delta-rs", tmp_path / "t")
    twice = (
        "SELECT IF(n = 0, c, 0) AS c, IF(n = 1, d, 0) AS d, _topic, _partition, _offset "
        "FROM rows LATERAL VIEW explode(array(0, 1)) AS n"
    )
    parts = {"transforms": (Transform(sql=twice),)}
    assert run(spark, sink, "c int, d int", [b'{"c": 1, "d": 1}'], ONE, **parts) == (1, {})
    values = [b'{"c": 2, "d": 2}', b'{"c": 1099511627776, "d": 1099511627776}']
    rows, errors = run(spark, sink, "c bigint, d bigint", values, TWO, **parts)
    assert (rows, list(errors)) == (1, [1])
    assert read("delta-rs", tmp_path / "t").num_rows == 4


def test_the_documentation_has_each_cell() -> None:
    """docs/PIPELINES.md has a row for each change, with what these tests have seen."""
    text = (Path(__file__).parents[1] / "docs" / "PIPELINES.md").read_text(encoding="utf-8")

    def cell(change: Change, wide: str) -> str:
        kept = {3: "as text" if change.before == "string" else "all values", 2: "values that fit"}
        return wide or kept.get(change.rows, "dead letters")

    for one in CHANGES:
        cells = (cell(one, ""), cell(one, one.delta), cell(one, one.iceberg))
        assert f"\n| {one.before} → {one.after} | {' | '.join(cells)} |\n" in text
