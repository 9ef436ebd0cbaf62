"""What is compacted next, what is under way, and how far every log is clean.

Rules:

- The dirtiest of the logs that are worth it comes first; a log is cleaned by one at a time.
- A log that can't be cleaned (its records are damaged) is marked, reported, and left alone until
  the next start; the others go on. What the disk refuses is tried again after a minute, then after
  two, and so on: a clean takes room before it gives some back.
- The first dirty offsets are kept in ``cleaner-offset-checkpoint`` of each data directory. They are
  a hint: one that is too low costs time, one that can't be right is put back.

Source: LogCleanerManager of Kafka.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kwire.log.checkpoints import CLEANER_OFFSETS, TopicPartition, read_offsets, write_offsets
from kwire.log.compaction.job import (
    ActiveProducer,
    CleanedGroup,
    CompactionJob,
    CompactionResult,
    CompactionStatistics,
    SourceSegment,
)
from kwire.log.compaction.plan import LogToClean, log_to_clean
from kwire.log.compaction.swap import (
    are_in_log,
    discard_all_cleaned,
    discard_cleaned,
    replace_segments,
)
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.log.validation import FULL_LIMITS, limits_of

log = logging.getLogger(__name__)

FIRST_RETRY_MS = 60_000
LAST_RETRY_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The broker's settings of one cleaner: its share of ``log.cleaner.*``, and the limits of
    batches; sizes are bytes."""

    map_bytes: int = 128 * 1024 * 1024
    map_load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024
    max_bytes_per_second: float = float("inf")
    max_decompressed_bytes: int = FULL_LIMITS.max_bytes
    max_decompressed_records: int = FULL_LIMITS.max_records


@dataclass(slots=True)
class CompactionMetrics:
    """What compaction has done and what there is to do; the names are those of Kafka's metrics."""

    max_dirty_percent: int = 0
    max_compaction_delay_ms: int = 0
    last_run_ms: int = -1
    cleans: int = 0
    last: CompactionStatistics = field(default_factory=CompactionStatistics)
    total: CompactionStatistics = field(default_factory=CompactionStatistics)


class Failure(NamedTuple):
    """Why a clean came to nothing.

    With ``is_damaged`` another one would as well. ``error_number`` is the disk's, 0 without one.
    """

    reason: str
    is_damaged: bool = False
    error_number: int = 0


class Clean:
    """A clean that is under way: the log, the segments as they were, and the job."""

    def __init__(self, part: LogToClean, job: CompactionJob, segments: list[LogSegment]) -> None:
        self.part = part
        self.log = part.log
        self.job = job
        self.truncations = part.log.truncations
        self.segments = {segment.base_offset: segment for segment in segments}


