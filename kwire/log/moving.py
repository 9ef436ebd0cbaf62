"""Moves the log of a partition from one data directory to another, while clients use it.

Rules:

- Threads copy the log's batches in pieces into a second log (``future``). When little is missing,
  one last step copies the rest, renames the copy, and makes the ``PartitionLog`` use the files of
  the copy. The object stays the same, so code that holds it goes on. ``kwire.log.moved`` says what
  happens after a crash at any point.
- Only the last step makes the event loop wait for the disk: two syncs of few bytes. Threads have
  synced everything before, so a power cut loses no record that was on the disk.
- The copy begins again if the log was truncated, or if the next records to copy were deleted.
- Before the copy is used, its offsets are in the checkpoint files of its data directory. Otherwise
  deleted records would be back after a restart.

Source: Partition.maybeReplaceCurrentWithFutureReplica, ReplicaAlterLogDirsThread of Kafka.
"""

import os
from contextlib import suppress
from pathlib import Path

from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpointed import HighWatermarks, checkpoint
from kwire.log.checkpoints import TopicPartition
from kwire.log.data_directory import DataDirectory
from kwire.log.disk import Disk
from kwire.log.loading import DELETE_SUFFIX
from kwire.log.manager import LogManager
from kwire.log.moved import FUTURE_SUFFIX, MARKER, future_of
from kwire.log.open_files import OpenFile
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import open_log
from kwire.log.replication import Overlap, append_replicated
from kwire.log.segment import LOG_SUFFIX
from kwire.log.stray_partitions import MAX_NAME, path_with_suffix
from kwire.log.truncation import start_at
from kwire.protocol.file_slice import FileSlice

PIECE_BYTES = 1 << 20
LAST_BYTES = 256 << 10
"""The most bytes that the last step copies in the event loop."""

_ANY_EPOCH = (1 << 31) - 1


