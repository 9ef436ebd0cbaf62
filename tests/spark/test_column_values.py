"""Columns of the settings in which no record has a value: they are told once, and kept in sight."""

import json
from pathlib import Path

import pytest

from kwire.spark.column_values import (
    FILE,
    FIRST_RECORDS,
    ColumnValues,
    empty_columns,
    named_columns,
    places_of,
)
from kwire.spark.decode.ddl import parse_ddl
from kwire.spark.decode.options import options_of
from kwire.spark.settings import Decode
from kwire.spark.storage import LocalStorage

DDL = "id INT, shop STRUCT<name: STRING, ctiy: STRING>, lines ARRAY<STRUCT<sku: STRING>>"


def opened(directory: Path, ddl: str = DDL) -> ColumnValues:
    """As a run opens it."""
    of = parse_ddl(ddl)
    assert isinstance(of, dict)
    return ColumnValues(LocalStorage(directory), of)


def take(values: ColumnValues, directory: Path, records: int, *seen: str) -> None:
    """A batch in which some of the columns that are left had values."""
    content = LocalStorage(directory).read(FILE)
    left = list(places_of(parse_ddl(DDL)))
    if content is not None:
        left = list(json.loads(content)["empty"])
    values.take(records, left, [one for one in left if one in seen])


def test_places_within_columns() -> None:
    """Fields of structs, of an array's items, and of a map's values."""
    of = parse_ddl(
        "a STRUCT<b: INT>, c ARRAY<STRUCT<d: INT>>, e MAP<STRING, ARRAY<STRUCT<f: INT>>>"
    )
    assert list(places_of(of)) == ["a", "a.b", "c", "c[].d", "e", "e{}[].f"]


def test_a_column_without_values_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the first records; its fields aren't told beside it, and other runs are silent."""
    values = opened(tmp_path)
    take(values, tmp_path, FIRST_RECORDS - 1, "id", "shop", "shop.name")
    assert not caplog.messages
    take(values, tmp_path, 1)
    [told] = caplog.messages
    assert "no record has had a value in shop.ctiy, lines so far, of 1,000" in told
    again = opened(tmp_path)
    take(again, tmp_path, 5)
    again.tell()
    assert caplog.messages == [told]
    assert empty_columns(LocalStorage(tmp_path)) == {"shop.ctiy": 1005, "lines": 1005}
    take(again, tmp_path, 1, "lines", "lines[].sku")
    assert empty_columns(LocalStorage(tmp_path)) == {"shop.ctiy": 1006}


def test_a_short_run_tells_in_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Few records are no reason to say nothing; none at all are."""
    values = opened(tmp_path)
    values.take(0, ["id"], [])
    values.tell()
    assert not caplog.messages
    take(values, tmp_path, 5, "id", "shop", "shop.name", "shop.ctiy", "lines")
    values.tell()
    [told] = caplog.messages
    assert "in lines[].sku so far, of 5: " in told


def test_a_corrected_name_is_looked_at_anew(tmp_path: Path) -> None:
    """What the settings don't name any more is forgotten."""
    values = opened(tmp_path)
    take(values, tmp_path, 9, "id", "shop", "shop.name", "lines", "lines[].sku")
    corrected = opened(tmp_path, DDL.replace("ctiy", "city"))
    corrected.take(3, ["shop.city"], ["shop.city"])
    assert empty_columns(LocalStorage(tmp_path)) == {}


@pytest.mark.parametrize(
    ("decode", "found"),
    [
        (Decode("json", options={"schema": "a INT"}), ["a"]),
        (Decode("debezium", options={"schema": "a INT"}), ["a"]),
        (Decode("json", options={"inferred_schema": "/nowhere"}), None),
        (Decode("csv", options={"schema": "a INT"}), None),
        (Decode("avro", registry="http://h:1"), None),
        (Decode("text"), None),
    ],
)
def test_columns_that_are_found_by_name(decode: Decode, found: list[str] | None) -> None:
    """Those that were found in records, or are found by their order, can't be misspelled."""
    of = named_columns(options_of(decode))
    assert (None if of is None else list(places_of(of))) == found
