"""The offsets that a batch of a pipeline covers.

Spark writes the offsets of a batch to its checkpoint before the batch runs, and uses the same
offsets if it has to run the batch again. So sinks may make names and transaction ids from a batch's
ranges.
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
    checkpoint has a new one. ``batch_id`` counts from 0 within it. After a failure, a sink may get
    a batch again, with the same ids and ranges. Then the first attempt may have written all, some
    or none of the rows.

    ``topic_ids`` has the cluster's id of each topic: dead letters keep it, because they outlive the
    topic, and the checkpoint that counts incarnations.

    ``incomplete`` has the ranges of which the broker no longer had all records when the batch
    began. If the batch runs again, an earlier attempt may have written more of these records.
    """

    pipeline: str
    query_id: str
    batch_id: int
    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict, hash=False)
    incomplete: frozenset[OffsetRange] = frozenset()
