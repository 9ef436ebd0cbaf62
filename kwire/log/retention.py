"""Retention: deleting old segments, and later the files of deleted segments.

Rules:

- A segment is deleted when it lies wholly before the log start offset. If ``cleanup.policy`` has
  ``delete``, it is also deleted when its newest record is older than ``retention.ms``, or when the
  log without it is still at least ``retention.bytes`` large. Records beyond the high watermark are
  never deleted.
- The event loop deletes one segment at a time, and other tasks have their turns in between.
- Files are renamed at once and removed after ``file.delete.delay.ms`` on the steady clock. The age
  of a record is measured by the wall clock (``now_ms``), because timestamps are dates.
"""

import logging
from collections.abc import Callable, Iterator

from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshot import snapshot_offsets, snapshot_path

_log = logging.getLogger(__name__)


def delete_old_segments(
    log: PartitionLog,
    now_ms: int,
    high_watermark: Callable[[], int | None],
    disk: Disk,
    steady_ms: int,
) -> Iterator[None]:
    """Delete the segments past retention, and yield after each. Rolls the active one if it is due.

    The log may change between two segments. ``high_watermark`` gives None if it isn't known.
    """
    deleted = 0
    while _may_delete(log) and _first_is_past_retention(log, now_ms, high_watermark()):
        if len(log.segments) == 1:
            log.roll(now_ms)
        doomed = log.segments.pop(0)
        log.advance_log_start_offset(log.segments[0].base_offset)  # even if the renaming fails
        log.doomed.append((steady_ms, doomed.delete_later()))
        deleted += 1
        yield
    if deleted and _may_delete(log):
        _drop_snapshots(log, disk)
        _log.info("%s: deleted %d segments, starts at %d", log.name, deleted, log.log_start_offset)


def _may_delete(log: PartitionLog) -> bool:
    """Whether segments may be deleted: not while a thread cuts the log, or after its deletion."""
    return not (log.is_offline or log.is_being_cut or log.is_abandoned)


def _first_is_past_retention(log: PartitionLog, now_ms: int, high_watermark: int | None) -> bool:
    first = log.segments[0]
    end = log.segments[1].base_offset if len(log.segments) > 1 else log.log_end_offset
    if first.size_bytes == 0 and len(log.segments) == 1:
        return False
    if high_watermark is not None and end > high_watermark:
        return False
    if end <= log.log_start_offset and len(log.segments) > 1:
        return True
    config = log.config
    if not config.delete:
        return False
    if config.retention_ms >= 0 and now_ms - first.newest_ms() > config.retention_ms:
        return True
    over = log.size_bytes - config.retention_bytes
    return config.retention_bytes >= 0 and over >= first.size_bytes


def _drop_snapshots(log: PartitionLog, disk: Disk) -> None:
    """Remove the producer snapshots from before the first remaining segment."""
    for offset in snapshot_offsets(log.directory, disk):
        if offset < log.segments[0].base_offset:
            disk.remove(snapshot_path(log.directory, offset))


def has_doomed(log: PartitionLog, steady_ms: int) -> bool:
    """Whether some deleted segment's files are past ``file.delete.delay.ms``."""
    delay_ms = log.config.file_delete_delay_ms
    return any(steady_ms - deleted_ms >= delay_ms for deleted_ms, _ in list(log.doomed))


def remove_doomed(log: PartitionLog, steady_ms: int, disk: Disk) -> None:
    """Remove files of deleted segments past ``file.delete.delay.ms``; call it in a thread."""
    for doomed in list(log.doomed):
        deleted_ms, paths = doomed
        if steady_ms - deleted_ms >= log.config.file_delete_delay_ms:
            for path in paths:
                disk.remove(path)
            log.doomed.remove(doomed)
