"""What the Python workers make of Debezium's events; these tests start no Spark.

The promise: a row with the source's values, or one line that says why not.
"""

import datetime
import json
from base64 import b64encode
from decimal import Decimal
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.spark.decode import check
from kwire.spark.decode.debezium import DebeziumPlan
from kwire.spark.decode.in_python import line_of
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import debezium_plan, given_struct
from kwire.spark.pipeline_file import WrongPipeline, pipeline_of
from kwire.spark.settings import Decode, WrongSetting
from tests.support.debezium import (
    CONNECT,
    PLACEHOLDER,
    TIME,
    Record,
    SourceTable,
    decimal,
    schema,
)

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
TEXT = schema("string")


def plan_of(ddl: str, **options: str) -> DebeziumPlan:
    """The plan of a pipeline's settings."""
    settings = Decode("debezium", options={"schema": ddl, **options})
    check(settings)
    found = options_of(settings)
    of = given_struct(found)
    assert of is not None
    return debezium_plan(of, found)


def outcomes(plan: DebeziumPlan, records: list[Record]) -> list[Any]:
    """Each record's error, or its ``op`` and its row without what is null."""
    decoder = plan.decoder()
    found: list[Any] = []
    for key, value in records:
        try:
            op, row, unchanged = decoder.change(key, value)
        except Exception as error:  # as the workers do
            found.append(line_of(error))
            continue
        kept = row and {name: one for name, one in row.items() if one is not None}
        found.append((op, kept, *unchanged))
    return found


def read(of: dict[str, Any] | None, ddl: str, value: Any, **options: str) -> Any:
    """A column's value, or the error, of a row whose column has this schema, or none."""
    table = SourceTable("t", {"id": schema("int32"), "v": of or {}}, has_schema=of is not None)
    [found] = outcomes(
        plan_of(f"id INT, v {ddl}", **options), [table.create({"id": 1, "v": value})]
    )
    if isinstance(found, str) or found[0] != "c":
        return found
    one = found[1].get("v")
    if ddl == "TIMESTAMP":
        return EPOCH + datetime.timedelta(microseconds=one)
    return (
        EPOCH.replace(tzinfo=None) + datetime.timedelta(microseconds=one) if "NTZ" in ddl else one
    )


def base64_of(number: int) -> str:
    """A number as Java's BigInteger writes it."""
    size = (number.bit_length() + 8) // 8
    return b64encode(number.to_bytes(size, "big", signed=True)).decode()


@pytest.mark.parametrize("has_schema", [True, False])
def test_each_kind_of_event(has_schema: bool) -> None:
    """Rows of creates, updates and the snapshot; deletes and tombstones have the key."""
    table = SourceTable("t", {"id": schema("int32"), "name": TEXT}, has_schema=has_schema)
    one, two = {"id": 1, "name": "x"}, {"id": 2, "name": "y"}
    records = [
        table.create(one, "r"),
        table.create(two),
        table.update(one, before={"id": 1, "name": "before"}),
        *table.update_key(one, {"id": 3, "name": "x"}),
        table.truncate(),
        table.message("Ymfy"),
    ]
    assert outcomes(plan_of("id INT NOT NULL, name STRING NOT NULL"), records) == [
        ("r", one),
        ("c", two),
        ("u", one),
        ("d", {"id": 1}),
        ("d", {"id": 1}),
        ("c", {"id": 3, "name": "x"}),
        ("t", None),
        ("m", None),
    ]


