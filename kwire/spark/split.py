"""Decides once which records of a batch are dead letters, if an error of decoding may go away.

With a registry the same record may fail now and be decoded a moment later. If a batch then ran
again after a kill, with another outcome, a record could get lost (a table that has taken the batch
doesn't take it again) or be there twice (as a row, and once more from its retry topic).

Rules:

- The offsets of a batch's dead letters are written to ``split.json`` beside the checkpoints before
  anything else of the batch is written. Every later reading of the batch uses the same offsets.
- A batch may be decided to have none before it was read (``without_dead_letters``).
- If the sink has rows of the batch, or can't tell, it is decoded by the versions of then, too. If
  it has none, nothing of the batch is anywhere, and it is decided anew (as in ``decided``).
- A record that was good and can't be decoded now fails the batch, until the registry is back.
- Only the split of the newest batch is kept, because Spark runs no other batch again.

For other formats only the schema and the settings decide: ``decided`` keeps these.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import REGISTRY
from kwire.spark import rows as names
from kwire.spark.batch import Batch
from kwire.spark.odd_records import is_told
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.settings import PipelineSettings
from kwire.spark.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kwire.spark.decode.decoding import Decoding

FILE = "split.json"

Runs = list[tuple[str, int, int, int]]
"""Topic, partition, first offset and the offset after the last one."""

_RUN_COLUMNS = f"{names.TOPIC} string, {names.PARTITION} int, _first long, _end long, _why string"
_PASSED = f"{REGISTRY}it wasn't known when the batch was first read"
_AGAIN = "; its batch was read before, so it has to be read again"


AFTER_DEAD_LETTERS = 20
"""After how many batches without dead letters the next one is expected to have none."""


class Expected:
    """Whether the next batch of a pipeline is expected to have no dead letters, by those before."""

    def __init__(self) -> None:
        self._left = 0

    @property
    def has_none(self) -> bool:
        """Whether it is."""
        return not self._left

    def note(self, dead_letters: int) -> None:
        """Note how many a batch had that may have had some."""
        self._left = AFTER_DEAD_LETTERS if dead_letters else max(0, self._left - 1)


def may_change(settings: PipelineSettings) -> bool:
    """Whether a record of the pipeline may fail at one time and be decoded at another."""
    return bool(settings.decode.registry) and settings.decode.format in (
        "avro",
        "protobuf",
        "debezium",
    )


class Splits:
    """The split of the newest batch; the file is in ``storage``."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def decided(
        self, decoded: "DataFrame", batch: Batch, versions: Mapping[str, int] | None = None
    ) -> "DataFrame":
        """Decoded rows; those that were dead letters at the first reading have an error.

        ``versions`` are kept for a later reading: the newest ones that this one knows.
        """
        from pyspark.sql import functions as f

        found = self._read(batch)
        if found is not None:
            return _with_errors_of(decoded, [tuple(one) for one in found["dead_letters"]])
        runs = _runs_of(decoded.where(f.col(names.ERROR).isNotNull()))
        self._keep(batch, runs, versions)
        return _with_errors_of(decoded, runs)

    def without_dead_letters(
        self, decode: "Decoding", batch: Batch, versions: Mapping[str, int] | None
    ) -> "Decoding":
        """Decide that a batch has no dead letters; an error fails it (``is_by_dead_letter``)."""
        self._keep(batch, [], versions)
        return lambda given, has_reasons: _with_errors_of(decode(given, has_reasons), [])

    def _keep(self, batch: Batch, runs: Runs, versions: Mapping[str, int] | None) -> None:
        row = {"query_id": batch.query_id, "batch_id": batch.batch_id, "dead_letters": runs}
        self._storage.write(FILE, json.dumps(row | {"versions": versions}).encode())

    def versions(self, batch: Batch) -> dict[str, int] | None:
        """The versions of the first reading of a batch; None if it wasn't read, or nobody knows."""
        found = self._read(batch)
        return None if found is None else found.get("versions")

    def has(self, batch: Batch) -> bool:
        """Whether the split of a batch was decided before."""
        return self._read(batch) is not None

    def forget(self, batch: Batch) -> None:
        """Decide anew of a batch of which nothing was written."""
        assert self._read(batch) is not None
        self._storage.write(FILE, b"{}")

    def _read(self, batch: Batch) -> dict[str, Any] | None:
        content = self._storage.read(FILE)
        if content is None:
            return None
        found: dict[str, Any] = json.loads(content)
        is_of = (found.get("query_id"), found.get("batch_id")) == (batch.query_id, batch.batch_id)
        return found if is_of else None


