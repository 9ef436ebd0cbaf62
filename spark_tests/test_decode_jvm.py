"""JSON, CSV, text and bytes become rows within the JVM, and what is wrong an error of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from kwire.schemas.wire_format import header
from kwire.spark.batch_work import good_rows
from kwire.spark.column_names import DELTA
from kwire.spark.decode import decode, decoder
from kwire.spark.settings import Decode, SinkSettings, WrongSetting
from kwire.spark.sinks.table_rows import table_columns
from kwire.testing.schema_registry import SchemaRegistry
from spark_tests.decoding import decoded, outcome, records_of
from spark_tests.jvm import optimized_plan

pytestmark = pytest.mark.both_lanes

JSON = Decode(options={"schema": "id BIGINT NOT NULL, name STRING, s STRUCT<y: INT NOT NULL>"})


MORE = "value: it is no JSON: more follows after its first value"
CUT = "value: it is no JSON: it ends before an object, an array or a text in it does"
JSON_VALUES: list[tuple[bytes | None, Any]] = [
    (b'{"id":1,"name":"x","s":{"y":2}}', {"id": 1, "name": "x", "s": {"y": 2}}),
    (b' {"id":1,"unknown":[1]} \n', {"id": 1, "name": None, "s": None}),
    (b'{"id":1,"name":{"deep":1}}', {"id": 1, "name": '{"deep":1}', "s": None}),
    (b'{"id":"no"}', "value: it doesn't fit the schema; id is no bigint"),
    (b'{"id":1.5}', "value: it doesn't fit the schema; id is no bigint"),
    (b'{"id":12345678901234567890}', "value: it doesn't fit the schema; id is no bigint"),
    (b'{"id":1,"s":{"y":"q"}}', "value: it doesn't fit the schema"),
    (b'{"id":1,"s":{}}', "value: required column s.y has no value"),
    (b'{"name":"x"}', "value: required column id has no value"),
    (b'{"id":1}garbage', MORE),
    (b'{"id":1}{"id":2}', MORE),
    (b'{"id":1}\n{"id":2}', MORE),
    (b'{"id":1}}', MORE),
    (b'{"id":1}} garbage', MORE),
    (b'{"id":1}}{"id":"', MORE),
    (b'{"id":1,"name":"x', CUT),
    (b'{"id":1,"name":"}\\"', CUT),
    (b'{"id":1,"s":{"y":2}', CUT),
    (b'{"id":1,', CUT),
    (b"{", CUT),
    (b"garbage", "value: it is no JSON"),
    (b'{"id" 1}', "value: it is no JSON"),
    (b'{"id":"no"}}', "value: it doesn't fit the schema; id is no bigint"),
    (b'[{"id":1}]', "value: it doesn't fit the schema"),
    (b"5", "value: it doesn't fit the schema"),
    (b"null", "value: it is null, not an object"),
    (b"", "value: it is empty"),
    (b" \n", "value: it is empty"),
    (b"\xff\xfe\x00", "value: it isn't UTF-8"),
    (b'{"id":1,"name":"\xff"}', "value: it isn't UTF-8"),
    (b'{"id":' + b"[" * 5000 + b"]" * 5000 + b"}", "value: it is no JSON"),
    (None, None),
]


@pytest.fixture(scope="module")
def rows_of_json(spark: SparkSession) -> list[Row]:
    """All values in one query: each one of its own would take a second."""
    return decoded(spark, [value for value, _ in JSON_VALUES], JSON)


@pytest.mark.parametrize("place", range(len(JSON_VALUES)))
def test_a_value_of_json(rows_of_json: list[Row], place: int) -> None:
    """What fits becomes a row; all else is named, and a tombstone is no error."""
    row, (value, wanted) = rows_of_json[place], JSON_VALUES[place]
    assert outcome(row) == wanted
    assert row["_tombstone"] is (value is None)
    assert (row["_topic"], row["_partition"], row["_offset"], row["_key"]) == (
        "orders",
        0,
        place,
        b"k",
    )
    assert row["_headers"][0].asDict() == {"key": "h", "value": b"1"}
    assert row["_value"] == value


TEXTS = Decode(
    options={
        "schema": "t STRING, d DOUBLE, s STRUCT<t: STRING, n: INT>, l ARRAY<STRING>, "
        "m MAP<STRING, STRING>, deep ARRAY<STRUCT<t: STRING, at: TIMESTAMP>>"
    }
)
NUMBERS = [
    *("1.10", "-0", "0", "5", "12345678901234567890.10", "123456789012345678901234567890"),
    *("1e5", "1E-7", "-0.0", "1e400", "0.1000000000000000055511151231257827", "1.0"),
    *('{"a":1.10}', '{"a":[1.10,"1.10","x\\"1.50",-0,{"b":1e2}],"c":{}}', "[1.50,true,null]"),
]


def test_numbers_in_texts_are_as_they_came(spark: SparkSession) -> None:
    """Digit for digit, at any depth, beside columns that are numbers."""
    values = [
        f'{{"t":{one},"d":1.10,"s":{{"t":{one},"n":7}},"l":["x",{one}],"m":{{"k":{one},"j":"1.10"}},'
        f'"deep":[{{"t":{one},"at":"2026-01-02T03:04:05Z"}},null]}}'
        for one in NUMBERS
    ]
    values.append('{"t":"1.10","l":["{\\"a\\":1.10}",null]}')
    values.append("{}")
    *found, plain, empty = map(outcome, decoded(spark, [one.encode() for one in values], TEXTS))
    for text, row in zip(NUMBERS, found, strict=True):
        [deep, nothing] = row["deep"]
        assert (row["t"], row["d"], row["s"]) == (text, 1.1, {"t": text, "n": 7})
        assert (row["l"], row["m"]) == (["x", text], {"k": text, "j": "1.10"})
        assert (deep["t"], deep["at"].year, nothing) == (text, 2026, None)
    assert (plain["t"], plain["l"], plain["s"]) == ("1.10", ['{"a":1.10}', None], None)
    assert set(empty.values()) == {None}


@pytest.mark.parametrize("text", [one for one in NUMBERS if one != "5"])
def test_a_number_in_one_text_alone_is_as_it_came(spark: SparkSession, text: str) -> None:
    """Whatever the place: nothing else in its record leads to a second look."""
    schema = (
        "t STRING, l ARRAY<STRING>, m MAP<STRING, STRING>, n ARRAY<ARRAY<STRING>>, "
        "deep ARRAY<STRUCT<t: STRING, inner: STRUCT<l: ARRAY<STRING>, t: STRING>>>"
    )
    values = [
        f'{{"t":{text}}}',
        f'{{"l":["a\\n",null,{text}]}}',
        f'{{"l":[{text},"b"]}}',
        f'{{"m":{{"a":"b","k":{text}}}}}',
        f'{{"n":[null,["a",{text}]]}}',
        f'{{"deep":[null,{{"t":{text}}}]}}',
        f'{{"deep":[{{"inner":{{"t":{text}}}}}]}}',
        f'{{"deep":[{{"inner":{{"l":["a",{text}]}}}},{{"t":"c"}}]}}',
    ]
    given = [one.encode() for one in values]
    found = [outcome(one) for one in decoded(spark, given, Decode(options={"schema": schema}))]
    assert found[0]["t"] == text
    assert [one["l"] for one in found[1:3]] == [["a\n", None, text], [text, "b"]]
    assert found[3]["m"] == {"a": "b", "k": text}
    assert found[4]["n"] == [None, ["a", text]]
    [_, beside], [alone], [within, _] = (one["deep"] for one in found[5:])
    assert (beside["t"], alone["inner"]["t"]) == (text, text)
    assert within["inner"]["l"] == ["a", text]


def test_a_long_value_with_many_escapes_is_read_again(spark: SparkSession) -> None:
    """The search for numbers takes no stack, however long a text is."""
    long = '\\"1.5' * 100_000
    value = f'{{"t":1.10,"m":{{"k":"{long}"}}}}'.encode()
    [row] = map(outcome, decoded(spark, [value], TEXTS))
    assert row["t"] == "1.10"
    assert row["m"]["k"] == '"1.5' * 100_000


@pytest.mark.parametrize("has_reasons", [True, False])
def test_what_only_looks_like_json_is_refused(spark: SparkSession, *, has_reasons: bool) -> None:
    """Spark takes some of it by default; a producer's mistake must not become a value."""
    values = [
        *(b"{'t':'x'}", b'{"t":NaN}', b'{"d":NaN}', b'{"d":Infinity}', b'{"d":-Infinity}'),
        *(b'{"d":+1}', b'{"d":01}', b'{"d":.5}', b'{"d":1.}', b'{"d":0x10}', b'{t:"x"}'),
        *(b'{"t":"x"} // no', b'/* no */{"t":"x"}', b'{"t":"x",}', b'{"l":["x",]}'),
        *(b'{"t":"\x01"}', b'{"t":"a\tb"}', b'{"t":"\\x41"}', b'{"t":"a\nb"}', b'{"d":"NaN"}'),
        *(b'{"d":1e}', b'{"d":"Infinity"}', b'{"t":undefined}', b'{"t":True}', b"\xef\xbb\xbf{}"),
    ]
    records = records_of(spark, values)
    found = decoder(records, TEXTS)(records, has_reasons).sort("_offset").collect()
    assert [values[one["_offset"]] for one in found if one["_error"] is None] == []