def test_events_of_no_table_change_nothing() -> None:
    """Transactions, heartbeats, changes of schemas; with their schemas and without."""
    events: list[Any] = [
        {"status": "BEGIN", "id": "571:1", "ts_ms": 1, "event_count": None}
        | {"data_collections": None},
        {"status": "END", "id": "571:1", "ts_ms": 2, "event_count": 2}
        | {"data_collections": [{"data_collection": "s1.a", "event_count": 2}]},
        {"ts_ms": 1_580_480_000_000},
        {"source": {}, "ts_ms": 1, "databaseName": "d", "ddl": "CREATE …", "tableChanges": []},
    ]
    events += [{"schema": {"type": "struct", "fields": []}, "payload": one} for one in events]
    records: list[Record] = [(b"{}", json.dumps(one).encode()) for one in events]
    records.append((None, None))  # without a key, a tombstone deletes nothing
    assert set(outcomes(plan_of("id INT"), records)) == {(None, None)}


NO_ENVELOPE = "value: it is no envelope of Debezium"
ODD: list[tuple[bytes | None, bytes | None, str]] = [
    (b"k", b"", "value: it is empty"),
    (b"k", b"\xff", "value: it isn't UTF-8"),
    (b"k", b"[" * 100_000, "value: it is no JSON: it is nested too deep"),
    (b"k", b'{"op":"c","after":{"id":NaN}}', "value: it is no JSON: NaN"),
    (b"k", b'{"op":"c","after":{"id":1}} x', "value: it is no JSON: Extra data"),
    (b"k", b"5", NO_ENVELOPE),
    (b"k", b"null", NO_ENVELOPE),
    (b"k", b'{"id":1,"name":"flat"}', f"{NO_ENVELOPE}: it has no op"),
    (b"k", b'{"status":"BEGIN","id":1}', f"{NO_ENVELOPE}: it has no op"),
    (b"k", b'{"schema":null,"payload":null}', NO_ENVELOPE),
    (b"k", b'{"schema":5,"payload":{"op":"t"}}', "value: its schema is none of an object"),
    (b"k", b'{"op":"x","after":{"id":1}}', "value: op is x, which is none of Debezium's"),
    (b"k", b'{"op":["c"],"after":{"id":1}}', 'value: op is ["c"], which'),
    (b"k", b'{"op":"c","after":null}', "value: it has no row: op is c"),
    (b"k", b'{"op":"u","before":{"id":1}}', "value: it has no row: op is u"),
    (b"k", b'{"op":"c","after":{"name":"x"}}', "value: required column id has no value"),
    (b"k", b'{"op":"c","after":{"id":"1"}}', "value: column id: 1 is no int"),
    (b"k", b'{"op":"c","after":{"id":4294967296}}', "value: column id: 4294967296 is no int"),
    (b"k", b'{"op":"c","after":{"id":true}}', "value: column id: true is no int"),
    (b"k", b'{"op":"c","after":{"id":1.5}}', "value: column id: 1.5 is no int"),
    (None, b'{"op":"d","before":null}', "value: it deletes a row, and has neither before nor"),
    (b"Struct{id=1}", b'{"op":"d"}', "value: the record's key, which says what it deletes: it is"),
    (b"Struct{id=1}", None, "value: the record's key, which says what it deletes: it is no JSON"),
    (b'{"id":"x"}', None, "value: the record's key, which says what it deletes: column id"),
    (b"k", b'{"op":"\\ud800"}', "value: op is \\ud800, which is none"),
    (b"k", b'{"op":"c","after":{"id":"\\ud800"}}', "value: column id: \\ud800 is no int"),
    (b'{"id":1}', b'{"op":"d","before":{"id":"x"}}', "value: column id: x is no int"),
    (b"k", b'{"op":"d","before":{"id":1,"name":5,"n":"x"}}', "value: column n: x is no int"),
]


@pytest.mark.parametrize("place", range(len(ODD)))
def test_what_is_odd_is_named(place: int) -> None:
    """It makes no other record wrong, and no exception leaves the worker."""
    key, value, error = ODD[place]
    good = (b'{"id":1}', b'{"op":"c","after":{"id":1}}')
    plan = plan_of("id INT NOT NULL, name STRING, n INT")
    first, found, last = outcomes(plan, [good, (key, value), good])
    assert first == last == ("c", {"id": 1})
    assert isinstance(found, str)
    assert found.startswith(error)
    assert found.encode()  # a column of texts takes it


