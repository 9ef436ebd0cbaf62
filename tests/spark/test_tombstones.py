"""What becomes of records without a value, by the setting and by each sink's default."""

from typing import Any

import pytest

from kwire.spark.pipeline_file import WrongPipeline, pipeline_of
from kwire.spark.sinks import KINDS
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
