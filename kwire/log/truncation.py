"""Truncating a log, as a follower does whose leader has other records there.

Rules:

- Truncated records never come back, not even after a crash of the machine. Segments are removed
  from the last one backwards, so that a crash leaves no gap.
- The recovery point, the log start offset and the high watermark are checkpointed before the next
  append. With the old values, the next start would take the new records for synced, for deleted, or
  for replicated. ``truncate_logs`` writes the checkpoints once for many logs. Apache Kafka keeps
  the old high watermark in its file for up to five seconds.
- A thread truncates a log while the event loop may read it. So the log has at least one segment at
  every moment.
- A data directory without room for the checkpoints takes no cut: its logs stay as they are, and are
  cut when there is room and they are fetched again. After an error in the middle of a cut the
  directory is offline, also if that error is a lack of room. The log fits the leader's then, so
  the next answer would be appended although the checkpoints are those from before the cut.

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt of Kafka.
"""

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpointed import note_cuts
from kwire.log.data_directory import DataDirectory
from kwire.log.directory_health import LEAST_ROOM_BYTES
from kwire.log.disk import Disk
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_recovery import rebuild_producers
from kwire.log.producer_snapshot import snapshot_offsets, snapshot_path
from kwire.log.producer_state import ProducerStates
from kwire.log.segments import LogSegments


class Cut(NamedTuple):
    """A log and its new end offset; with ``is_anew`` the log becomes empty and begins there."""

    log: PartitionLog
    offset: int
    is_anew: bool = False


def truncate_logs(
    manager: LogManager, cuts: Sequence[Cut], now_ms: int, steady_ms: int
) -> list[KafkaError | None]:
    """Cut several logs, then write the checkpoints of their directories; the error of each.

    Waits for the disk, so call it in a thread.
    """
    errors: list[KafkaError | None] = [None] * len(cuts)
    for data in manager.data_directories:
        numbers = [n for n, one in enumerate(cuts) if one.log.health is data.health]
        if not numbers:
            continue
        refusal = _refusal(data, manager.disk)
        for number in numbers:
            errors[number] = refusal or _truncate_log(cuts[number], now_ms, manager.disk, steady_ms)
        if refusal is None and data.is_online:
            refusal = note_cuts(data, manager.logs, [cuts[number].log for number in numbers])
            for number in numbers:
                errors[number] = errors[number] or refusal
    return errors


def _refusal(data: DataDirectory, disk: Disk) -> KafkaError | None:
    """The error if a directory is offline, or has no room for the checkpoints after a cut."""
    what = f"cannot cut logs in {data.path}"
    try:
        data.health.check()
        if disk.free_bytes(data.path) >= LEAST_ROOM_BYTES:
            return None
    except KafkaError as error:
        return error
    except OSError as error:
        return data.health.refused(what, error)
    return data.health.refused(what, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def _truncate_log(cut: Cut, now_ms: int, disk: Disk, steady_ms: int) -> KafkaError | None:
    """Cut one log; the error if that fails."""
    log, offset, is_anew = cut
    try:
        (start_at if is_anew else truncate_log)(log, offset, now_ms, disk, steady_ms)
    except KafkaError as error:
        return error
    return None


def truncate_log(log: PartitionLog, offset: int, now_ms: int, disk: Disk, steady_ms: int) -> None:
    """Cut everything from the batch with ``offset`` on; KafkaError (KAFKA_STORAGE_ERROR).

    If ``offset`` lies within a batch, the log then ends at the beginning of this batch. Kafka would
    end it at ``offset``, and the offsets between would have no records.
    A log that ends at ``offset`` or before keeps its records. It only forgets leader epochs that
    begin at its end: they have no records, and the leader may not know them.
    """
    try:
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            log.leader_epochs.save()
        elif offset < log.segments[0].base_offset:
            _start_at(log, offset, now_ms, disk, steady_ms)
        else:
            _truncate(log, offset, disk, steady_ms)
    except OSError as error:
        raise _failure(log, f"cannot cut the end of {log.name}", error) from error


def start_at(log: PartitionLog, offset: int, now_ms: int, disk: Disk, steady_ms: int) -> None:
    """Remove all records, and begin anew at ``offset``; KafkaError (KAFKA_STORAGE_ERROR)."""
    try:
        _start_at(log, offset, now_ms, disk, steady_ms)
    except OSError as error:
        raise _failure(log, f"cannot begin {log.name} anew", error) from error


def _failure(log: PartitionLog, what: str, error: OSError) -> KafkaError:
    """The error after which a log's directory is offline, unless the log is deleted meanwhile."""
    if log.is_abandoned and isinstance(error, FileNotFoundError):
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.name} is deleted")
    return log.health.fail(what, error)


def _truncate(log: PartitionLog, offset: int, disk: Disk, steady_ms: int) -> None:
    # So at least one segment is kept: the event loop may read the log meanwhile.
    assert log.segments[0].base_offset <= offset < log.log_end_offset, (log.name, offset)
    log.truncations += 1
    log.gap_at = log.gap_at if log.gap_at < offset else -1
    kept = LogSegments(s for s in log.segments if s.base_offset <= offset)
    assert kept, (log.name, offset)  # ascending base offsets, and the first is at most ``offset``
    kept.rolled_bytes = log.segments.rolled_bytes
    removed = log.segments[len(kept) :]
    log.unflushed = [segment for segment in log.unflushed if segment in kept[:-1]]
    log.segments = kept
    for segment in reversed(removed):
        log.doomed.append((steady_ms, segment.delete_later()))
    holds = log.active.find(offset)
    if holds is not None:
        offset = min(offset, holds.base_offset)
        log.active.cut(holds.position, offset)
    log.active.sync()
    log.log_end_offset, log.sure_end_offset = offset, -1
    log.recovery_point = min(log.recovery_point, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.first_dirty_offset = min(log.first_dirty_offset, log.active.base_offset)
    # The checkpoints are written from these next; the next start believes them.
    assert log.active.base_offset <= log.log_end_offset, (log.name, offset)
    assert max(log.log_start_offset, log.recovery_point) <= log.log_end_offset, log.name
    disk.sync_directory(log.directory)
    log.leader_epochs.truncate_from_end(offset)
    log.leader_epochs.save()
    before = log.producers
    log.producers = rebuild_producers(
        log.directory, log.segments, offset, disk, limit=log.config.producer_ids_max
    )
    log.producers.take_ended(before, offset)


def _start_at(log: PartitionLog, offset: int, now_ms: int, disk: Disk, steady_ms: int) -> None:
    log.truncations += 1
    log.gap_at = -1
    log.unflushed = []
    for segment in reversed(log.segments):
        log.doomed.append((steady_ms, segment.delete_later()))
    new = log.new_segment(offset, now_ms)
    new.create()
    fresh = LogSegments([new])
    fresh.rolled_bytes = log.segments.written_bytes
    log.segments = fresh
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    log.sure_end_offset, log.first_dirty_offset = -1, min(log.first_dirty_offset, offset)
    assert log.active.base_offset == log.log_end_offset
    assert not log.active.size_bytes
    disk.sync_directory(log.directory)
    log.leader_epochs.clear()
    log.leader_epochs.save()
    for snapshot in snapshot_offsets(log.directory, disk):
        disk.remove(snapshot_path(log.directory, snapshot))
    before, log.producers = log.producers, ProducerStates(log.config.producer_ids_max)
    log.producers.take_ended(before, 0)