class CompactionManager:
    """The compaction of the logs of one broker, ``logs``."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, PartitionLog],
        directories: Sequence[Path],
        disk: Disk,
    ) -> None:
        self.metrics = CompactionMetrics()
        self.uncleanable: dict[TopicPartition, PartitionLog] = {}
        self._logs = logs
        self._directories = list(directories)
        self._disk = disk
        self._in_progress: set[PartitionLog] = set()
        self._failures: dict[PartitionLog, tuple[int, int]] = {}
        for directory in directories:
            with suppress(OSError):  # a directory that is offline
                self._read_checkpoint(directory)

    def _read_checkpoint(self, directory: Path) -> None:
        for key, offset in read_offsets(directory / CLEANER_OFFSETS, self._disk).items():
            found = self._logs.get(key)
            if found is not None and found.directory.parent == directory:
                found.first_dirty_offset = offset

    def next_clean(
        self,
        stable_offset: Callable[[TopicPartition], int | None],
        settings: CompactionSettings,
        now_ms: int,
        steady_ms: int,
    ) -> Clean | None:
        """Begin with the dirtiest log; None where no log is worth it.

        ``stable_offset`` tells a partition's last stable offset, None for one that isn't served.
        Whoever asks says ``finish`` or ``give_up`` in the end. ``now_ms`` is compared with the
        timestamps of records, pauses after a failure go by ``steady_ms``.
        """
        self.metrics.last_run_ms = now_ms
        parts = list(self._parts(stable_offset, now_ms, steady_ms))
        dirtiest = max((part.dirty_ratio for part in parts), default=0.0)
        self.metrics.max_dirty_percent = int(100 * dirtiest)
        self.metrics.max_compaction_delay_ms = max((part.overdue_ms for part in parts), default=0)
        worth_it = [part for part in parts if part.is_worth_it]
        if not worth_it:
            return None
        clean = self._clean(max(worth_it, key=lambda part: part.dirty_ratio), settings, now_ms)
        self._in_progress.add(clean.log)
        return clean

    def _parts(
        self, stable_offset: Callable[[TopicPartition], int | None], now_ms: int, steady_ms: int
    ) -> list[LogToClean]:
        """The parts of every log that may be cleaned."""
        alive = set(self._logs.values())
        self._failures = {key: value for key, value in self._failures.items() if key in alive}
        self.uncleanable = {
            key: marked for key, marked in self.uncleanable.items() if self._logs.get(key) is marked
        }
        parts = []
        for key, found in list(self._logs.items()):  # threads make and delete logs
            if not found.config.compact or len(found.segments) == 1 or found.is_offline:
                continue
            if found in self._in_progress or key in self.uncleanable:
                continue
            if self._failures.get(found, (0, steady_ms))[1] > steady_ms:
                continue
            stable = stable_offset(key)
            if stable is not None:
                parts.append(log_to_clean(found, stable, now_ms))
        return parts

    def _clean(self, part: LogToClean, settings: CompactionSettings, now_ms: int) -> Clean:
        opened = part.log
        config = opened.config
        bases = [segment.base_offset for segment in opened.segments]
        segments = [s for s in opened.segments if s.base_offset < part.first_uncleanable_offset]
        job = CompactionJob(
            name=opened.name,
            directory=str(opened.directory),
            segments=tuple(
                SourceSegment(s.base_offset, end, s.size_bytes, self._modified_ms(s, now_ms))
                for s, end in zip(segments, bases[1:], strict=False)
            ),
            first_dirty_offset=part.first_dirty_offset,
            first_uncleanable_offset=part.first_uncleanable_offset,
            producers=tuple(
                ActiveProducer(
                    entry.producer_id,
                    entry.last_offset,
                    entry.producer_epoch,
                )
                for entry in opened.producers.producers.values()
            ),
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            buffer_bytes=settings.buffer_bytes,
            map_bytes=settings.map_bytes,
            map_load_factor=settings.map_load_factor,
            max_bytes_per_second=settings.max_bytes_per_second,
            limits=limits_of(
                config, settings.max_decompressed_bytes, settings.max_decompressed_records
            ),
        )
        return Clean(part, job, segments)

    def _modified_ms(self, segment: LogSegment, now_ms: int) -> int:
        try:
            return self._disk.modified_ms(segment.path(".log"))
        except OSError:
            return now_ms

    def is_current(self, clean: Clean) -> bool:
        """Whether the log of a clean is still what it was when the clean began.

        It is no longer after a truncation, a deletion, or when a disk failed.
        """
        return self._is_there(clean) and are_in_log(clean.log, list(clean.segments.values()))

    def _is_there(self, clean: Clean) -> bool:
        """Whether the log wasn't deleted or cut meanwhile."""
        name = (clean.log.topic, clean.log.partition)
        return self._logs.get(name) is clean.log and clean.log.truncations == clean.truncations

    def replaced_by(self, clean: Clean, group: CleanedGroup) -> list[LogSegment] | None:
        """The segments that a cleaned one is made of; None where the log is no longer what it was.

        None are left where retention has deleted them all; then nobody wants the cleaned one.
        """
        if not self._is_there(clean):
            return None
        old = [clean.segments.pop(base_offset) for base_offset in group.replaced]
        if old[-1].base_offset < clean.log.segments[0].base_offset:
            discard_cleaned(clean.log, group.base_offset, self._disk)
            return []
        return old

    def swap(self, clean: Clean, group: CleanedGroup, steady_ms: int) -> bool:
        """Put a cleaned segment in its place; False where the log is no longer what it was.

        Raises OSError and KafkaError as ``replace_segments``. The log's directory has to be synced
        before ``finish``.
        """
        old = self.replaced_by(clean, group)
        if old is None:
            return False
        return not old or replace_segments(clean.log, old, group, steady_ms, self._disk)

    def finish(self, clean: Clean, result: CompactionResult) -> None:
        """A clean is done; the checkpoint has to be written."""
        self._in_progress.discard(clean.log)
        statistics = result.statistics
        self._failures.pop(clean.log, None)
        self.metrics.cleans += 1
        self.metrics.last = statistics
        self.metrics.total.add(statistics)
        if self._is_there(clean):
            clean.log.first_dirty_offset = result.end_offset
        log.info(
            "%s: compacted offsets %d to %d (%.0f%% dirty): %s",
            clean.log.name,
            clean.part.first_dirty_offset,
            result.end_offset,
            100 * clean.part.dirty_ratio,
            statistics.text(),
        )
        if statistics.invalid_messages_read:
            log.warning(
                "%s: removed %d records without a key",
                clean.log.name,
                statistics.invalid_messages_read,
            )

    def give_up(self, clean: Clean, failure: Failure, steady_ms: int) -> None:
        """A clean came to nothing, and nobody is at it any more."""
        self._in_progress.discard(clean.log)
        name, reason = clean.log.name, failure.reason
        if not self.is_current(clean):
            log.info("%s: gave up compacting it, for it has changed: %s", name, reason)
        elif failure.is_damaged:
            self.uncleanable[clean.log.topic, clean.log.partition] = clean.log
            log.error("%s can't be compacted and is left alone: %s", name, reason)
        else:
            failures = self._failures.get(clean.log, (0, 0))[0] + 1
            wait_ms = min(FIRST_RETRY_MS << (failures - 1), LAST_RETRY_MS)
            self._failures[clean.log] = (failures, steady_ms + wait_ms)
            log.warning("%s: compacting it failed, to be tried again: %s", name, reason)
            if failure.error_number not in (0, errno.ENOENT):
                error = OSError(failure.error_number, os.strerror(failure.error_number))
                clean.log.health.refused(f"cannot compact {name}", error)
        discard_all_cleaned(clean.log, self._disk)

    def write_checkpoints(self) -> None:
        """Write how far every log is clean; may be called in a thread."""
        everything = dict(self._logs)
        for directory in self._directories:
            logs = {k: v for k, v in everything.items() if v.directory.parent == directory}
            if any(opened.is_offline for opened in logs.values()):
                continue
            offsets = {
                key: opened.first_dirty_offset
                for key, opened in logs.items()
                if opened.first_dirty_offset > 0
            }
            try:
                write_offsets(directory / CLEANER_OFFSETS, offsets, self._disk)
            except OSError as error:
                log.error("cannot write the checkpoint of compaction in %s: %s", directory, error)

    def uncleanable_bytes(self) -> int:
        """Bytes of the logs that are left alone."""
        return sum(marked.size_bytes for marked in self.uncleanable.values())
