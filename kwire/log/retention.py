"""Retention: deleting old segments, and later the files of deleted segments.

Rules:

- A segment is deleted when it lies wholly before the log start offset. If ``cleanup.policy`` has
  ``delete``, it is also deleted when its newest record is older than ``retention.ms``, or when the
  log without it is still at least ``retention.bytes`` large. Records beyond the high watermark are
  never deleted. Of a log that isn't served, because the disk was full for instance, the high
  watermark is what an earlier process knew, 0 if that is nothing.
- The event loop deletes one segment at a time, and other tasks have their turns in between.
- A thread removes the producer snapshots that no segment needs any more, with the deleted files.
- Files are renamed at once and removed after ``file.delete.delay.ms`` on the steady clock. The age
  of a record is measured by the wall clock (``now_ms``), because timestamps are dates.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshot import snapshot_offsets, snapshot_path

_log = logging.getLogger(__name__)


class Clocks(NamedTuple):
    """The date, the steady clock, and ``Clock.ages``: how long ago dates were; all in ms.

    Retention asks the first two for each segment and the last one for each log: it may take
    minutes, and the date may be set meanwhile, because others work in between.
    """

    now_ms: Callable[[], int]
    steady_ms: Callable[[], int]
    ages: Callable[[], Callable[[int], int]]


LOGS_AT_ONCE = 64
PRODUCERS_AT_ONCE = 1000
"""So many logs, or producers of logs, are looked at in one turn; each takes a microsecond or so."""


def apply_retention(
    logs: Mapping[TopicPartition, PartitionLog],
    clocks: Clocks,
    high_watermark: Callable[[TopicPartition], int],
    disk: Disk,
) -> Iterator[int]:
    """Delete old segments of all logs, and forget producers that no longer write.

    It never waits for the disk. It yields 1 after each deleted segment, and 0 now and then in
    between, so that other tasks have their turns. ``high_watermark`` gives that of a partition.
    """
    looks = LOGS_AT_ONCE
    for key, opened in list(logs.items()):
        producers_count = len(opened.producers.producers)
        looks += 1 + LOGS_AT_ONCE * producers_count // PRODUCERS_AT_ONCE
        if looks > LOGS_AT_ONCE:
            looks = 0
            yield 0
        if not _may_delete(opened):
            continue
        try:
            for _ in delete_old_segments(opened, clocks, partial(high_watermark, key), disk):
                yield 1
            opened.producers.expire(clocks.ages(), opened.config.producer_id_expiration_ms)
        except OSError as error:
            opened.health.refused(f"cannot delete old segments of {opened.name}", error)
        except KafkaError as error:
            _log.error("housekeeping of %s failed: %s", opened.name, error)


def delete_old_segments(
    log: PartitionLog, clocks: Clocks, high_watermark: Callable[[], int], disk: Disk
) -> Iterator[None]:
    """Delete the segments past retention, and yield after each. Rolls the active one if it is due.

    The log and the high watermark may change between two segments.
    """
    deleted = 0
    while _may_delete(log):
        now_ms = clocks.now_ms()
        if not _first_is_past_retention(log, now_ms, high_watermark()):
            break
        if len(log.segments) == 1:
            log.roll(now_ms)
        doomed = log.segments.pop(0)
        assert log.segments, log.name  # the active segment stays, whatever its age
        log.advance_log_start_offset(log.segments[0].base_offset)  # even if the renaming fails
        # From here on nobody may be promised an offset before the first file.
        assert log.log_start_offset >= log.segments[0].base_offset, log.name
        log.doomed.append((clocks.steady_ms(), doomed.delete_later()))
        deleted += 1
        yield
    if deleted and _may_delete(log):
        _log.info("%s: deleted %d segments, starts at %d", log.name, deleted, log.log_start_offset)


def _may_delete(log: PartitionLog) -> bool:
    """Whether segments may be deleted: not while a thread cuts the log, or after its deletion."""
    return not (log.is_offline or log.is_being_cut or log.is_abandoned)


def _first_is_past_retention(log: PartitionLog, now_ms: int, high_watermark: int) -> bool:
    first = log.segments[0]
    end = log.segments[1].base_offset if len(log.segments) > 1 else log.log_end_offset
    if first.size_bytes == 0 and len(log.segments) == 1:
        return False
    if end <= log.log_start_offset and len(log.segments) > 1:
        return True
    if end > high_watermark:
        return False
    config = log.config
    if not config.delete:
        return False
    if config.retention_ms >= 0 and now_ms - first.newest_ms() > config.retention_ms:
        return True
    over = log.size_bytes - config.retention_bytes
    return config.retention_bytes >= 0 and over >= first.size_bytes


def _drop_snapshots(log: PartitionLog, disk: Disk) -> None:
    """Remove the producer snapshots from before the first remaining segment.

    If the topic is deleted and made anew meanwhile, those that are found may be the new log's.
    """
    for offset in snapshot_offsets(log.directory, disk):
        if offset < log.segments[0].base_offset and not log.is_abandoned:
            disk.remove(snapshot_path(log.directory, offset))


def has_doomed(log: PartitionLog, steady_ms: int) -> bool:
    """Whether some deleted segment's files are past ``file.delete.delay.ms``."""
    delay_ms = log.config.file_delete_delay_ms
    return any(steady_ms - deleted_ms >= delay_ms for deleted_ms, _ in list(log.doomed))


def remove_doomed(log: PartitionLog, steady_ms: int, disk: Disk) -> None:
    """Remove files of deleted segments past ``file.delete.delay.ms``; call it in a thread.

    Producer snapshots from before the first remaining segment go with them.
    """
    removed = False
    for doomed in list(log.doomed):
        deleted_ms, paths = doomed
        if steady_ms - deleted_ms >= log.config.file_delete_delay_ms:
            for path in paths:
                if log.is_abandoned:
                    return  # the files went with the directory, whose name a new log may have
                disk.remove(path)
            log.doomed.remove(doomed)
            removed = True
    if removed:
        with suppress(FileNotFoundError):  # the partition was deleted meanwhile
            _drop_snapshots(log, disk)