def test_a_delete_needs_only_its_key() -> None:
    """What doesn't fit in the columns that aren't in the record's key is null."""
    before = b'{"op":"d","before":{"id":1,"name":"x","n":"no number"}}'
    plan = plan_of("id INT NOT NULL, name STRING, n INT NOT NULL")
    assert outcomes(plan, [(b'{"id":1}', before)]) == [("d", {"id": 1, "name": "x"})]


def test_numbers_that_a_double_may_change() -> None:
    """Zero keeps its sign, and only zero becomes zero."""
    plan = plan_of("f FLOAT, d DOUBLE")
    found = outcomes(
        plan,
        [
            (None, b'{"op":"c","after":{"f":-0.0,"d":-0.0}}'),
            (None, b'{"op":"c","after":{"d":1e-400}}'),
            (None, b'{"op":"c","after":{"d":1e400}}'),
        ],
    )
    assert str(found[0]) == "('c', {'f': -0.0, 'd': -0.0})"
    assert found[1:] == [f"value: column d: 1e{one}400 is no double" for one in ("-", "")]


def test_a_value_that_the_event_lacks() -> None:
    """It is taken from ``before`` if that has it, or named; the placeholder never is a value."""
    columns = {"id": schema("int32"), "body": TEXT, "raw": schema("bytes")}
    table = SourceTable("t", columns)
    raw = b64encode(PLACEHOLDER.encode()).decode()
    new = {"id": 1, "body": PLACEHOLDER, "raw": raw}
    old = {"id": 1, "body": "long", "raw": "AAE="}
    only_key = {"id": 1, "body": None, "raw": None}
    plan = plan_of("id INT, body STRING, raw BINARY")
    records = [
        table.update(new, old),
        table.update(new, only_key),
        table.update({**new, "body": "new"}),
        table.create(new),
        table.create(new, "r"),  # a snapshot reads every value: it is one
        (b"{}", json.dumps({"op": "d", "before": {"id": 1, "body": PLACEHOLDER}}).encode()),
    ]
    found = outcomes(plan, records)
    assert found[0] == ("u", {"id": 1, "body": "long", "raw": b"\0\1"})
    assert found[1] == ("u", {"id": 1}, "body", "raw")
    assert found[2] == ("u", {"id": 1, "body": "new"}, "raw")
    assert found[3].startswith("value: column body has a value that the event lacks")
    assert found[4] == ("r", {"id": 1, "body": PLACEHOLDER, "raw": PLACEHOLDER.encode()})
    assert found[5] == ("d", {"id": 1})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("ARRAY<STRING>", [PLACEHOLDER]),
        ("ARRAY<INT>", list(PLACEHOLDER.encode())),
        ("ARRAY<STRING>", [str(UUID(bytes=md5(PLACEHOLDER.encode()).digest(), version=3))]),
        ("MAP<STRING, STRING>", {PLACEHOLDER: PLACEHOLDER}),
        ("STRING", PLACEHOLDER.encode().hex()),
        ("STRING", f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'),
    ],
)
def test_placeholders_of_other_types(type_: str, value: Any) -> None:
    """Arrays, hstore and bytes have forms of their own; so has a text of the user's."""
    lacking = "value: column v has a value that the event lacks"
    assert read(None, type_, value).startswith(lacking)
    assert read(None, "STRING", "gone", placeholder="gone").startswith(lacking)
    for type_, value in (("BINARY", "AP8="), ("ARRAY<INT>", [0, -1]), ("STRING", "\0\ufffd")):
        assert read(None, type_, value, placeholder="hex:00ff").startswith(lacking)


