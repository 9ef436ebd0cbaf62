"""The readers of tables that aren't Spark are compared: one that finds another value is noticed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_tests import readers


@pytest.mark.parametrize("name", ["polars", "duckdb"])
@pytest.mark.parametrize(
    "other",
    [{"n": [1, 3], "x": [None, "a"]}, {"n": [1], "x": ["a"]}, {"n": [1, 2]}],
    ids=["value", "row", "column"],
)
def test_another_value_is_noticed(
    name: str, other: dict[str, list[object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor may a row or a column be missing."""
    table = pa.table({"n": [1, 2], "x": [None, "a"]})
    pq.write_table(table, tmp_path / "one.parquet")
    assert readers.read("parquet", tmp_path) == table
    monkeypatch.setitem(readers.OTHERS["files"], name, lambda _: pa.table(other))
    with pytest.raises(AssertionError):
        readers.read("parquet", tmp_path)
