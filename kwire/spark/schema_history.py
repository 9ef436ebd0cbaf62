"""How the columns of a pipeline's rows have changed, and at which offsets.

Rules:

- An entry is written before the first batch with new columns or types is. A kill between the two
  leaves an entry whose batch then runs with its number; the same columns are no change again.
- Entries are only added, to a file that is replaced as a whole. There is one for each change: a
  column that is new, or that has a type which it never had. Columns that rows don't have any more
  stay, as in the table. So batches of several topics that take turns add nothing.
- Columns have the names of the rows, which the table may map. The record's own (``_topic``, …)
  aren't noted, nor is what ``replay`` adds.

The file ``schemas.jsonl`` beside the checkpoints has a JSON object in each line: ``at`` (seconds
since 1970), ``query`` and ``batch`` (as in ``Batch``), ``offsets`` (the first ones of the batch, by
topic and partition), ``schema_ids`` (of the registry, by topic), ``added`` (types by column) and
``changed`` (the types before and after, by column). Types are Spark's JSON.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kwire.spark.batch import Batch
from kwire.spark.decode.spark_types import (
    SparkType,
    array,
    field,
    kind_of,
    loosened,
    map_of,
    struct,
)
from kwire.spark.rows import METADATA
from kwire.spark.storage import Storage

FILE = "schemas.jsonl"

SchemaIds = Callable[[Iterable[str]], Mapping[str, int]]
"""The registry's ids of the schemas that the columns of topics come from."""


def read_history(storage: Storage) -> list[dict[str, Any]]:
    """The entries, oldest first."""
    content = storage.read(FILE) or b""
    return [json.loads(line) for line in content.decode().splitlines()]


class SchemaHistory:
    """The history of one pipeline; the file in ``storage`` is read once."""

    def __init__(
        self, storage: Storage, schema_ids: SchemaIds, now_s: Callable[[], float] = time.time
    ) -> None:
        self._storage = storage
        self._schema_ids = schema_ids
        self._now_s = now_s
        self._lines = (storage.read(FILE) or b"").decode()
        self._types: dict[str, list[SparkType]] = {}
        """The types that each column has had, the present one last."""
        for entry in read_history(storage):
            self._record_types(entry["added"], entry["changed"])

    def note(self, columns: Mapping[str, Any], batch: Batch) -> None:
        """Note what is new in the columns of a batch's rows, a struct of Spark's JSON."""
        added: dict[str, SparkType] = {}
        changed: dict[str, tuple[SparkType, SparkType]] = {}
        for one in columns["fields"]:
            name, of = one["name"], loosened(one["type"])
            if name in METADATA:
                continue
            known = self._types.get(name)
            if known is None:
                added[name] = of
                continue
            whole = _grown(known[-1], of)
            if whole not in known:
                changed[name] = (known[-1], whole)
        if not added and not changed:
            return
        topics = sorted({one.topic for one in batch.ranges})
        offsets: dict[str, dict[str, int]] = {one: {} for one in topics}
        for one in batch.ranges:
            offsets[one.topic][str(one.partition)] = one.first
        entry = {
            "at": round(self._now_s(), 3),
            "query": batch.query_id,
            "batch": batch.batch_id,
            "offsets": offsets,
            "schema_ids": dict(self._schema_ids(topics)),
            "added": added,
            "changed": changed,
        }
        lines = f"{self._lines}{json.dumps(entry)}\n"
        self._storage.write(FILE, lines.encode())
        self._lines = lines
        self._record_types(added, changed)

    def _record_types(self, added: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        self._types |= {name: [of] for name, of in added.items()}
        for name, (_, of) in changed.items():
            self._types[name].append(of)


def _grown(known: SparkType, spark_type: SparkType) -> SparkType:
    """The newer type of a column, after the fields that its structs have had before."""
    if (
        isinstance(known, str)
        or isinstance(spark_type, str)
        or kind_of(known) != kind_of(spark_type)
    ):
        return spark_type
    if kind_of(spark_type) == "array":
        return array(_grown(known["elementType"], spark_type["elementType"]))
    if kind_of(spark_type) == "map":
        return map_of(spark_type["keyType"], _grown(known["valueType"], spark_type["valueType"]))
    if kind_of(spark_type) != "struct":
        return spark_type
    types = {one["name"]: one["type"] for one in spark_type["fields"]}
    before = {one["name"]: one["type"] for one in known["fields"]}
    kept = {name: _grown(one, types.get(name, one)) for name, one in before.items()}
    return struct([field(name, one) for name, one in ({**kept, **types} | kept).items()])
