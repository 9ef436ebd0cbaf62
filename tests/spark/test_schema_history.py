"""The history of a pipeline's columns: one entry for each change, written before its batch is."""

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.cli import main
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.decode.spark_types import array, field, struct
from kwire.spark.schema_history import FILE, SchemaHistory, read_history
from kwire.spark.storage import LocalStorage


def batch(number: int, first: int = 0) -> Batch:
    """A batch of two partitions."""
    ranges = (OffsetRange("orders", one, first, first + 5) for one in range(2))
    return Batch("p", "q", number, tuple(ranges))


def columns(**types: Any) -> dict[str, Any]:
    """Rows with the record's own columns as well."""
    own = [field("_offset", "long"), field("_topic", "string")]
    return struct([field(name, of) for name, of in types.items()] + own)


def opened(directory: Path) -> SchemaHistory:
    """The history as a new run opens it."""
    storage = LocalStorage(directory)
    return SchemaHistory(storage, lambda topics: dict.fromkeys(topics, 7), lambda: 1_700_000_000)


def entries(directory: Path) -> list[dict[str, Any]]:
    """What the file has."""
    return read_history(LocalStorage(directory))


def test_each_change_is_an_entry(tmp_path: Path) -> None:
    """With the first offsets of its batch and the registry's schemas; a new run goes on with it."""
    opened(tmp_path).note(columns(id="integer"), batch(0))
    history = opened(tmp_path)
    history.note(columns(id="integer"), batch(1, 5))
    history.note(columns(id="long", name="string"), batch(2, 10))
    assert entries(tmp_path) == [
        {
            "at": 1_700_000_000,
            "query": "q",
            "batch": 0,
            "offsets": {"orders": {"0": 0, "1": 0}},
            "schema_ids": {"orders": 7},
            "added": {"id": "integer"},
            "changed": {},
        },
        {
            "at": 1_700_000_000,
            "query": "q",
            "batch": 2,
            "offsets": {"orders": {"0": 10, "1": 10}},
            "schema_ids": {"orders": 7},
            "added": {"name": "string"},
            "changed": {"id": ["integer", "long"]},
        },
    ]


def test_columns_that_come_and_go_are_no_changes(tmp_path: Path) -> None:
    """However often topics take turns, also within structs and arrays and over new runs."""
    inner = (array(struct([field(name, "long")])) for name in ("a", "b"))
    one, two = (
        columns(**{name: "string", "same": of}) for name, of in zip("xy", inner, strict=True)
    )
    opened(tmp_path).note(one, batch(0))
    opened(tmp_path).note(two, batch(1))
    before = entries(tmp_path)
    assert len(before) == 2
    for number in range(2, 6):
        opened(tmp_path).note((one, two)[number % 2], batch(number))
    wider, narrower = columns(x="string", n="long"), columns(x="string", n="integer")
    for number in range(6, 12):
        opened(tmp_path).note((wider, narrower)[number % 2], batch(number))
    added = entries(tmp_path)[2:]
    assert [(one["added"], one["changed"]) for one in added] == [
        ({"n": "long"}, {}),
        ({}, {"n": ["long", "integer"]}),
    ]


class Filling(LocalStorage):
    """A storage that may be full."""

    is_full = False

    def write(self, name: str, content: bytes) -> None:
        """OSError while it is full."""
        if self.is_full:
            raise OSError("no space left")
        super().write(name, content)


def test_a_type_of_a_user_stays_as_it_is(tmp_path: Path) -> None:
    """As Spark's vectors are, at any depth; a plain type after it is a change."""
    vector = {"type": "udt", "class": "VectorUDT", "sqlType": struct([field("size", "integer")])}
    history = opened(tmp_path)
    for number, of in enumerate((vector, dict(vector), array(vector), array(vector), "string")):
        history.note(columns(v=of), batch(number))
    found = [entry["added"] or entry["changed"] for entry in entries(tmp_path)]
    assert found == [
        {"v": vector},
        {"v": [vector, array(vector)]},
        {"v": [array(vector), "string"]},
    ]


def test_a_write_that_fails_is_done_with_the_next_try(tmp_path: Path) -> None:
    """The file is replaced as a whole, so it has every entry or all but the last one."""
    storage = Filling(tmp_path)
    history = SchemaHistory(storage, lambda topics: {})
    history.note(columns(id="long"), batch(0))
    storage.is_full = True
    with pytest.raises(OSError, match="no space"):
        history.note(columns(id="long", x="long"), batch(1))
    assert len(entries(tmp_path)) == 1
    storage.is_full = False
    history.note(columns(id="long", x="long"), batch(1))
    assert [one["added"] for one in entries(tmp_path)] == [{"id": "long"}, {"x": "long"}]


def test_the_command_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each column; without a batch it says so. It asks no cluster."""
    file = tmp_path / "p.toml"
    file.write_text(
        f'checkpoint = "{tmp_path}/c"\n'
        '[source]\nbootstrap_servers = "127.0.0.1:1"\ntopics = ["orders"]\n'
        '[decode]\nschema = "id INT"\n'
        f'[sink]\nkind = "parquet"\npath = "{tmp_path}/table"\n'
    )
    assert main(["pipeline", "schema", str(file)]) == 0
    assert "no batch yet" in capsys.readouterr().err
    history = opened(tmp_path / "c")
    history.note(columns(id="integer"), batch(0))
    history.note(columns(id="long", l=array("long")), batch(3, 40))
    assert main(["pipeline", "schema", str(file)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = "2023-11-14T22:13:20+00:00"
    assert lines[1] == [at, "0", "id", "int", "7", "orders-0:", "0,", "orders-1:", "0"]
    assert lines[2][:4] == [at, "3", "l", "array<bigint>"]
    assert lines[3][:6] == [at, "3", "id", "int", "bigint", "7"]
    assert main(["pipeline", "schema", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[1]["changed"] == {"id": {"before": "int", "type": "bigint"}}
    assert found[1]["added"] == {"l": "array<bigint>"}
    assert (tmp_path / "c" / FILE).exists()