def test_json_is_parsed_once(spark: SparkSession) -> None:
    """Filters and columns above the decoding don't copy the parser: that would halve throughput.

    The second parser is for texts with numbers, and stands where a schema has texts.
    """
    for settings, parsers in ((JSON, 2), (Decode(options={"schema": "id BIGINT"}), 1)):
        frame = decode(records_of(spark, [b'{"id":1}']), settings)
        good = frame.where("_error IS NULL AND NOT _tombstone").select("_offset", "_row.*")
        plan = optimized_plan(good)
        assert plan.count("from_json(") == parsers, plan
    assert plan.count("isValid()") == 1, plan


def test_the_same_values_are_wrong_with_and_without_reasons(spark: SparkSession) -> None:
    """A batch is decoded without reasons; the dead letters of the same batch have them."""
    values = [b'{"id":1}', b'{"id":"no"}', b'{"id":1}x', b"null", b"\xff", b'{"name":"x"}', None]
    values.append(b'{"id":1}}')
    records = records_of(spark, values)
    rows = decoder(records, JSON)
    brief, full = rows(records, False), rows(records, True)
    offsets = [
        [row["_offset"] for row in one.where("_error IS NOT NULL").sort("_offset").collect()]
        for one in (brief, full)
    ]
    assert offsets == [[1, 2, 3, 4, 5, 7]] * 2
    plans = [optimized_plan(one) for one in (brief, full)]
    assert ["get_json_object(" in plan for plan in plans] == [False, True]


