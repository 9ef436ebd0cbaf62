"""Reads Spark's checkpoint: the offsets of each batch, and which batches are finished.

The files, as Spark 4 writes them (OffsetSeqLog, CommitLog, KafkaSourceInitialOffsetWriter):

- ``metadata``: JSON with the query's id.
- ``sources/0/0``: a zero byte, ``v1``, and the offsets that batch 0 begins at.
- ``offsets/N``: ``v1``, a line of settings, and the offsets that batch N ends at. Spark writes it
  before the batch runs.
- ``commits/N``: written after the batch. So at most the newest batch is unfinished.

Offsets are JSON, ``{"topic": {"0": 5}}``. If batch N has a partition that batch N - 1 doesn't have,
the partition was added. Spark reads it from its beginning, so its range begins at 0.
"""

import json
from collections.abc import Mapping

from kwire.spark.batch import OffsetRange
from kwire.spark.storage import Storage

Offsets = dict[tuple[str, int], int]
"""An offset for each topic and partition."""


class BadCheckpoint(RuntimeError):
    """The checkpoint isn't one of a pipeline, or not of a version that is known."""


class Checkpoint:
    """A checkpoint of a query with one Kafka source."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ends: dict[int, Offsets] = {}

    def query_id(self) -> str:
        """The id of the query; empty before its first start."""
        content = self._storage.read("metadata")
        return str(json.loads(content)["id"]) if content else ""

    def planned(self) -> int:
        """The newest batch whose offsets are written; -1 if there is none."""
        return _newest(self._storage.names("offsets"))

    def finished(self) -> int:
        """The newest batch that Spark has finished; -1 if there is none."""
        return _newest(self._storage.names("commits"))

    def pending(self) -> int | None:
        """The batch that was planned and isn't finished: Spark runs it again."""
        planned = self.planned()
        return planned if planned > self.finished() else None

    def end(self, batch: int) -> Offsets:
        """The end offsets of a batch; for -1 the begin of the first one, if there is one yet."""
        if batch not in self._ends:
            for old in [one for one in self._ends if one < batch - 1]:
                del self._ends[old]
            found = self._read(batch)
            if found is None:
                return {}
            self._ends[batch] = found
        return self._ends[batch]

    def ranges(self, batch: int) -> list[OffsetRange]:
        """The ranges of a batch, without partitions that have no new offsets.

        An end below the beginning stays: the topic has lost its end, or was created again.
        """
        begins = self.end(batch - 1)
        return [
            OffsetRange(topic, partition, first, end)
            for (topic, partition), end in sorted(self.end(batch).items())
            if (first := begins.get((topic, partition), 0)) != end
        ]

    def next_offsets(self) -> Offsets:
        """The offsets at which the next batch begins, after the newest finished one."""
        return dict(self.end(self.finished()))

    def _read(self, batch: int) -> Offsets | None:
        name = "sources/0/0" if batch < 0 else f"offsets/{batch}"
        content = self._storage.read(name)
        if content is None:
            if batch < 0:
                return None
            raise BadCheckpoint(f"{self._storage.url(name)} is missing")
        lines = content.decode().lstrip("\0").splitlines()
        if not lines or not lines[0].startswith("v1"):
            version = lines[0] if lines else "empty"
            raise BadCheckpoint(f"{self._storage.url(name)} has version {version}, not v1")
        return offsets_of(lines[-1].removeprefix("v1"))


def offsets_of(text: str) -> Offsets:
    """Offsets from Spark's JSON."""
    return {
        (topic, int(partition)): int(offset)
        for topic, rows in json.loads(text).items()
        for partition, offset in rows.items()
    }


def as_json(offsets: Mapping[tuple[str, int], int]) -> str:
    """Offsets as Spark's JSON."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(topics)


def _newest(names: list[str]) -> int:
    return max((int(name) for name in names if name.isdigit()), default=-1)
