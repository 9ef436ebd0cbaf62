"""Any value under any key of a pipeline: it is taken, or named in one line, never a traceback."""

import copy
import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from kwire.spark.pipeline_file import WrongPipeline, pipeline_of

BASE: dict[str, Any] = {
    "name": "p",
    "checkpoint": "/c",
    "trigger": "once",
    "metrics": "127.0.0.1:1",
    "source": {
        "bootstrap_servers": "a:1",
        "topics": ["t"],
        "starting": "earliest",
        "client": {"client.id": "x"},
        "max_offsets_per_trigger": 1,
    },
    "transform": [{"sql": "SELECT 1"}],
    "dead_letters": {"topic": "d", "retry_delays_s": [1, 2]},
    "spark": {"spark.master": "local[1]"},
}
SINKS: list[dict[str, Any]] = [
    {"kind": "parquet", "path": "/t", "metadata": ["offset"], "compression": "snappy"},
    {"kind": "delta", "path": "/t", "partition_by": ["a"], "properties": {}},
    {"kind": "delta-rs", "path": "/t", "storage": {}, "max_rows": 5},
    {"kind": "iceberg", "table": "a.b", "catalog": {"type": "rest"}},
    {"kind": "pyiceberg", "table": "a.b", "catalog": {"type": "sql"}},
    {"kind": "upsert", "path": "/t", "format": "delta", "key": ["n"], "deletes": "mark"},
    {"kind": "topic", "topic": "o", "bootstrap_servers": "b:1", "client": {}, "headers": True},
]
DECODERS: list[dict[str, Any]] = [
    {"format": "json", "schema": "n long"},
    {"format": "avro", "registry": "http://h", "subject": "x", "refresh_s": 3},
    {"format": "csv", "schema": "n long", "delimiter": ","},
    {"format": "text", "column": "v", "key": "text"},
]
VALUES: list[Any] = [
    *(5, -1, 1.5, float("nan"), True, "", "\0", "x" * 10_000, [], [[]], [5], {}, {"a": {"b": [1]}}),
    *(datetime.date(2026, 1, 31), "[::1]:99999", '{"t": {"0": "x"}}', "2026-13-45", "9" * 50),
]


def places(table: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a table has values, at any depth."""
    rows = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in rows:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def changed(settings: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    """The settings with another value at a place."""
    found: Any = copy.deepcopy(settings)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return dict(found)


def lines_of(settings: dict[str, Any]) -> list[str]:
    """What is wrong with settings."""
    try:
        pipeline_of(settings)
    except WrongPipeline as wrong:
        return wrong.lines
    return []


CASES = [
    *(("sink", one, DECODERS[0]) for one in SINKS),
    *(("decode", SINKS[0], one) for one in DECODERS),
    ("decode", SINKS[5], {"format": "debezium", "schema": "n long", "decimals": "text"}),
    ("", SINKS[0], DECODERS[0]),
]


@pytest.mark.parametrize(("table", "sink", "decode"), CASES)
def test_a_wrong_value_is_a_line(table: str, sink: dict[str, Any], decode: dict[str, Any]) -> None:
    """No traceback, whatever stands in the file."""
    settings = BASE | {"sink": sink, "decode": decode}
    pipeline_of(settings)
    for place in places(settings):
        if (place[0] if place[0] in ("sink", "decode") else "") != table:
            continue
        for value in VALUES:
            for line in lines_of(changed(settings, place, value)):
                assert "\n" not in line, (place, value)