def is_by_dead_letter(error: Exception) -> bool:
    """Whether a batch has failed because of a record that was decided to be none."""
    return is_told(error, (_AGAIN,))


def _runs_of(dead: "DataFrame") -> Runs:
    """The offsets as runs."""
    from pyspark.sql import functions as f

    return runs_by_reason(dead, f.lit("")).get("", [])


def runs_by_reason(dead: "DataFrame", reason: "Column") -> dict[str, Runs]:
    """The offsets as runs, by reason; found in the driver: Spark would shuffle, for every batch.

    A record of which a transform has made several rows is there once, with one of their reasons.
    """
    table = dead.select(reason, names.TOPIC, names.PARTITION, names.OFFSET).toArrow()
    rows = sorted(zip(*(one.to_pylist() for one in table.columns), strict=True), reverse=True)
    texts = {(topic, partition, offset): text for text, topic, partition, offset in rows}
    found: dict[tuple[str, str, int], list[int]] = {}
    for (topic, partition, offset), text in texts.items():
        found.setdefault((text, topic, partition), []).append(offset)
    runs: dict[str, Runs] = {}
    for (text, topic, partition), offsets in sorted(found.items()):
        for first, end in OffsetRuns((one, one + 1) for one in sorted(offsets)):
            runs.setdefault(text, []).append((topic, partition, first, end))
    return runs


def _with_errors_of(decoded: "DataFrame", runs: Runs) -> "DataFrame":
    """Dead letters are exactly those of ``runs``; any other error fails the batch."""
    from pyspark.sql import functions as f

    error = f.col(names.ERROR)
    told = f.concat(error, f.lit(_AGAIN))
    checked = f.when(error.isNotNull(), f.raise_error(told).cast("string"))
    if not runs:
        return decoded.withColumn(names.ERROR, checked)
    return _marked(decoded, {_PASSED: runs}, checked)


def with_dead(decoded: "DataFrame", runs: Mapping[str, Runs]) -> "DataFrame":
    """Dead letters are those of ``runs``, by their reasons, beside those with an error now."""
    from pyspark.sql import functions as f

    return _marked(decoded, runs, f.col(names.ERROR)) if any(runs.values()) else decoded


def _marked(decoded: "DataFrame", runs: Mapping[str, Runs], otherwise: "Column") -> "DataFrame":
    from pyspark.sql import functions as f

    error = f.col(names.ERROR)
    rows = [(*run, text) for text, found in runs.items() for run in found]
    # Each offset on its own, so that the join looks it up: runs would be tried one by one.
    offsets = decoded.sparkSession.createDataFrame(rows, _RUN_COLUMNS).select(
        names.TOPIC,
        names.PARTITION,
        f.explode(f.sequence("_first", f.col("_end") - 1)).alias(names.OFFSET),
        "_why",
    )
    found = decoded.join(f.broadcast(offsets), [names.TOPIC, names.PARTITION, names.OFFSET], "left")
    is_dead = f.col("_why").isNotNull()
    columns: dict[str, Any] = {one: f.col(one) for one in decoded.columns}
    columns[names.ERROR] = f.when(is_dead, f.coalesce(error, "_why")).otherwise(otherwise)
    columns[names.ROW] = f.when(~is_dead, f.col(names.ROW))
    return found.select(*(column.alias(name) for name, column in columns.items()))