class Move:
    """The move of one log to the data directory ``target``. ``begin_move`` creates it.

    Only one caller may use it at a time.
    """

    def __init__(
        self,
        manager: LogManager,
        current: PartitionLog,
        future: PartitionLog,
        target: DataDirectory,
    ) -> None:
        self.key: TopicPartition = (current.topic, current.partition)
        self.current, self.future, self.target = current, future, target
        self.is_dropped = self.is_stale = False
        self._manager = manager
        self._disk: Disk = manager.disk
        self._truncations = current.truncations
        self._first_dirty_offset = current.first_dirty_offset
        self._noted_start = -1
        self._former: Path | None = None

    @property
    def is_over(self) -> bool:
        """Whether the move can't go on: it is cancelled, or one of its two directories is lost."""
        current = self.current
        is_lost = current.is_abandoned or current.is_offline or not self.target.is_online
        return self.is_dropped or is_lost

    @property
    def is_waiting(self) -> bool:
        """Whether the log is being truncated, or must be truncated before it can be copied."""
        current = self.current
        return current.is_being_cut or bool(current.needs_cut) or current.gap_at >= 0

    @property
    def offset_lag(self) -> int:
        """How many offsets are missing in the copy."""
        return max(self.current.log_end_offset - self.future.log_end_offset, 0)

    def next_piece(self, max_bytes: int = PIECE_BYTES) -> FileSlice | None:
        """The next batches to copy; None if the copy has all of them, or has to begin again.

        Raises KafkaError (KAFKA_STORAGE_ERROR). Call it in the event loop.
        """
        current, end_offset = self.current, self.future.log_end_offset
        is_outside = not current.log_start_offset <= end_offset <= current.log_end_offset
        if is_outside or current.truncations != self._truncations:
            self.is_stale = True
            return None
        piece = current.read(
            end_offset, max_bytes, end_offset=current.log_end_offset, min_one_batch=True
        )
        if piece is None and current.active.base_offset > end_offset:
            self.is_stale = True  # compaction has removed all records before the active segment
        return piece

    def copy(self, piece: FileSlice, now_ms: int) -> None:
        """Append a piece to the copy; KafkaError, also if the piece is damaged. In a thread."""
        assert isinstance(piece.owner, OpenFile)
        data = bytearray(piece.owner.pread(piece.size_bytes, piece.position))
        try:
            done = append_replicated(self.future, data, leader_epoch=_ANY_EPOCH, now_ms=now_ms)
        except Overlap:
            self.is_stale = True
            return
        is_wrong = not done or self.future.log_end_offset > self.current.log_end_offset
        if is_wrong and self.current.truncations == self._truncations:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.current.name} can't be read")

    def restart(self, now_ms: int, steady_ms: int) -> None:
        """Begin the copy again; KafkaError (KAFKA_STORAGE_ERROR). In a thread."""
        current = self.current
        self.is_stale, self._truncations = False, current.truncations
        self._first_dirty_offset = current.first_dirty_offset
        has_records = any(segment.size_bytes for segment in current.segments)
        first = current.log_start_offset if has_records else current.log_end_offset
        start_at(self.future, first, now_ms, self._disk, steady_ms)

    def prepare(self, steady_ms: int, high_watermarks: HighWatermarks) -> None:
        """Sync the copy, and write its offsets into the checkpoint files. In a thread."""
        future, target = self.future, self.target
        start = self.current.log_start_offset
        future.advance_log_start_offset(start)
        future.flush(steady_ms)
        if MARKER not in self._disk.names(future.directory):
            self._disk.write_atomically(future.directory / MARKER, b"")
            self._disk.sync_directory(target.path)
        target.arriving[self.key] = future
        if not checkpoint(target, self._manager.logs, high_watermarks, flush=False):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{target.path} takes no checkpoints")
        self._noted_start = start

    def finish(self, now_ms: int, steady_ms: int) -> bool:
        """Copy the rest, and use the copy. Returns False if more has to be copied or prepared
        before, or if a thread makes or deletes logs now.

        Raises KafkaError (KAFKA_STORAGE_ERROR). Call it in the event loop, after ``prepare``.
        """
        if not self._manager.changing.acquire(blocking=False):
            return False
        try:
            return self._finish(now_ms, steady_ms)
        finally:
            self._manager.changing.release()

    def _finish(self, now_ms: int, steady_ms: int) -> bool:
        if self.is_over or self.is_waiting or not self._is_complete(now_ms):
            return False
        final = self.target.path / self.current.name
        try:
            self._disk.sync_path(self.future.active.path(LOG_SUFFIX))
        except OSError as error:
            raise self.target.health.sync_failed(f"cannot flush {final}", error) from error
        try:
            if self._disk.names(final):
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{final} is in the way")
        except FileNotFoundError:
            pass
        self._rename(final)
        self._use_copy(final, steady_ms)
        return True

    def _is_complete(self, now_ms: int) -> bool:
        """Copy the little that is missing. Returns whether the copy is complete then."""
        current, future = self.current, self.future
        piece = self.next_piece(LAST_BYTES)
        if piece is not None and piece.size_bytes < LAST_BYTES:
            self.copy(piece, now_ms)
            piece = self.next_piece(LAST_BYTES)
        is_copied = piece is None and future.log_end_offset == current.log_end_offset
        is_noted = self._noted_start == current.log_start_offset and future.leader_epochs.is_saved
        return is_copied and is_noted and not future.unflushed and not self.is_stale

    def _rename(self, final: Path) -> None:
        """Give the copy the partition's name. If that fails, the directory of the copy goes
        offline.
        """
        source = self.future.directory
        try:
            self._disk.rename(source, final)
            self._disk.sync_directory(final.parent)
        except OSError as error:
            with suppress(OSError):
                self._disk.rename(final, source)
            raise self.target.health.fail(f"cannot rename {source}", error) from error

    def _use_copy(self, final: Path, steady_ms: int) -> None:
        """Make the log use the files of the copy."""
        current, future, disk = self.current, self.future, self._disk
        # ``finish`` has looked, and only the event loop appends: nothing has come since.
        assert future.log_end_offset == current.log_end_offset, (current.name, final)
        assert not future.unflushed, current.name
        former, health, left = current.directory, current.health, list(current.segments)
        for segment in future.segments:
            segment.relocate(final)
        future.segments.rolled_bytes = (
            current.segments.written_bytes - future.segments.active.size_bytes
        )
        current.segments = future.segments
        current.directory, current.health = final, self.target.health
        current.leader_epochs.relocate(final)
        current.unflushed = []
        current.doomed.extend(future.doomed)
        current.recovery_point = future.log_end_offset
        current.sure_end_offset = -1
        current.first_dirty_offset = min(current.first_dirty_offset, self._first_dirty_offset)
        current.truncations += 1  # a running flush or compaction works on the former files
        self.target.arriving.pop(self.key, None)
        assert former.parent != final.parent, final
        self._manager.counts[former.parent] -= 1
        self._manager.counts[final.parent] += 1
        removed = path_with_suffix(former, os.urandom(16).hex(), DELETE_SUFFIX)
        try:
            disk.rename(former, removed)
        except OSError as error:
            health.refused(f"cannot delete {former}", error)
            return
        for segment in left:
            segment.relocate(removed)  # readers may hold it
            segment.close()  # a file that is open keeps its room on the disk after its removal
        remove_ms = steady_ms + current.config.file_delete_delay_ms
        self._manager.doomed.append((remove_ms, removed))
        self._former = removed.parent

    def clean_up(self) -> None:
        """Remove the file ``kwire-moved`` after the former directory is gone; OSError. In a
        thread.
        """
        if self._former is not None:
            self._disk.sync_directory(self._former)
            self._disk.remove(self.current.directory / MARKER)

    def drop(self) -> None:
        """Remove the copy; OSError. In a thread."""
        if self.target.arriving.get(self.key) is self.future:
            del self.target.arriving[self.key]
        self.future.abandon()
        _remove_copy(self.future.directory, self._disk)


def begin_move(
    manager: LogManager, current: PartitionLog, target: DataDirectory, now_ms: int
) -> Move:
    """Create the copy of a log, which is still empty; KafkaError (KAFKA_STORAGE_ERROR). In a
    thread.
    """
    disk, key = manager.disk, (current.topic, current.partition)
    name = f"{current.name}.{os.urandom(16).hex()}{FUTURE_SUFFIX}"
    if len(name) > MAX_NAME:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{current.name} is too long to be moved")
    try:
        disk.remove(current.directory / MARKER)
        for found in disk.names(target.path):
            if future_of(found) == key:
                _remove_copy(target.path / found, disk)
        future = open_log(
            target.path / name,
            *key,
            current.config,
            disk=disk,
            now_ms=now_ms,
            clean=True,
            log_start_offset=current.log_start_offset,
            topic_id=current.topic_id,
            health=target.health,
        )
    except OSError as error:
        raise target.health.refused(f"cannot move {current.name}", error) from error
    return Move(manager, current, future, target)


def _remove_copy(directory: Path, disk: Disk) -> None:
    """Remove an unfinished copy. A crash meanwhile leaves no directory that looks like a whole
    copy.
    """
    removed = directory.with_name(directory.name.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
    with suppress(FileNotFoundError):
        disk.rename(directory, removed)
    disk.remove_tree(removed)
