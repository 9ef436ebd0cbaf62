"""Readers that aren't Spark, which have to find the same values in a table.

``read`` gives the table as pyarrow, deltalake or pyiceberg has it, after polars and duckdb have
found the same rows. duckdb reads Delta and Iceberg by its own extensions, which are packages: none
is fetched when a test runs. For each table, docs/PIPELINES.md says which reader can't read what.
"""

import math
import os
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset

os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # polars reads the files that it names

EXTENSIONS = ("avro", "delta", "iceberg")

FILES, DELTA, ICEBERG = "files", "delta", "iceberg"
NEW_DELTA = "new delta"
"""The formats of tables; of those with newer features of Delta only duckdb knows what is there."""

FORMATS = {
    "parquet": FILES,
    "delta": DELTA,
    "delta-rs": DELTA,
    "upsert": DELTA,
    "iceberg": ICEBERG,
    "pyiceberg": ICEBERG,
    "upsert-iceberg": ICEBERG,
    "mapped": NEW_DELTA,
    "delta with widening": NEW_DELTA,
}
"""The format of the table of each kind of sink."""


def read(kind: str, path: Path) -> pa.Table:
    """The newest version of a kind's table at a path; AssertionError if readers don't agree."""
    found = _LIBRARIES[FORMATS[kind]](path)
    names = found.column_names
    wanted = _rows(found, names)
    for name, other in OTHERS.get(FORMATS[kind], {}).items():
        assert _rows(other(path), names) == wanted, f"{name} reads other values"
    return found


def by_deltalake(path: Path) -> pa.Table:
    """The table by deltalake's own reader."""
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table()


def by_pyiceberg(path: Path) -> pa.Table:
    """The newest version of an Iceberg table by pyiceberg."""
    return _static_table(path).scan().to_arrow()


def by_pyarrow(path: Path) -> pa.Table:
    """Plain files by pyarrow, with the columns of the first one."""
    return pyarrow.dataset.dataset(path, format="parquet", partitioning=None).to_table()


def newest_metadata(path: Path) -> str:
    """The file of the newest version of an Iceberg table anywhere below a directory."""
    return str(max(path.rglob("*.metadata.json"), key=lambda one: one.stat().st_mtime_ns))


def _static_table(path: Path) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(newest_metadata(path))


def _polars_files(path: Path) -> pa.Table:
    more: Any = {"missing_columns": "insert", "extra_columns": "ignore"}
    files = polars.scan_parquet(path / "**/*.parquet", hive_partitioning=False, **more)
    return files.collect().to_arrow()


def _polars_delta(path: Path) -> pa.Table:
    return polars.read_delta(str(path)).to_arrow()


def _polars_iceberg(path: Path) -> pa.Table:
    return polars.scan_iceberg(_static_table(path)).collect().to_arrow()


def _duckdb_files(path: Path) -> pa.Table:
    files = f"{path}/**/*.parquet"
    return _by_duckdb(
        "SELECT * FROM read_parquet(?, union_by_name = true, hive_partitioning = false)", files
    )


def _duckdb_delta(path: Path) -> pa.Table:
    return _by_duckdb("SELECT * FROM delta_scan(?)", str(path))


def _duckdb_iceberg(path: Path) -> pa.Table:
    return _by_duckdb("SELECT * FROM iceberg_scan(?)", newest_metadata(path))


def _by_duckdb(query: str, path: str) -> pa.Table:
    return _connection().cursor().execute(query, [path]).arrow().read_all()


@lru_cache(maxsize=1)
def _connection() -> duckdb.DuckDBPyConnection:
    """A database in memory, with the extensions that are installed beside it."""
    found = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for one in EXTENSIONS:
        packages = resources.files(f"duckdb_extension_{one}")
        file = packages / "extensions" / f"v{duckdb.__version__}" / f"{one}.duckdb_extension"
        found.execute(f"LOAD '{file}'")
    found.execute("SET TimeZone = 'UTC'")
    return found


_LIBRARIES: dict[str, Callable[[Path], pa.Table]] = {
    FILES: by_pyarrow,
    DELTA: by_deltalake,
    ICEBERG: by_pyiceberg,
    NEW_DELTA: _duckdb_delta,
}
OTHERS: dict[str, dict[str, Callable[[Path], pa.Table]]] = {
    FILES: {"polars": _polars_files, "duckdb": _duckdb_files},
    DELTA: {"polars": _polars_delta, "duckdb": _duckdb_delta},
    ICEBERG: {"polars": _polars_iceberg, "duckdb": _duckdb_iceberg},
}
"""The readers whose values are compared, by the table's format."""


def _rows(table: pa.Table, names: list[str]) -> list[str]:
    """The rows as texts, in order: readers have other types for the same values."""
    missing = set(names) - set(table.column_names)
    assert not missing, f"the columns {sorted(missing)} are missing"
    return sorted(repr([_plain(row[name]) for name in names]) for row in _lists(table))


def _lists(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist())


def _plain(value: Any) -> Any:
    """A value in one form: maps are pairs in order for some readers and structs for others."""
    if isinstance(value, list) and value and all(_is_pair(one) for one in value):
        return sorted(repr([_plain(part) for part in _pair(one)]) for one in value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    # Times are compared as instants, whatever the reader calls the zone.
    return value.isoformat().replace("Z", "+00:00") if hasattr(value, "isoformat") else value


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, dict) and set(value) == {"key", "value"})


def _pair(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value["key"], value["value"]]
