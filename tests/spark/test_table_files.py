"""The files of tables, counted without Spark."""

import os
from pathlib import Path

import pytest

from kwire.spark.settings import SinkSettings
from kwire.spark.table_files import SMALL_BYTES, TableFiles, table_files


def test_files_of_the_files_sink(tmp_path: Path) -> None:
    """Those that readers see: small ones, and those of this run."""
    partition = tmp_path / "topic=t" / "partition=0"
    partition.mkdir(parents=True)
    (tmp_path / "_kwire").mkdir()
    (tmp_path / "_kwire" / "claims").write_bytes(b"hidden")
    for number, size in enumerate((10, SMALL_BYTES - 1, SMALL_BYTES)):
        path = partition / f"{number:020}-{number + 1:020}.parquet"
        with path.open("wb") as file:
            file.truncate(size)
        os.utime(path, (1000 * number, 1000 * number))
    found = table_files(SinkSettings("parquet", str(tmp_path)), since_s=1000)
    assert found == TableFiles(3, 2, 9 + 2 * SMALL_BYTES, 2)
    assert table_files(SinkSettings("json", str(tmp_path / "none"))) == TableFiles(0, 0, 0, 0)


@pytest.mark.parametrize(
    "sink",
    [
        SinkSettings("topic", options={"topic": "t"}),
        SinkSettings("parquet", "s3a://bucket/table"),
        SinkSettings("iceberg", options={"table": "a.b", "catalog": {}}),
        SinkSettings("pyiceberg", options={"table": "a.b", "catalog": {"type": "none"}}),
        SinkSettings("delta", "s3a://bucket/table"),
    ],
)
def test_files_out_of_reach_are_unknown(sink: SinkSettings) -> None:
    """That is no error."""
    assert table_files(sink) is None