MICRO = 1_769_864_645_123_456
MEANT: list[tuple[dict[str, Any], str, Any, Any]] = [
    (decimal(2, 10), "DECIMAL(10,2)", "AfE=", Decimal("4.97")),
    (decimal(2, 10), "DECIMAL(10,2)", "/g==", Decimal("-0.02")),
    (decimal(2, 10), "DECIMAL(12,4)", "AfE=", Decimal("4.9700")),
    (decimal(2, 10), "DECIMAL(10,1)", "AfE=", "value: column v: 4.97 has more digits than dec"),
    (decimal(2, 10), "DECIMAL(2,2)", "AfE=", "value: column v: 4.97 has more digits than dec"),
    (decimal(2, 10), "STRING", "AfE=", "4.97"),
    (decimal(0, 10), "BIGINT", "AfE=", 497),
    (decimal(2, 10), "BIGINT", "AfE=", "value: column v: AfE= is no bigint"),
    (decimal(2, 10), "DOUBLE", "AfE=", 4.97),
    (decimal(2, 10), "DECIMAL(10,2)", "A!", "value: column v: A! is no base64"),
    (schema("string"), "DECIMAL(10,2)", "4.97", Decimal("4.97")),
    (schema("string"), "DECIMAL(10,2)", "NaN", "value: column v: NaN is no decimal(10,2)"),
    (schema("struct", "io.debezium.data.VariableScaleDecimal"), "DECIMAL(10,3)",
        {"scale": 3, "value": "AfE="}, Decimal("0.497")),
    (schema("struct", "io.debezium.data.VariableScaleDecimal"), "DECIMAL(10,3)",
        {"scale": -2, "value": "AfE="}, Decimal("49700.000")),
    (schema("struct", "io.debezium.data.VariableScaleDecimal"), "STRING",
        {"scale": 3, "value": "AfE="}, "0.497"),
    (schema("int32", f"{TIME}Date"), "DATE", 20_484, datetime.date(2026, 1, 31)),
    (schema("int32", f"{CONNECT}Date"), "DATE", -1, datetime.date(1969, 12, 31)),
    (schema("int32", f"{TIME}Date"), "STRING", 20_484, "2026-01-31"),
    (schema("int32", f"{TIME}Date"), "INT", 20_484, 20_484),
    (schema("int32", f"{TIME}Date"), "DATE", 2**31 - 1, "value: column v: day 2147483647 is in"),
    (schema("int64", f"{TIME}Timestamp"), "TIMESTAMP", MICRO // 1000,
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123000, UTC)),
    (schema("int64", f"{CONNECT}Timestamp"), "TIMESTAMP_NTZ", MICRO // 1000,
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123000, UTC).replace(tzinfo=None)),
    (schema("int64", f"{TIME}MicroTimestamp"), "TIMESTAMP", MICRO,
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123456, UTC)),
    (schema("int64", f"{TIME}NanoTimestamp"), "TIMESTAMP", MICRO * 1000,
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123456, UTC)),
    (schema("int64", f"{TIME}NanoTimestamp"), "TIMESTAMP", MICRO * 1000 + 1,
        f"value: column v: {MICRO}001 has nanoseconds, which no timestamp has"),
    (schema("int64", f"{TIME}NanoTimestamp"), "STRING", MICRO * 1000 + 1,
        "2026-01-31T13:04:05.123456001"),
    (schema("int64", f"{TIME}MicroTimestamp"), "BIGINT", MICRO, MICRO),
    (schema("int64", f"{TIME}MicroTimestamp"), "TIMESTAMP", 2**62, "value: column v: time 461168"),
    (schema("int64", f"{TIME}MicroTimestamp"), "DATE", MICRO, f"value: column v: {MICRO} is no d"),
    (schema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP", "2026-01-31T13:04:05.123456Z",
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123456, UTC)),
    (schema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP", "2026-01-31T15:04:05+02:00",
        datetime.datetime(2026, 1, 31, 13, 4, 5, 0, UTC)),
    (schema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP_NTZ", "2026-01-31T13:04:05Z",
        "value: column v: 2026-01-31T13:04:05Z is no timestamp_ntz"),
    (schema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP", "2026-01-31T13:04:05.1234567Z",
        "value: column v: 2026-01-31T13:04:05.1234567Z has nanoseconds"),
    (schema("string", f"{TIME}ZonedTimestamp"), "TIMESTAMP", "+12026-01-31T13:04:05Z",
        "value: column v: +12026-01-31T13:04:05Z is no time with a zone"),
    (schema("int64", f"{TIME}MicroTime"), "BIGINT", 45_000_000_001, 45_000_000_001),
    (schema("int64", f"{TIME}MicroTime"), "STRING", 45_000_000_001, "12:30:00.000001"),
    (schema("int64", f"{TIME}MicroTime"), "STRING", -3_020_399_000_000, "-838:59:59"),
    (schema("int32", f"{CONNECT}Time"), "STRING", 45_000_120, "12:30:00.120"),
    (schema("bytes"), "BINARY", "AAH/", b"\x00\x01\xff"),
    (schema("bytes", "io.debezium.data.Bits"), "BINARY", "Cw==", b"\x0b"),
    (schema("string"), "BINARY", "AAH/", "value: column v: AAH/ is no binary"),
    (schema("string", "io.debezium.data.Json"), "STRING", '{"a": 1.10}', '{"a": 1.10}'),
    (schema("string", "io.debezium.data.Uuid"), "STRING", "a-b", "a-b"),
    (schema("string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "STRING", "a", "a"),
    (schema("int16"), "SMALLINT", -32768, -32768),
    (schema("int16"), "TINYINT", 128, "value: column v: 128 is no byte"),
    (schema("double"), "DOUBLE", "NaN", "nan"),
    (schema("double"), "DOUBLE", 0.1, 0.1),
    (schema("double"), "DOUBLE", 5e-324, 5e-324),
    (schema("float"), "FLOAT", 0.10000000149011612, 0.10000000149011612),
    (schema("float"), "FLOAT", 0.1, 0.10000000149011612),
    (schema("int32"), "FLOAT", 16777217, "value: column v: 16777217 is no float"),
    (schema("double"), "FLOAT", 1e-60, "value: column v: 1e-60 is no float"),
    (schema("double"), "FLOAT", 0.123456789012, "value: column v: 0.123456789012 is no float"),
    (decimal(0, 20), "DOUBLE", "IAAAAAAAAQ==", "value: column v: IAAAAAAAAQ== is no double"),
    (decimal(2, 10), "DECIMAL(10,2)", "", "value: column v: a decimal has no digits"),
    (schema("int64"), "DOUBLE", 2**53 + 1, "value: column v: 9007199254740993 is no double"),
    (schema("float"), "FLOAT", 1e300, "value: column v: 1e+300 is no float"),
    (schema("boolean"), "BOOLEAN", True, True),
    (schema("int16"), "BOOLEAN", 1, "value: column v: 1 is no boolean"),
    (schema("array", items=decimal(2, 10)), "ARRAY<DECIMAL(10,2)>", ["AfE=", None],
        [Decimal("4.97"), None]),
    (schema("map", keys=TEXT, values=decimal(2, 10)), "MAP<STRING, DECIMAL(10,2)>",
        {"a": "AfE="}, [("a", Decimal("4.97"))]),
    (schema("map", keys=schema("int32"), values=TEXT), "MAP<INT, STRING>", [[1, "x"]], [(1, "x")]),
    (schema("struct", fields=[{**schema("bytes"), "field": "wkb"}]), "STRUCT<wkb: BINARY>",
        {"wkb": "AQ==", "srid": None}, {"wkb": b"\x01"}),
    (schema("struct", fields=[]), "STRING", {"x": [1.10, "é"]}, '{"x":[1.1,"é"]}'),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(MEANT)))
