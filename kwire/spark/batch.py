"""Which offsets a batch of a pipeline covers.

Spark writes the offsets of a batch to its checkpoint before the batch runs, and uses the same ones
when it has to run the batch again. So a batch's ranges are a fact that sinks may build names and
transaction ids from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class OffsetRange:
    """The offsets ``first`` to ``end - 1`` of a partition.

    Not every offset is a row: transaction markers, aborted records and records that compaction has
    removed leave gaps.

    ``incarnation`` counts how often the topic was created again while the pipeline read it. The
    same offsets of two incarnations are different records.
    """

    topic: str
    partition: int
    first: int
    end: int
    incarnation: int = 0

    @property
    def size(self) -> int:
        """How many offsets there are."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch, as sinks see it.

    ``query_id`` is the id of Spark's checkpoint: it stays the same over restarts, and a new
    checkpoint has a new one. ``batch_id`` counts from 0 within it. A batch may be given to a sink
    again after a failure, with the same ids and ranges: then the first attempt may have written
    everything, something or nothing.

    ``topic_ids`` has the cluster's id of each topic: dead letters keep it, because they outlive the
    topic, and the checkpoint that counts incarnations.

    ``incomplete`` are ranges of which the broker had no longer all records when the batch began. If
    it runs again, an earlier attempt may have written more of them.
    """

    pipeline: str
    query_id: str
    batch_id: int
    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict, hash=False)
    incomplete: frozenset[OffsetRange] = frozenset()