def test_the_value_is_left_behind_where_it_is_parsed(spark: SparkSession) -> None:
    """Spark copies all that is needed after ``from_json``, for each record: the value isn't."""
    records = records_of(spark, [b'{"id":1}'])
    plan = good_rows(decoder(records, JSON)(records, False))
    text = optimized_plan(plan)
    lines = [one for one in text.splitlines() if "from_json(" in one]
    assert ["AS _kwire_parsed" in one for one in lines] == [False, True], text
    assert not any("AS _value" in one for one in lines), text


def test_a_schema_file_says_what_is_required(spark: SparkSession, tmp_path: Path) -> None:
    """JSON Schema: types, times, required properties within arrays."""
    item = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    properties = {
        "at": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "items": item},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    path = tmp_path / "order.schema.json"
    path.write_text(json.dumps({"type": "object", "properties": properties, "required": ["at"]}))
    settings = Decode(options={"schema_file": str(path)})
    values = [
        b'{"at":"2026-01-02T03:04:05Z","items":[{"sku":"a"}],"labels":{"x":1}}',
        b'{"at":"2026-01-02T03:04:05Z","items":[{}]}',
        b'{"at":"yesterday"}',
        b"{}",
    ]
    first, *others = map(outcome, decoded(spark, values, settings))
    assert first["items"] == [{"sku": "a"}]
    assert first["labels"] == {"x": 1}
    assert others == [
        "value: required column items[] has no value",
        "value: it doesn't fit the schema; at is no timestamp",
        "value: required column at has no value",
    ]


