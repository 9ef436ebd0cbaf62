"""What becomes of a column whose type changes, at each sink; docs/PIPELINES.md has the same table.

A first batch makes the table, a second one has another type in the column ``c``. Each cell says
which type the table has then for readers without Spark, and which values are rows or dead letters.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kwire.schemas.wire_format import HEADER_BYTES
from kwire.spark import rows as names
from kwire.spark.batch import Batch
from kwire.spark.batch_work import BatchWork, good_rows
from kwire.spark.column_names import DELTA, ICEBERG, PARTITION_COLUMN
from kwire.spark.decode import decoder
from kwire.spark.settings import Decode, PipelineSettings, Transform
from kwire.spark.sinks import make_sink
from kwire.spark.sinks.delta import WIDENING
from kwire.spark.sinks.delta_rs import DeltaRsSink
from kwire.spark.sinks.misfits import fitting, with_types
from kwire.spark.sinks.table_types import additions, compared, never
from kwire.spark.sql import quoted
from spark_tests.decoding import records_of
from spark_tests.readers import read
from spark_tests.sink_rows import SOURCE, batch
from spark_tests.test_decode_poisoned import avro
from spark_tests.test_far_times import KINDS, given
from spark_tests.test_names import stored, without_nulls

STOCK = os.environ.get("KWIRE_SPARK_LANE") == "stock"
KINDS = {name: options for name, options in KINDS.items() if name != "parquet"}
ONE, TWO = batch(0, 0, 1, partitions=1), batch(1, 0, 100, partitions=1)
WIDE = "delta with widening"
"""A Delta table whose property lets its columns become wider; deltalake can't read it then."""

MIDNIGHT = "2026-01-31T00:00:00Z"


UNION = "struct<member_int: int, member_string: string>"
"""A struct that looks like a union of Avro."""
LIKE_UNION = "struct<member_id: int, member_name: string>"


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
    Change("int", UNION, "1", ('{"member_int": 2}', "null", '{"member_string": "x"}'), 1),
    Change(UNION, "int", '{"member_int": 1}', ("2", "null", "3"), 3),
    Change("string", LIKE_UNION, '"x"',
        ('{"member_id": 5, "member_name": "Ann"}', "null", '{"member_id": 5}'), 1),
    Change(LIKE_UNION, "string", '{"member_id": 1}', ('"x"', "null", '"y"'), 1),
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
    """A batch through the whole work on it: how many rows, and the errors by offset."""
    decode = Decode(format=parts.pop("format", "json"), options={"schema": schema})
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