def test_what_a_schema_says(place: int) -> None:
    """Debezium's and Connect's types, and what doesn't fit the column."""
    of, ddl, value, wanted = MEANT[place]
    found = read(of, ddl, value)
    if isinstance(wanted, str) and isinstance(found, str):
        assert found.startswith(wanted)
    elif wanted == "nan":
        assert found != found
    else:
        assert found == wanted


BARE: list[tuple[str, Any, dict[str, str], Any]] = [
    ("DECIMAL(10,2)", "AfE=", {}, "value: column v: AfE= has no schema that says whether it is b"),
    ("DECIMAL(10,2)", "AfE=", {"decimals": "base64"}, Decimal("4.97")),
    ("DECIMAL(10,2)", "4.97", {"decimals": "text"}, Decimal("4.97")),
    ("DECIMAL(10,2)", "4.975", {"decimals": "text"}, "value: column v: 4.975 has more digits"),
    ("DECIMAL(10,2)", 4.97, {}, Decimal("4.97")),
    ("DECIMAL(10,2)", {"scale": 3, "value": "E2o="}, {}, Decimal("4.97")),
    ("TIMESTAMP", MICRO, {}, f"value: column v: {MICRO} has no schema that says its unit"),
    ("TIMESTAMP", MICRO, {"timestamps": "microseconds"},
        datetime.datetime(2026, 1, 31, 13, 4, 5, 123456, UTC)),
    ("TIMESTAMP", "2026-01-31T13:04:05Z", {}, datetime.datetime(2026, 1, 31, 13, 4, 5, 0, UTC)),
    ("DATE", 20_484, {}, datetime.date(2026, 1, 31)),
    ("DATE", "2026-01-31", {}, datetime.date(2026, 1, 31)),
    ("BINARY", "AAH/", {}, b"\x00\x01\xff"),
    ("STRING", 1.5, {}, "1.5"),
    ("BIGINT", 2**63, {}, "value: column v: 9223372036854775808 is no bigint"),
    ("DOUBLE", "Infinity", {}, float("inf")),
    ("DECIMAL(10,2)", "", {"decimals": "base64"}, "value: column v: a decimal has no digits"),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(BARE)))