def test_an_inferred_schema_is_kept_and_grows(spark: SparkSession, tmp_path: Path) -> None:
    """The first sample makes the columns; later ones add some, and never change a type."""
    kept = str(tmp_path / "kept" / "schema.json")
    Path(kept).parent.mkdir()
    settings = Decode(options={"inferred_schema": kept, "refresh_s": 0.001})
    values = [b"garbage", b'{"id":1,"price":1.5,"none":null,"a":{"b":"x"}}']
    first = decoded(spark, values, settings)
    assert outcome(first[0]) == "value: it is no JSON"
    assert outcome(first[1]) == {"id": 1, "price": 1.5, "a": {"b": "x"}}
    later = decoded(spark, [b'{"id":"x"}', b'{"id":2,"new":true,"a":{"c":1}}'], settings)
    assert outcome(later[0]) == "value: it doesn't fit the schema; id is no bigint"
    wanted = {"id": 2, "price": None, "a": {"b": None, "c": 1}, "new": True}
    assert outcome(later[1]) == wanted
    names = [one["name"] for one in json.loads(Path(kept).read_text())["fields"]]
    assert sorted(names) == ["a", "id", "new", "price"]


def test_no_name_in_a_sample_stops_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    """Names that tables can't tell apart are left out: here and in each later batch."""
    settings = Decode(options={"inferred_schema": str(tmp_path / "schema.json")})
    value = b'{"":1,"id":2,"ID":3,"_topic":"x","_Key":1,"a`b":4,"s":{"x":1,"X":2,"":3}}'
    records = records_of(spark, [value])
    [row] = good_rows(decoder(records, settings)(records, False)).collect()
    assert (row["_topic"], row["_key"]) == ("orders", b"k")
    assert sum(name.lower() == "id" for name in row.asDict()) == 1
    assert row["a`b"] == 4
    assert len(row.s) == 2
    found = table_columns(good_rows(decode(records, settings)), SinkSettings("delta"), (), DELTA)
    assert len(found.collect()) == 1


def test_nothing_to_infer_a_schema_from_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """There is no table without columns."""
    settings = Decode(options={"inferred_schema": str(tmp_path / "schema.json")})
    with pytest.raises(WrongSetting, match=r"none of the first 1000 records is a JSON object"):
        decoded(spark, [b"garbage", None], settings)


def test_csv(spark: SparkSession) -> None:
    """As many columns as the schema has, of its types."""
    options = {"schema": "id INT NOT NULL, name STRING", "delimiter": ";", "null_value": "-"}
    values = [
        b'1;"a;b"',
        b"x;a",
        b"1",
        b"1;a;b",
        b"",
        b"-;a",
        b"2;-",
        None,
        b"\xff;a",
        b"3;c\r\n",
        b"1;a\n2;b",
    ]
    found = [outcome(one) for one in decoded(spark, values, Decode("csv", options=options))]
    unfit = "value: it doesn't fit the columns struct<id: int, name: string>"
    assert found == [
        {"id": 1, "name": "a;b"},
        *(unfit, unfit, unfit),
        "value: it is empty",
        "value: required column id has no value",
        {"id": 2, "name": None},
        None,
        "value: it isn't UTF-8",
        {"id": 3, "name": "c"},
        "value: it has several lines",
    ]