def offsets_of_rows(kind: str) -> set[int]:
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
    assert set(range(len(alone()))) - set(errors) == offsets_of_rows(kind)
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


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_unions_of_avro(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """A field becomes one, or was one: its value is in the table's column where it fits."""
    sink = settings_of(kind, tmp_path / "t")
    union = ["int", "string"]
    batches: list[tuple[Any, Any, list[tuple[Any, Any]], set[int]]] = [
        ("int", union, [(1, 1), (5, "x")], set()),
        (union, union, [(2, 2), ("x", 9)], {1}),
        ("int", "int", [(3, 3)], set()),
        (union, union, [(4, 4)], set()),
    ]
    for number, (plain, other, values, dead) in enumerate(batches):
        fields = [{"name": "c", "type": plain}, {"name": "u", "type": other}]
        schema = {"type": "record", "name": "R", "fields": fields}
        written = [avro(schema, {"c": c, "u": u}, 0)[HEADER_BYTES:] for c, u in values]
        one = batch(number, 0, 10, partitions=1)
        _, errors = run(spark, sink, json.dumps(schema), written, one, format="avro")
        assert set(errors) == dead
    table = read(kind, tmp_path / "t")
    assert sorted(table["c"].to_pylist()) == [1, 2, 3, 4, 5]
    assert sorted(table["u"].to_pylist(), key=str) == [
        *({"member_int": one, "member_string": None} for one in (1, 2, 3, 4)),
        {"member_int": None, "member_string": "x"},
    ]


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


@pytest.mark.skipif(not STOCK, reason="this lane has no jar for Delta")
def test_a_change_that_delta_refuses_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """What needs it are dead letters with the table's answer; the other columns get wider."""
    sink = settings_of(WIDE, tmp_path / "t")
    assert run(spark, sink, "c int, d int", [b'{"c": 1, "d": 1}'], ONE) == (1, {})
    name = f"delta.{quoted(str(tmp_path / 't'))}"
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (c > 0)")
    values = [b'{"c": 2, "d": 1099511627776}', b'{"c": 1099511627776, "d": 2}']
    rows, errors = run(spark, sink, "c bigint, d bigint", values, TWO)
    assert (rows, list(errors)) == (1, [1])
    assert "the table's int can't hold its value; it refuses a change: [DELTA_" in errors[1]
    table = read(WIDE, tmp_path / "t")
    assert sorted(table["c"].to_pylist()) == [1, 2]
    assert sorted(table["d"].to_pylist()) == [1, 1099511627776]


def test_a_change_that_a_catalog_refuses_stops_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else decides about the columns of pyiceberg's table; rows don't need the change."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import ForbiddenError
    from pyiceberg.table.update import AddSchemaUpdate

    sink = settings_of("pyiceberg", tmp_path / "t")
    assert run(spark, sink, "c int", [b'{"c": 1}'], ONE) == (1, {})
    commit = SqlCatalog.commit_table

    def refused(catalog: Any, table: Any, requirements: Any, updates: Any) -> Any:
        if any(isinstance(one, AddSchemaUpdate) for one in updates):
            raise ForbiddenError("ask the owner")
        return commit(catalog, table, requirements, updates)

    values = [b'{"c": 2}', b'{"c": 1099511627776}', b'{"c": 3, "d": "x"}']
    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", refused)
        rows, errors = run(spark, sink, "c bigint, d string", values, TWO)
    assert (rows, list(errors)) == (1, [1, 2])
    assert "can't hold its value; it refuses a change: ask the owner" in errors[1]
    assert errors[2].startswith("value: column d is string in the record, and the table has no")
    assert sorted(read("pyiceberg", tmp_path / "t")["c"].to_pylist()) == [1, 2]
    three = replace(TWO, batch_id=3)
    assert run(spark, sink, "c bigint, d string", values, three) == (3, {})


@pytest.mark.skipif(not STOCK, reason="this lane has no jar for Iceberg")
def test_a_column_that_iceberg_refuses_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Records with a value for it are dead letters, the others rows."""
    sink = settings_of("iceberg", tmp_path / "t")
    assert run(spark, sink, "c int", [b'{"c": 1}'], ONE) == (1, {})
    odd = "SELECT *, IF(c > 2, parse_json('{}'), NULL) AS v, c + 1 AS d FROM rows"
    parts = {"transforms": (Transform(sql=odd),)}
    rows, errors = run(spark, sink, "c int", [b'{"c": 2}', b'{"c": 3}'], TWO, **parts)
    assert (rows, list(errors)) == (1, [1])
    assert errors[1].startswith("value: column v is variant in the record, and the table has no")
    table = read("iceberg", tmp_path / "t")
    assert "v" not in table.column_names
    assert sorted(table["c"].to_pylist()) == [1, 2]
    assert 3 in table["d"].to_pylist()


@pytest.mark.both_lanes
def test_what_a_table_refuses_at_any_depth(spark: SparkSession) -> None:
    """Such a field is left out; a record with a value for it is a dead letter."""
    inner = "struct<a: int>"
    table = spark.createDataFrame([], f"s {inner}, l array<{inner}>, m map<string, {inner}>")
    more = inner.replace("int", "int, b: int")
    schema = f"s {more}, l array<{more}>, m map<string, {more}>, t int"
    values = [
        *(b'{"s": {"a": 1, "b": 2}}', b'{"l": [{"a": 1, "b": 2}]}', b'{"m": {"k": {"b": 2}}}'),
        *(b'{"t": 1}', b'{"s": {"a": 1}, "l": [{"a": 1}], "m": {"k": {"a": 1}}}', b"{}"),
    ]
    decode = decoder(spark.range(0), Decode(options={"schema": schema}))
    rows = decode(records_of(spark, values), True)
    paths = ("`s`.`b`", "`l`.element.`b`", "`m`.value.`b`", "`t`")
    refused = dict.fromkeys(paths, "no")
    columns = good_rows(rows).select("s", "l", "m", "t").schema
    assert {one for one, _ in additions(table.schema, columns)} == set(paths)
    changes, misfits = compared(table.schema, columns, DELTA, never, refused)
    assert not changes
    checked = fitting(lambda given, _: given, misfits)(rows, True)
    found = {row["_offset"]: row["_error"] for row in checked.collect()}
    assert [number for number, error in sorted(found.items()) if error is None] == [4, 5]
    assert all(found[one].endswith("; it refuses a change: no") for one in range(4))
    left = with_types(good_rows(checked), misfits).select("s", "l", "m")
    assert "b:" not in left.schema.simpleString()
    assert [row["s"]["a"] for row in left.collect() if row["s"] is not None] == [1]


@pytest.mark.both_lanes
@pytest.mark.parametrize("kind", KINDS)
def test_names_that_differ_by_case_are_one_column(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Their types are compared, at every depth, and the table keeps its own spelling."""
    sink = settings_of(kind, tmp_path / "t")
    inner = "struct<a: int>"
    before = f"id int, s {inner}, l array<{inner}>, m map<string, {inner}>"
    first = b'{"id": 1, "s": {"a": 1}, "l": [{"a": 1}], "m": {"k": {"a": 1}}}'
    assert run(spark, sink, before, [first], ONE) == (1, {})
    inner = "struct<b: int, A: string>"
    after = f"ID string, S {inner}, L array<{inner}>, M map<string, {inner}>"
    values = [
        b'{"S": {"b": 2}, "L": [{"b": 2}], "M": {"k": {"b": 2}}}',
        b'{"ID": "x"}',
        b'{"L": [{"A": "x"}]}',
    ]
    rows, errors = run(spark, sink, after, values, TWO)
    assert (rows, sorted(errors)) == (1, [1, 2])
    assert errors[1].startswith("value: column ID is string in the record, and the table's int")
    table = read(kind, tmp_path / "t")
    assert [one for one in table.column_names if one[0] != "_"] == ["id", "s", "l", "m"]
    [second] = [one for one in table.to_pylist() if one["id"] is None]
    two = {"a": None, "b": 2}
    assert (second["s"], second["l"], with_maps(second)["m"]) == (two, [two], {"k": two})


def test_a_number_that_a_double_changes_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    """2^63 - 1 among them, which Spark takes for the same as a double's 2^63; back as well."""
    sink = settings_of("delta-rs", tmp_path / "t")
    run(spark, sink, "c double, d bigint", [b'{"c": 1.5, "d": 1}'], ONE)
    numbers = (2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**62)
    values = [b'{"c": %d}' % one for one in numbers]
    values += [b'{"d": %s}' % one for one in (b"9223372036854775808.0", b"-9223372036854775808.0")]
    rows, errors = run(spark, sink, "c bigint, d double", values, TWO)
    assert (rows, sorted(errors)) == (4, [1, 2, 5])
    found = read("delta-rs", tmp_path / "t").to_pydict()
    assert set(found["c"]) - {None} == {1.5, 2.0**53, 2.0**62, -(2.0**63)}
    assert set(found["d"]) - {None} == {1, -(2**63)}


def test_a_lasting_difference_of_types_costs_no_second_reading(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The table is asked for the first batch, and each batch's records are read once."""
    sink = settings_of("delta-rs", tmp_path / "t")
    run(spark, sink, "c int", [b'{"c": 1}'], ONE)
    settings = PipelineSettings(
        "p", SOURCE, sink, "/checkpoint", decode=Decode(options={"schema": "c bigint"})
    )
    made, asked = Asked(sink, SOURCE, "p"), tmp_path / "readings"
    work = BatchWork(settings, made, Dead())
    for number in (1, 2, 3):
        records = records_of(spark, [b'{"c": 2}']).coalesce(1)
        counted = records.mapInArrow(partial(noted, file=asked), records.schema)
        one = batch(number, number, number + 1, partitions=1)
        assert work.run(counted, one).dead_letters == 0
    assert asked.read_text() == 3 * "x"
    assert made.count == 1


class Asked(DeltaRsSink):
    """A sink that counts how often its table is asked for types."""

    count = 0

    def fit(self, spark: SparkSession, schema: Any) -> Any:
        """As the sink does."""
        self.count += 1
        return super().fit(spark, schema)


def noted(batches: Any, file: Path) -> Any:
    """The same records; the file gets a character for each task that reads them."""
    with file.open("a") as out:
        out.write("x")
    yield from batches


def test_the_documentation_has_each_cell() -> None:
    """docs/PIPELINES.md has a row for each change, with what these tests have seen."""
    text = (Path(__file__).parents[1] / "docs" / "PIPELINES.md").read_text(encoding="utf-8")

    def cell(change: Change, wide: str) -> str:
        kept = {3: "as text" if change.before == "string" else "all values", 2: "values that fit"}
        return wide or kept.get(change.rows, "dead letters")

    for one in CHANGES:
        cells = (cell(one, ""), cell(one, one.delta), cell(one, one.iceberg))
        assert f"\n| {one.before} → {one.after} | {' | '.join(cells)} |\n" in text