def test_without_a_schema_the_column_says_it(place: int) -> None:
    """Where the column's type isn't enough, the settings have to say it: nothing is guessed."""
    ddl, value, options, wanted = BARE[place]
    found = read(None, ddl, value, **options)
    if isinstance(wanted, str) and found != wanted:
        assert found.startswith(wanted)
    else:
        assert found == wanted


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38), st.booleans())
def test_decimals_are_exact(unscaled: int, scale: int, has_schema: bool) -> None:
    """Whatever the digits: with the scale of the schema, or of the column."""
    wanted = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    of = decimal(scale, 38) if has_schema else None
    found = read(of, f"DECIMAL(38,{scale})", base64_of(unscaled), decimals="base64")
    assert found == wanted
    variable = {"scale": scale, "value": base64_of(unscaled)}
    named = schema("struct", "io.debezium.data.VariableScaleDecimal")
    assert read(named, f"DECIMAL(38,{scale})", variable) == wanted
    assert Decimal(read(named, "STRING", variable)) == wanted


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["MicroTimestamp", "Zoned"]))
def test_times_are_exact(time: datetime.datetime, kind: str) -> None:
    """Each microsecond of the years 1 to 9999, as a number and as a text."""
    since = time - datetime.datetime(1970, 1, 1, tzinfo=UTC)
    us = since // datetime.timedelta(microseconds=1)
    of = schema("string", f"{TIME}ZonedTimestamp")
    value: Any = time.isoformat().replace("+00:00", "Z")
    if kind == "MicroTimestamp":
        of, value = schema("int64", f"{TIME}MicroTimestamp"), us
    assert read(of, "TIMESTAMP", value) == time
    if kind == "MicroTimestamp":
        assert read(of, "BIGINT", us) == us
    text = read(of, "STRING", value)
    assert datetime.datetime.fromisoformat(text).replace(tzinfo=UTC) == time


