"""Offsets without a record: whether compaction has removed the records, or they are lost.

A log that was never compacted has a record for every offset. In the part of a log that was
compacted, offsets may be missing. Above that part, a missing offset is a lost record. These signs
show how far compaction has come:

- ``cleaner-offset-checkpoint`` beside the partitions names the offset up to which a log is clean.
- While a log is being compacted, the checkpoint is older than the segments. Then the replaced
  segments are still there as ``N.log.deleted``, or their replacement as ``N.log.swap``.
- The copy of a log, and a follower that fetched a compacted log, have no checkpoint. There the
  batches show it: a batch with fewer records than offsets was compacted, and so was everything
  before that batch.

Source: LogCleanerManager.doneCleaning, Cleaner.cleanSegments, LocalLog.replaceSegments of Kafka.
"""

from contextlib import suppress
from typing import Any

import numpy as np

from kwire.log.checkpoints import CLEANER_OFFSETS, read_offsets
from kwire.log.read_only_disk import ReadOnlyDisk
from kwire.spark.segments.batches import Block, blocks
from kwire.spark.segments.errors import CorruptSegment
from kwire.spark.segments.files import list_segments, open_at, replaced_bases
from kwire.spark.segments.partitions import Partition

_END_OF_TIME = 0x7FFF_FFFF_FFFF_FFFF


def gap_of(block: Block, offset: int, end: int) -> tuple[int, int] | None:
    """The last gap between a block's batches: its first offset, and the offset after it.

    Only offsets from ``offset`` on and before ``end`` count. If the last gap comes from compaction,
    so do all earlier ones. Callers therefore needn't look at these.
    """
    bases = block.headers["base_offset"].astype(np.int64)
    expected = np.maximum.accumulate(np.append(offset, block.last_offsets()[:-1] + 1))
    gaps = np.flatnonzero((bases > expected) & (expected < end))
    if not gaps.size:
        return None
    last = int(gaps[-1])
    return int(expected[last]), min(int(bases[last]), end)


class Compaction:
    """How far compaction has come in a partition's log; found out at the first gap."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._reached = 0

    def reached(self, end: int) -> bool:
        """Whether the log is compacted up to ``end``, so that offsets before it may be missing."""
        if end > self._reached:
            self._reached = max(self._checkpoint(), self._replaced())
        if end > self._reached:
            self._reached = max(self._remnant(end), self._reached)
        return end <= self._reached

    def _checkpoint(self) -> int:
        part = self._partition
        found = read_offsets(part.directory.parent / CLEANER_OFFSETS, ReadOnlyDisk())
        return found.get((part.topic, part.number), 0)

    def _replaced(self) -> int:
        """The end of the last segment that a compaction is replacing now, or has just replaced."""
        directory = self._partition.directory
        bases = list_segments(directory).bases
        # Segments before the first one were removed by retention, not by compaction.
        replaced = [base for base in replaced_bases(directory) if bases and base >= bases[0]]
        return min((base for base in bases if replaced and base > replaced[-1]), default=0)

    def _remnant(self, offset: int) -> int:
        """The base offset of the first batch that lacks records, in the segment from ``offset`` on.

        0 if no batch lacks records.
        """
        segment = open_at(self._partition.directory, offset)
        if segment is None:
            return 0
        # Batches after the error are damaged or still being written, so they show nothing.
        with segment, suppress(CorruptSegment):
            for block in blocks(segment, segment.position_before(offset), _END_OF_TIME):
                bases: Any = block.headers["base_offset"]
                lacks = block.headers["count"] < block.headers["last_offset_delta"] + 1
                found = np.flatnonzero(lacks & (bases >= offset))
                if found.size:
                    return int(bases[found[0]])
        return 0
