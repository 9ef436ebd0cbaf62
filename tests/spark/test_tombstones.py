"""What becomes of records without a value, by the setting and by each sink's default."""

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.spark.batch import OffsetRange
from kwire.spark.pipeline_file import WrongPipeline, pipeline_of
from kwire.spark.sinks import KINDS
from kwire.spark.storage import LocalStorage
from kwire.spark.tombstone_ways import FILE, TombstoneWays
from kwire.spark.tombstones import way_of

NEEDED: dict[str, dict[str, Any]] = {
    "iceberg": {"table": "a.b", "catalog": {"type": "rest", "uri": "http://h"}},
    "pyiceberg": {"table": "a.b", "catalog": {"type": "sql", "uri": "sqlite://"}},
    "topic": {"topic": "out"},
    "upsert": {"path": "/t", "format": "delta"},
}


def way(kind: str, **sink: Any) -> str:
    """What a pipeline with a sink of a kind does."""
    given = NEEDED.get(kind, {"path": "/t"})
    found = pipeline_of(
        {
            "name": "p",
            "checkpoint": "/c",
            "source": {"bootstrap_servers": "a:1", "topics": ["t"]},
            "decode": {"schema": "n int"},
            "sink": {"kind": kind, **given, **sink},
        }
    )
    return way_of(found.sink)


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_of_each_kind(kind: str) -> None:
    """Tombstones are no rows, unless they mean something there."""
    assert way(kind) == ("row" if kind in ("topic", "upsert") else "skip")
    if kind != "topic":
        assert way(kind, metadata=["offset", "tombstone"]) == "row"


@pytest.mark.parametrize("kind", KINDS)
def test_the_setting_comes_first(kind: str) -> None:
    """But a table of upserts needs tombstones to delete."""
    for wanted in ("skip", "row", "dead letter"):
        if kind == "upsert" and wanted != "row":
            with pytest.raises(
                WrongPipeline, match="not with the kind upsert: a tombstone deletes"
            ):
                way(kind, tombstones=wanted)
        else:
            assert way(kind, tombstones=wanted) == wanted


@pytest.mark.parametrize("value", ["drop", "dead_letter", "Skip", 5, True])
def test_another_value_is_named(value: object) -> None:
    """With those that are allowed."""
    with pytest.raises(WrongPipeline, match=r"sink\.tombstones = .*(skip, row, dead letter|text)"):
        way("parquet", tombstones=value)


def ways(directory: Path, now: str) -> TombstoneWays:
    """As a run or a command opens them."""
    return TombstoneWays(LocalStorage(directory), now)


def skipped(directory: Path, partition: int = 0, incarnation: int = 0) -> list[tuple[int, int]]:
    """The offsets below 100 at which tombstones are left out, whatever the settings say now."""
    found = ways(directory, "row").skipped("t", partition, incarnation)
    return list(found.within(0, 100))


def test_the_way_of_each_offset_is_known(tmp_path: Path) -> None:
    """Each partition changes with the first batch that has it, a topic created again too."""
    assert list(ways(tmp_path, "skip").skipped("t", 0, 0).within(0, 9)) == [(0, 9)]
    assert list(ways(tmp_path, "row").skipped("t", 0, 0)) == []
    first = ways(tmp_path, "skip")
    first.start_batch([OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 7)])
    before = (tmp_path / FILE).stat()
    first.start_batch([OffsetRange("t", 0, 10, 20)])
    assert (tmp_path / FILE).stat() == before, "nothing has changed"
    ways(tmp_path, "row").start_batch([OffsetRange("t", 0, 20, 30)])
    ways(tmp_path, "dead letter").start_batch(
        [OffsetRange("t", 1, 7, 9), OffsetRange("t", 0, 20, 25)]
    )
    ways(tmp_path, "skip").start_batch([OffsetRange("t", 0, 30, 40), OffsetRange("t", 0, 5, 9, 1)])
    assert skipped(tmp_path) == [(0, 20), (30, 100)]
    assert skipped(tmp_path, 1) == [(0, 7)]
    assert skipped(tmp_path, incarnation=1) == [(0, 100)]
    assert skipped(tmp_path, 2) == [(0, 100)]


def test_a_replayed_range_has_the_way_of_its_replay(tmp_path: Path) -> None:
    """Around it nothing changes, also for a stream that was opened before."""
    stream = ways(tmp_path, "skip")
    stream.start_batch([OffsetRange("t", 0, 0, 50)])
    ways(tmp_path, "row").replaced([OffsetRange("t", 0, 10, 20), OffsetRange("t", 0, 30, 50)])
    stream.start_batch([OffsetRange("t", 0, 50, 60)])
    assert skipped(tmp_path) == [(0, 10), (20, 30), (50, 100)]
    ways(tmp_path, "skip").replaced([OffsetRange("t", 0, 0, 50)])
    assert skipped(tmp_path) == [(0, 100)]
    assert json.loads((tmp_path / FILE).read_bytes()) == {
        "first": "skip",
        "changes": [["t", 0, 0, []]],
    }