@example(datetime.date(1, 1, 1), b"", -5.960464477539063e-08, "")  # half-way between two texts
@example(datetime.date(1, 1, 1), b"", 2.0**895, "")  # nearer to a text that is another number
@given(st.dates(), st.binary(max_size=40), st.floats(allow_nan=False), st.text())
def test_other_values_are_exact(
    day: datetime.date, content: bytes, number: float, text: str
) -> None:
    """Days, bytes, doubles and texts."""
    days = (day - datetime.date(1970, 1, 1)).days
    assert read(schema("int32", f"{TIME}Date"), "DATE", days) == day
    assert read(schema("bytes"), "BINARY", b64encode(content).decode()) == content
    as_json = str(number).replace("inf", "Infinity") if number in (1e999, -1e999) else number
    assert read(schema("double"), "DOUBLE", as_json) == number
    if not text.startswith("__debezium"):
        assert read(TEXT, "STRING", text) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = [f"{TIME}{one}" for one in ("Date", "Timestamp", "NanoTime", "ZonedTimestamp", "IsoDate")]
NAMES += [f"{CONNECT}Decimal", "io.debezium.data.VariableScaleDecimal", ""]
TYPES = ["INT", "DOUBLE", "FLOAT", "STRING", "BINARY", "DATE", "TIMESTAMP", "BOOLEAN"]
TYPES += ["ARRAY<INT>", "DECIMAL(10,2)", "MAP<STRING, DATE>", "STRUCT<a: INT>"]


@given(JSON, st.sampled_from([*NAMES, None]), st.sampled_from(TYPES), st.sampled_from("crud"), JSON)
def test_no_value_breaks_the_worker(
    value: Any, name: str | None, ddl: str, op: str, parameters: Any
) -> None:
    """Any JSON with any schema in any column has an outcome."""
    of = None if name is None else {"type": "bytes", "name": name, "parameters": parameters}
    row = {"id": 1, "v": value}
    envelope: Any = {"op": op, "before": row, "after": row}
    if of is not None:
        fields = [{"type": "struct", "field": "after", "fields": [{**of, "field": "v"}]}]
        envelope = {"schema": {"type": "struct", "fields": fields}, "payload": envelope}
    record = (b'{"id":1}', json.dumps(envelope).encode())
    [found] = outcomes(plan_of(f"id INT, v {ddl}"), [record])
    assert isinstance(found, str | tuple)


def test_wrong_settings_are_named() -> None:
    """Before Spark starts, with what is allowed."""
    for options, told in (
        ({}, "it needs decode.schema"),
        ({"schema": "v VARIANT"}, "column v has a type"),
        ({"schema": "s STRUCT<v: ARRAY<VARIANT>>"}, "column s has a type"),
        ({"schema": "id INT", "decimals": "double"}, "it is one of base64, text"),
        ({"schema": "id INT", "placeholder": "hex:0g"}, "hexadecimal digits"),
        ({"schema": "id INT", "timestamps": "ms"}, "it is one of milliseconds, micro"),
        ({"schema": "id INT, _debezium INT"}, "column _debezium is the record's own"),
        ({"schema": "id INT", "delimiter": ","}, "format debezium has the options"),
    ):
        with pytest.raises(WrongSetting, match=told):
            check(Decode("debezium", options=options))
    with pytest.raises(WrongPipeline, match=r'only with .sink. kind = "upsert"'):
        pipeline_of(
            {
                "name": "p",
                "checkpoint": "/c",
                "source": {"bootstrap_servers": "a:1", "topics": ["t"]},
                "decode": {"format": "debezium", "schema": "id INT"},
                "sink": {"kind": "delta", "path": "/t"},
            }
        )