def test_text_and_bytes(spark: SparkSession) -> None:
    """One column with the value; text has to be UTF-8, and so have keys as text."""
    values = ["ä".encode(), b"\xff", b"", None]
    text = decoded(spark, values, Decode("text", key="text", options={"column": "line"}))
    wanted = [{"line": "ä"}, "value: it isn't UTF-8", {"line": ""}, None]
    assert list(map(outcome, text)) == wanted
    assert {row["_key"] for row in text} == {"k"}
    plain = decoded(spark, values, Decode("bytes"))
    assert list(map(outcome, plain)) == [
        {"value": "ä".encode()},
        {"value": b"\xff"},
        {"value": b""},
        None,
    ]
    frame = decode(records_of(spark, [b"x"], key=b"\xff"), Decode("text", key="text"))
    [row] = frame.collect()
    assert (row["_error"], row["_key"], row["_value"]) == ("key: it isn't UTF-8", None, b"x")


def test_names_of_json_that_differ_only_by_case(spark: SparkSession) -> None:
    """Versions and topics spell a property in several ways: it is one column, at any depth."""

    def of(name: str, inner: str) -> str:
        line = {"type": "object", "properties": {inner: {"type": "integer"}}}
        lines = {"type": "array", "items": line}
        properties = {name: {"type": "string"}, "lines": lines, "n": {"type": "integer"}}
        return json.dumps({"type": "object", "properties": properties, "required": [name]})

    with SchemaRegistry() as registry:
        registry.set_compatibility("NONE")
        old = header(registry.register("orders-value", of("ID", "Sku"), "JSON"))
        new = header(registry.register("orders-value", of("id", "sku"), "JSON"))
        registry.register("other-value", of("iD", "SKU"), "JSON")
        settings = Decode(registry=registry.url)
        values = [
            old + b'{"ID":1.10,"lines":[{"Sku":1},null],"n":1}',
            new + b'{"id":"x","lines":[{"sku":2}]}',
            new + b'{"iD":"y","lines":[{"SKU":3},{"sku":4,"Sku":5}],"ID":"z"}',
            new + b'{"lines":[],"N":1}',
            old + b'{"ID":"x","n":"no number"}',
            None,
        ]
        rows = decode(records_of(spark, values), settings, ["orders", "other"]).orderBy("_offset")
        first, second, third, *wrong, none = map(outcome, rows.collect())
    assert first == {"id": "1.10", "lines": [{"sku": 1}, None], "n": 1}
    assert second == {"id": "x", "lines": [{"sku": 2}], "n": None}
    assert third == {"id": "z", "lines": [{"sku": 3}, {"sku": 4}], "n": None}
    assert wrong[0] == "value: required column id has no value"
    assert wrong[1].startswith("value: it doesn't fit the schema")
    assert none is None


def test_json_of_a_registry(spark: SparkSession) -> None:
    """The columns are those of the newest JSON Schema; a value needs the header with an id."""
    first = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    second = first | {"properties": first["properties"] | {"name": {"type": "string"}}}
    with SchemaRegistry() as registry:
        registry.set_compatibility("NONE")
        number = header(registry.register("orders-value", json.dumps(first), "JSON"))
        settings = Decode(options={"refresh_s": 0.001}, registry=registry.url)
        values = [number + b'{"id":1,"name":"x"}', b'{"id":2}', number + b"{}", number[:4], None]
        assert [outcome(one) for one in decoded(spark, values, settings)] == [
            {"id": 1},
            "value: it doesn't begin with a schema id",
            "value: required column id has no value",
            "value: it doesn't begin with a schema id",
            None,
        ]
        newer = header(registry.register("orders-value", json.dumps(second), "JSON"))
        values = [number + b'{"id":1}', newer + b'{"id":2,"name":"x"}']
        assert [outcome(one) for one in decoded(spark, values, settings)] == [
            {"id": 1, "name": None},
            {"id": 2, "name": "x"},
        ]
        registry.register("other-value", '"string"')
        with pytest.raises(WrongSetting, match=r"schema id \d+ of its subject is of type AVRO"):
            decoded(spark, [], settings, topic="other")
