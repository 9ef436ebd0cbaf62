"""What is decided of a batch before its rows are written, and kept for the case that it runs again.

A table that has taken a batch doesn't take it again. If the run is killed before the batch's dead
letters are written, and the next run decided otherwise which records are dead letters, a record
would get lost (neither a row nor a dead letter), or be there twice. The decision may change with
the schema, ``tombstones``, ``partition_by`` and the table's own types.

Rules:

- What was decided is in ``decode.json`` beside the checkpoints before the sink writes.
- If the batch runs again and the sink has rows of it, the same is decided once more: with the
  schema and the settings of then.
- If the sink has none of it, nothing of the batch is anywhere, because dead letters are written
  after the rows. Then it is decided anew: a corrected schema helps a batch that has failed.
- Files whose ranges are noted are rows of the batch, too: its dead letters may be there, and a
  table of these takes a batch once. Files that aren't noted yet are replaced as a whole.
- Only the newest batch is kept, because Spark runs no other batch again.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kwire.spark import partition_values
from kwire.spark.batch import Batch
from kwire.spark.settings import PipelineSettings, SinkSettings
from kwire.spark.sinks.misfits import Misfit, fitting
from kwire.spark.split import Runs, with_dead
from kwire.spark.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kwire.spark.decode.decoding import Decoding

FILE = "decode.json"


@dataclass(frozen=True, slots=True)
class Decided:
    """What makes records of a batch dead letters."""

    tombstones: str
    way: dict[str, Any] | None = None
    """How values are decoded (``resolved_decoding``); None if ``split`` knows which can't be."""
    sink: SinkSettings | None = None
    """The table whose partitions can't keep every value; only what that depends on."""
    misfits: tuple[Misfit, ...] = ()
    """The columns that have other types than the table."""
    dead: dict[str, Runs] = field(default_factory=dict)
    """With transforms, instead: the records whose rows the table can't keep, by reason."""

    def checked(self, decode: "Decoding") -> "Decoding":
        """The decoding, with an error for each record that the table can't keep.

        Tombstones aren't among them yet (``tombstones.treated``).
        """
        if self.sink is not None:
            decode = partition_values.checked(decode, self.sink)
        if self.misfits:
            decode = fitting(decode, list(self.misfits))
        if not self.dead:
            return decode
        found = decode

        def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
            return with_dead(found(given, has_reasons), self.dead)

        return decoded


class Begun:
    """What was decided of the newest batch; the file is in ``storage``."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def of(self, batch: Batch) -> Decided | None:
        """What an earlier attempt has decided of a batch; None if there was none."""
        content = self._storage.read(FILE)
        found: dict[str, Any] = json.loads(content) if content else {}
        if (found.get("query_id"), found.get("batch_id")) != (batch.query_id, batch.batch_id):
            return None
        kept = found.get("decided")
        return None if kept is None else _from_json(kept)

    def keep(self, batch: Batch, decided: Decided) -> None:
        """Keep what was decided, before the sink writes."""
        row = {"query_id": batch.query_id, "batch_id": batch.batch_id, "decided": _json(decided)}
        self._storage.write(FILE, json.dumps(row).encode())


def needs_begun(settings: PipelineSettings) -> bool:
    """Whether a record may get lost when a batch runs again with other settings."""
    return settings.dead_letters is not None


def _json(decided: Decided) -> dict[str, Any]:
    misfits = [
        {
            "name": one.name,
            "has": one.has.jsonValue(),
            "wanted": None if one.wanted is None else one.wanted.jsonValue(),
            "refused": one.refused,
        }
        for one in decided.misfits
    ]
    sink = None if decided.sink is None else asdict(decided.sink)
    kept = {"tombstones": decided.tombstones, "way": decided.way, "dead": decided.dead}
    return {**kept, "sink": sink, "misfits": misfits}


def _from_json(kept: dict[str, Any]) -> Decided:
    runs = {why: [tuple(one) for one in found] for why, found in kept["dead"].items()}
    misfits = tuple(
        Misfit(one["name"], _type(one["has"]), _type(one["wanted"]), one["refused"])
        for one in kept["misfits"]
    )
    sink = None if kept["sink"] is None else SinkSettings(**kept["sink"])
    return Decided(kept["tombstones"], kept["way"], sink, misfits, runs)


def _type(given: Any) -> Any:
    from pyspark.sql.types import StructField

    if given is None:
        return None
    one = {"name": "one", "type": given, "nullable": True, "metadata": {}}
    return StructField.fromJson(one).dataType
