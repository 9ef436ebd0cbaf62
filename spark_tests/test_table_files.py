"""The files of Delta and Iceberg tables, counted by deltalake and pyiceberg without Spark."""

import shutil
from pathlib import Path

import pyarrow
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from kwire.spark.settings import SinkSettings
from kwire.spark.table_files import TableFiles, table_files

ROWS = pyarrow.table({"n": [1, 2, 3]})


def test_files_of_a_delta_table(tmp_path: Path) -> None:
    """The table's own files, and not those that it no longer uses."""
    path = str(tmp_path / "table")
    settings = SinkSettings("delta", path)
    assert table_files(settings) == TableFiles(0, 0, 0, 0)
    write_deltalake(path, ROWS)
    write_deltalake(path, ROWS, mode="overwrite")
    write_deltalake(path, ROWS, mode="append")
    found = table_files(settings)
    assert found is not None
    assert (found.files, found.small, found.written) == (2, 2, 2)
    assert found.size_bytes > 0
    later = table_files(SinkSettings("upsert", path, options={"format": "delta"}), 1e12)
    assert later is not None
    assert (later.files, later.written) == (2, 0)


def test_files_of_an_iceberg_table(tmp_path: Path) -> None:
    """By its catalog, and by its directory as Spark's Hadoop catalog writes it."""
    where = {"uri": f"sqlite:///{tmp_path}/catalog", "warehouse": f"file://{tmp_path}"}
    catalog = SqlCatalog("kwire", **where)
    catalog.create_namespace("a")
    table = catalog.create_table("a.b", ROWS.schema)
    for _ in range(2):
        table.append(ROWS)
    options = {"table": "a.b", "catalog": {"type": "sql", **where}}
    found = table_files(SinkSettings("pyiceberg", options=options))
    assert found is not None
    assert (found.files, found.small, found.written) == (2, 2, 2)
    directory = tmp_path / "by-path" / "metadata"
    directory.mkdir(parents=True)
    shutil.copy(table.metadata_location.removeprefix("file://"), directory / "v3.metadata.json")
    (directory / "version-hint.text").write_text("3")
    by_path = SinkSettings("iceberg", str(directory.parent))
    assert table_files(by_path, 1e12) == found._replace(written=0)
    assert table_files(SinkSettings("iceberg", str(tmp_path / "none"))) is None
