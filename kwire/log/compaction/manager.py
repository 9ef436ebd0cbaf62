"""Chooses the log that is compacted next, and knows the running cleans and the first dirty offsets.

Rules:

- A clean is one pass of compaction over one log. Of the logs that are worth a clean, the dirtiest
  comes first. A log has only one clean at a time.
- A log whose records are damaged can't be cleaned: it is marked, reported, and skipped until the
  next start, while other logs are cleaned. After a disk error the clean is repeated in one minute,
  then in two, four and so on, because a clean needs room on the disk before it frees some.
- The first dirty offsets are kept in ``cleaner-offset-checkpoint`` of each data directory. They are
  hints: an offset that is too low only costs time, an impossible one is reset.

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
    """The settings of one cleaner; sizes are bytes.

    They are the cleaner's share of the broker's ``log.cleaner.*`` settings, and the limits of
    batches.
    """

    map_bytes: int = 128 * 1024 * 1024
    map_load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024
    max_bytes_per_second: float = float("inf")
    max_decompressed_bytes: int = FULL_LIMITS.max_bytes
    max_decompressed_records: int = FULL_LIMITS.max_records


@dataclass(slots=True)
class CompactionMetrics:
    """The work that compaction has done and still has to do, under the names of Kafka's metrics."""

    max_dirty_percent: int = 0
    max_compaction_delay_ms: int = 0
    last_run_ms: int = -1
    cleans: int = 0
    last: CompactionStatistics = field(default_factory=CompactionStatistics)
    total: CompactionStatistics = field(default_factory=CompactionStatistics)


class Failure(NamedTuple):
    """Why a clean failed.

    ``is_damaged`` means that another attempt would fail too. ``error_number`` is the errno of a
    disk error, else 0.
    """

    reason: str
    is_damaged: bool = False
    error_number: int = 0


class Clean:
    """A running clean: its log, the segments at its start, and its job."""

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
        self.in_progress: set[PartitionLog] = set()
        self._failures: dict[PartitionLog, tuple[int, int]] = {}
        for directory in directories:
            with suppress(OSError):  # the directory is offline
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
        """Start a clean of the dirtiest log; None if no log is worth one.

        ``stable_offset`` gives a partition's last stable offset, None if the partition isn't
        served. The caller has to call ``finish`` or ``give_up`` in the end. ``now_ms`` is compared
        with the timestamps of records; pauses after a failure are measured by ``steady_ms``.
        """
        self.metrics.last_run_ms = now_ms
        parts = list(self._parts(stable_offset, now_ms, steady_ms))
        dirtiest = max((part.dirty_ratio for part in parts), default=0.0)
        self.metrics.max_dirty_percent = int(100 * dirtiest)
        self.metrics.max_compaction_delay_ms = max((part.overdue_ms for part in parts), default=0)
        worth_it = [part for part in parts if part.is_worth_it]
        if not worth_it:
            return None
        assert not self.in_progress.intersection(part.log for part in parts)  # one clean of a log
        clean = self._clean(max(worth_it, key=lambda part: part.dirty_ratio), settings, now_ms)
        self.in_progress.add(clean.log)
        return clean

    def _parts(
        self, stable_offset: Callable[[TopicPartition], int | None], now_ms: int, steady_ms: int
    ) -> list[LogToClean]:
        """Every log that may be cleaned, with its cleanable part."""
        alive = set(self._logs.values())
        self._failures = {key: value for key, value in self._failures.items() if key in alive}
        self.uncleanable = {
            key: marked for key, marked in self.uncleanable.items() if self._logs.get(key) is marked
        }
        parts = []
        for key, found in list(self._logs.items()):  # a copy: threads create and delete logs
            if not found.config.compact or len(found.segments) == 1 or found.is_offline:
                continue
            if found in self.in_progress or key in self.uncleanable:
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
        """Whether the log of a clean has the same segments as when the clean started.

        A truncation, a deletion or a failed disk makes this False.
        """
        return self.is_there(clean) and are_in_log(clean.log, list(clean.segments.values()))

    def is_there(self, clean: Clean) -> bool:
        """Whether the log was neither deleted nor truncated since the clean started."""
        name = (clean.log.topic, clean.log.partition)
        return self._logs.get(name) is clean.log and clean.log.truncations == clean.truncations

    def replaced_by(self, clean: Clean, group: CleanedGroup) -> list[LogSegment] | None:
        """The segments that a cleaned one replaces; None if the log was deleted or truncated.

        Empty if retention has deleted all of them; the cleaned segment is then removed.
        """
        if not self.is_there(clean):
            return None
        old = [clean.segments.pop(base_offset) for base_offset in group.replaced]
        if old[-1].base_offset < clean.log.segments[0].base_offset:
            discard_cleaned(clean.log, group.base_offset, self._disk)
            return []
        return old

    def swap(self, clean: Clean, group: CleanedGroup, steady_ms: int) -> bool:
        """Put a cleaned segment in its place; False if the log has changed.

        Raises OSError and KafkaError as ``replace_segments`` does. The caller has to sync the log's
        directory before ``finish``.
        """
        old = self.replaced_by(clean, group)
        if old is None:
            return False
        return not old or replace_segments(clean.log, old, group, steady_ms, self._disk)

    def finish(self, clean: Clean, result: CompactionResult) -> None:
        """Record a finished clean; the caller has to write the checkpoint afterwards."""
        self.in_progress.discard(clean.log)
        statistics = result.statistics
        self._failures.pop(clean.log, None)
        self.metrics.cleans += 1
        self.metrics.last = statistics
        self.metrics.total.add(statistics)
        if self.is_there(clean):
            assert clean.part.first_dirty_offset <= result.end_offset <= clean.log.log_end_offset
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
        """Record a failed clean that has stopped."""
        self.in_progress.discard(clean.log)
        name, reason = clean.log.name, failure.reason
        if not self.is_current(clean):
            log.info("%s: gave up compacting it because it has changed: %s", name, reason)
        elif failure.is_damaged:
            self.uncleanable[clean.log.topic, clean.log.partition] = clean.log
            log.error("%s can't be compacted and is skipped: %s", name, reason)
        else:
            failures = self._failures.get(clean.log, (0, 0))[0] + 1
            wait_ms = min(FIRST_RETRY_MS << (failures - 1), LAST_RETRY_MS)
            self._failures[clean.log] = (failures, steady_ms + wait_ms)
            log.warning("%s: compacting it failed and will be repeated: %s", name, reason)
            if failure.error_number not in (0, errno.ENOENT):
                error = OSError(failure.error_number, os.strerror(failure.error_number))
                clean.log.health.refused(f"cannot compact {name}", error)
        discard_all_cleaned(clean.log, self._disk)

    def write_checkpoints(self) -> None:
        """Write the first dirty offset of every log; may be called in a thread."""
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
        """Size of the logs that are marked as uncleanable."""
        return sum(marked.size_bytes for marked in self.uncleanable.values())
