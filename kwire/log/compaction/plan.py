"""Which part of a log can be compacted now, and how urgent that is.

Rules:

- A log is clean up to its first dirty offset. It can be cleaned from there up to the first segment
  that is active, that holds the last stable offset, or whose newest record is younger than
  ``min.compaction.lag.ms``.
- A clean is worth it if the dirty part is more than ``min.cleanable.dirty.ratio`` of the log up to
  the end of that part, or if its oldest record is older than ``max.compaction.lag.ms``.
- An impossible first dirty offset (the log was cut at its start or end) is reset to the log start
  offset.

Source: LogToClean, LogCleanerManager.cleanableOffsets of Kafka; KIP-58, KIP-354.
"""

import logging
from dataclasses import dataclass

from kwire.log.log_config import NO_LIMIT
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log and its three parts: clean, cleanable, and not cleanable yet.

    ``first_uncleanable_offset`` is a base offset. ``overdue_ms`` is the time by which the log is
    past ``max.compaction.lag.ms``.
    """

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int

    @property
    def total_bytes(self) -> int:
        """Size of the clean and the cleanable part."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """The share of the cleanable part in both parts, from 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_worth_it(self) -> bool:
        """Whether the log should be cleaned now."""
        if not self.cleanable_bytes:
            return False
        return self.overdue_ms > 0 or (self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio)


def log_to_clean(partition_log: PartitionLog, stable_offset: int, now_ms: int) -> LogToClean:
    """Split a log into its parts; only records before ``stable_offset`` may be cleaned."""
    first_dirty = _first_dirty_offset(partition_log)
    inactive = _inactive_from(partition_log, first_dirty)
    lag_ms = partition_log.config.min_compaction_lag_ms
    uncleanable = min(stable_offset, partition_log.active.base_offset)
    if lag_ms > 0:
        young = (s.base_offset for s in inactive if s.newest_timestamp() > now_ms - lag_ms)
        uncleanable = min(uncleanable, next(young, uncleanable))
    uncleanable = max(first_dirty, uncleanable)
    inactive_after = _inactive_from(partition_log, uncleanable)
    end = inactive_after[0].base_offset if inactive_after else partition_log.active.base_offset
    dirty_from = min(first_dirty, end)
    clean_bytes = cleanable_bytes = 0
    segments = partition_log.segments
    first_dirty_index = segments.index_of(dirty_from)
    for index, segment in enumerate(segments):
        if segment.base_offset < first_dirty:
            clean_bytes += segment.size_bytes
        if index >= first_dirty_index and segment.base_offset < end:
            cleanable_bytes += segment.size_bytes
    return LogToClean(
        partition_log,
        first_dirty,
        end,
        clean_bytes,
        cleanable_bytes,
        _overdue_ms(partition_log, inactive, now_ms),
    )


def _first_dirty_offset(partition_log: PartitionLog) -> int:
    """The log's first dirty offset, reset if it is impossible."""
    known = partition_log.first_dirty_offset
    start_offset = partition_log.log_start_offset
    if start_offset <= known <= partition_log.log_end_offset:
        return known
    config = partition_log.config
    if known > start_offset or (known and not config.delete):
        log.warning(
            "%s: the first dirty offset %d is not within %d and %d; all of the log is dirty",
            partition_log.name,
            known,
            start_offset,
            partition_log.log_end_offset,
        )
    partition_log.first_dirty_offset = start_offset
    return start_offset


def _inactive_from(partition_log: PartitionLog, offset: int) -> list[LogSegment]:
    """The segments from the one that holds ``offset`` on, without the active one."""
    segments = partition_log.segments
    return segments[segments.index_of(offset) : -1]


def _overdue_ms(partition_log: PartitionLog, dirty: list[LogSegment], now_ms: int) -> int:
    """The time by which the oldest segment is past ``max.compaction.lag.ms``; 0 if it isn't."""
    lag_ms = partition_log.config.max_compaction_lag_ms
    if lag_ms >= NO_LIMIT:
        return 0
    timestamps = [timestamp for s in dirty if (timestamp := s.first_timestamp()) > 0]
    return max(0, now_ms - lag_ms - min(timestamps)) if timestamps else 0
