"""Counts the files of a pipeline's table without Spark: all, small ones, and those just written.

Many small files make a table slow to read; ``kwire pipeline compact`` merges them.

Rules:

- Files sinks are looked up in their directory. Delta tables are read by the package deltalake,
  Iceberg tables by pyiceberg, from the table's own metadata.
- A table on another machine's disks, one in a catalog that Spark alone knows, a topic, or a missing
  package: the numbers are unknown, which is no error.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.spark.settings import SinkSettings
from kwire.spark.sinks import FILE_KINDS
from kwire.spark.storage import LocalStorage, storage_at

if TYPE_CHECKING:
    from pyiceberg.table import Table

logger = logging.getLogger(__name__)

SMALL_BYTES = 32 << 20
"""A file below this size is a small one: a quarter of what ``compact`` aims at."""

Found = Iterable[tuple[int, float]]
"""The size of each file, and the time it was written, in seconds since the epoch."""


class TableFiles(NamedTuple):
    """The files of a table as it is now."""

    files: int
    small: int
    size_bytes: int
    written: int
    """How many of them were written after a given time."""


def table_files(settings: SinkSettings, since_s: float = 0.0) -> TableFiles | None:
    """The files of a sink's table; None if they aren't known."""
    kind = settings.kind
    if kind == "upsert":
        kind = str(settings.options.get("format", "delta"))
    try:
        if kind in FILE_KINDS:
            return _counted(_listed(settings.path), since_s)
        if kind in ("delta", "delta-rs"):
            return _counted(_of_delta(settings), since_s)
        if kind in ("iceberg", "pyiceberg"):
            return _of_iceberg(settings, since_s)
    except Exception as error:  # of any library or catalog: these numbers stop no pipeline
        logger.debug("the files of %s %s can't be counted: %s", kind, settings.path, error)
    return None


def _counted(found: Found, since_s: float) -> TableFiles:
    files = small = total = written = 0
    for size, at_s in found:
        files += 1
        small += size < SMALL_BYTES
        total += size
        written += at_s >= since_s
    return TableFiles(files, small, total, written)


def _listed(path: str) -> Iterator[tuple[int, float]]:
    """The files of the files sink that readers see."""
    from kwire.spark.sinks.files import visible_files

    storage = storage_at(path)
    assert isinstance(storage, LocalStorage)
    top = Path(storage.url().removeprefix("file://"))
    for name in visible_files(storage):
        status = (top / name).stat()
        yield status.st_size, status.st_mtime


def _of_delta(settings: SinkSettings) -> Iterator[tuple[int, float]]:
    from deltalake import DeltaTable

    storage = settings.options.get("storage")
    if not DeltaTable.is_deltatable(settings.path, storage):
        return
    actions: Any = DeltaTable(settings.path, storage_options=storage).get_add_actions()
    sizes = actions.column("size_bytes").to_pylist()
    times = actions.column("modification_time").to_pylist()
    for size, at in zip(sizes, times, strict=True):
        yield size, at / 1000 if isinstance(at, int) else at.timestamp()  # by version


def _of_iceberg(settings: SinkSettings, since_s: float) -> TableFiles | None:
    """The newest snapshot's files, and those that snapshots have added since."""
    table = _iceberg_table(settings)
    if table is None:
        return None
    sizes = table.inspect.files().column("file_size_in_bytes").to_pylist()
    added = sum(
        int(one.summary.additional_properties.get("added-data-files", 0))
        for one in table.snapshots()
        if one.summary is not None and one.timestamp_ms >= since_s * 1000
    )
    return _counted(((size, -1.0) for size in sizes), 0.0)._replace(written=added)


def _iceberg_table(settings: SinkSettings) -> "Table | None":
    """The table by its directory, or by pyiceberg's catalog; None if Spark alone knows it."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    if settings.kind == "pyiceberg":
        properties = {"name": "kwire", **settings.options["catalog"]}
        catalog = load_catalog(str(properties.pop("name")), **properties)
        return catalog.load_table(settings.options["table"])
    if not settings.path:
        return None
    metadata = storage_at(f"{settings.path}/metadata")
    version = metadata.read("version-hint.text")
    if version is None:
        return None
    name = f"v{int(version)}.metadata.json"
    return StaticTable.from_metadata(metadata.url(name))
