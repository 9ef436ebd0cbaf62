"""Truncating a log, as a follower does whose leader has other records there.

Rules: truncated records never come back, not even after a crash of the machine. Segments are
removed from the last one backwards, so that a crash leaves no gap. The recovery point and the first
dirty offset have to be checkpointed before the next append: the old ones would declare the new
records synced and compacted. After an error the directory is offline.

Source: UnifiedLog.truncateTo of Kafka.
"""

from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_recovery import rebuild_producers
from kwire.log.segments import LogSegments


def truncate_log(log: PartitionLog, offset: int, now_ms: int, disk: Disk, steady_ms: int) -> None:
    """Cut everything from ``offset`` on; KafkaError (KAFKA_STORAGE_ERROR)."""
    if offset >= log.log_end_offset:
        return
    try:
        _truncate(log, offset, now_ms, disk, steady_ms)
    except OSError as error:
        raise log.health.fail(f"cannot cut the end of {log.name}", error) from error


def _truncate(log: PartitionLog, offset: int, now_ms: int, disk: Disk, steady_ms: int) -> None:
    log.truncations += 1
    kept = LogSegments(s for s in log.segments if s.base_offset <= offset)
    for segment in reversed(log.segments[len(kept) :]):
        log.doomed.append((steady_ms, segment.delete_later()))
    log.unflushed = [segment for segment in log.unflushed if segment in kept[:-1]]
    log.segments = kept
    if kept:
        log.active.truncate_to(offset)
        log.active.sync()
    log.log_end_offset, log.sure_end_offset = offset, -1
    log.recovery_point = min(log.recovery_point, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    if not kept:
        log.roll(now_ms)
    log.first_dirty_offset = min(log.first_dirty_offset, log.active.base_offset)
    disk.sync_directory(log.directory)
    log.leader_epochs.truncate_from_end(offset)
    log.producers = rebuild_producers(
        log.directory, log.segments, offset, disk, limit=log.config.producer_ids_max
    )
