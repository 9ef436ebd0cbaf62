"""The sinks of a trial: their settings, and readers of their rows that are neither Spark nor kwire.

The kind ``upsert-iceberg`` is an upsert into Iceberg, ``upsert`` one into Delta. Dead letters go to
a table, those of ``pyiceberg`` to a topic.

pyarrow reads files, the package ``deltalake`` Delta tables, ``pyiceberg`` Iceberg tables, and a
consumer with ``read_committed`` topics.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from numpy.typing import NDArray

from spark_tests.chaos.stream import read_topic

OUT_PARTITIONS = 2
PY_TABLE = "chaos.rows"


@dataclass(frozen=True, slots=True)
class Place:
    """A sink below a directory, or the topic ``out``; ``dead`` is for dead letters in a topic."""

    kind: str
    directory: Path
    bootstrap: str
    out: str = ""
    dead: str = ""
    _read: list[int] = field(default_factory=list)
    _next: dict[int, int] = field(default_factory=dict)
    """What was read of a topic, whose records stay as they are, and where to go on."""

    @property
    def path(self) -> Path:
        """Where files and tables are."""
        return self.directory / "lake" / "table"

    @property
    def is_upsert(self) -> bool:
        """Whether it has one row for each key."""
        return self.kind.startswith("upsert")

    @property
    def has_dead_topic(self) -> bool:
        """Whether dead letters go to the topic ``dead``."""
        return self.kind == "pyiceberg"

    @property
    def settings(self) -> dict[str, Any]:
        """The table [sink]."""
        if self.kind == "topic":
            return {"kind": "topic", "topic": self.out}
        if self.kind == "pyiceberg":
            return {"kind": self.kind, "table": PY_TABLE, "catalog": self._catalog}
        if self.kind == "upsert-iceberg":
            return {"kind": "upsert", "format": "iceberg", "path": str(self.path)}
        found = {"kind": self.kind, "path": str(self.path)}
        return found | ({"metadata": ["offset"]} if self.kind in ("parquet", "json") else {})

    @property
    def dead_letters_settings(self) -> dict[str, Any]:
        """The table [dead_letters]."""
        return {"topic": self.dead} if self.has_dead_topic else {"path": str(self._dead_table)}

    @property
    def _dead_table(self) -> Path:
        return self.directory / "dead"

    @property
    def _catalog(self) -> dict[str, str]:
        """Of pyiceberg: in a file of SQLite, which stands for any catalog that decides commits."""
        return {
            "name": "chaos",
            "type": "sql",
            "uri": f"sqlite:///{self.directory}/catalog.db",
            "warehouse": f"file://{self.directory}/lake",
        }

    def numbers(self) -> NDArray[np.int64]:
        """The column ``n`` of all rows, sorted; none before the first batch."""
        if self.kind == "topic":
            return np.sort(np.array(self._of_topic(), np.int64))
        table = self._table(["n"])
        return np.array([], np.int64) if table is None else np.sort(table["n"].to_numpy())

    def rows_by_key(self) -> dict[bytes, int]:
        """The column ``n`` by key; AssertionError for a key that is there twice."""
        table = self._table(["_key", "n"])
        if table is None:
            return {}
        keys = table["_key"].to_pylist()
        assert len(keys) == len(set(keys)), "a key has several rows"
        return dict(zip(keys, table["n"].to_pylist(), strict=True))

    def dead_letters(self) -> list[bytes]:
        """The raw bytes of all dead letters, sorted; of a topic, which has doubles, each once."""
        if self.has_dead_topic:
            found: set[bytes] = set()
            read_topic(self.bootstrap, self.dead, 1, lambda _, value: found.add(value or b""))
            return sorted(found)
        if not self._dead_table.exists():
            return []
        table = pyarrow.dataset.dataset(self._dead_table, format="parquet").to_table(["value"])
        return sorted(table["value"].to_pylist())

    def _table(self, columns: list[str]) -> pa.Table | None:
        if self.kind == "pyiceberg":
            return self._of_catalog(columns)
        if not self.path.exists():
            return None
        if self.kind in ("parquet", "json"):
            found = pyarrow.dataset.dataset(self.path, format=self.kind)
            return found.to_table(columns) if found.files else None
        is_iceberg = self.kind.endswith("iceberg")
        return self._of_iceberg(columns) if is_iceberg else self._of_delta(columns)

    def _of_catalog(self, columns: list[str]) -> pa.Table | None:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog(**self._catalog)
        if not catalog.table_exists(PY_TABLE):
            return None
        return catalog.load_table(PY_TABLE).scan(selected_fields=tuple(columns)).to_arrow()

    def _of_delta(self, columns: list[str]) -> pa.Table | None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self.path)):
            return None
        return DeltaTable(str(self.path)).to_pyarrow_table(columns=columns)

    def _of_iceberg(self, columns: list[str]) -> pa.Table | None:
        from pyiceberg.table import StaticTable

        metadata = self.path / "metadata"
        versions = [
            (int(one.name.removeprefix("v").partition(".")[0]), one)
            for one in metadata.glob("v*.metadata.json")
        ]
        if not versions:
            return None
        table = StaticTable.from_metadata(str(max(versions)[1]))
        return table.scan(selected_fields=tuple(columns)).to_arrow()

    def _of_topic(self) -> list[int]:
        def take(key: bytes, value: bytes | None) -> None:
            assert value is not None
            self._read.append(json.loads(value)["n"])

        read_topic(self.bootstrap, self.out, OUT_PARTITIONS, take, self._next)
        return self._read
