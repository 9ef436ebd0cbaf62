"""One partition's log: its segments, producers, leader epochs, and start and end offsets.

Rules:

- A record is in the page cache when its append returns, so it survives a crash of the process. It
  survives a crash of the machine after a flush. The log says when to flush: ``flush_is_due``
  (``flush.messages``), ``flush_time_is_due`` (``flush.ms``), ``unflushed`` (rolled segments).
- Batches are appended unchanged, except that base offset and leader epoch are patched in place.
- Readers never see offsets below ``log_start_offset``, even while their files still exist.
- After a disk error the client gets an error, and the log cuts a half-written batch before it
  writes again. After a shortage, appends continue. Any other error, and every failed sync, takes
  the data directory offline until the next start.

Source: UnifiedLog and LocalLog of Kafka.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from struct import Struct

from kwire.errors import ErrorCode, KafkaError
from kwire.log.directory_health import DirectoryHealth
from kwire.log.disk import Disk
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_config import LogConfig
from kwire.log.producer_snapshot import write_snapshot
from kwire.log.producer_state import ProducerStates
from kwire.log.rolling import is_full, note_room_if_any
from kwire.log.segment import ALL_BYTES, LogSegment
from kwire.log.segments import LogSegments
from kwire.log.syncing import Syncing, Unsynced, sync_one
from kwire.log.transaction_index import AbortedTransaction
from kwire.log.validation import (
    AppendInfo,
    AppendOrigin,
    CheckedBatch,
    check_of_coordinator,
    check_segment_size,
    checked_batch,
    client_batch,
)
from kwire.protocol.file_slice import FileSlice
from kwire.record.batch import (
    CONTROL_MASK,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
    Buffer,
    RecordBatch,
    assign_offsets,
    batches,
)

_START = Struct(">qii")
"""The first fields of a batch: base offset, length, leader epoch."""


class PartitionLog:
    """The log of one partition in one directory; see ``kwire.log.recovery.open_log``."""

    def __init__(
        self,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        disk: Disk,
        health: DirectoryHealth | None = None,
    ) -> None:
        self.directory = directory
        self.health = health or DirectoryHealth(directory.parent)
        self.topic, self.partition = topic, partition
        self.topic_id = topic_id
        self.config = config
        self.segments = LogSegments()
        self.leader_epochs = LeaderEpochs(directory, disk)
        self.producers = ProducerStates(config.producer_ids_max)
        self.log_start_offset = self.log_end_offset = self.recovery_point = 0
        self.sure_end_offset = -1  # the log end offset at the last sync of all files and indexes
        self.first_dirty_offset = 0  # offsets before it are compacted
        self.truncations, self.flushed_ms, self.gap_at = 0, -1, -1
        self.unwritten_bytes = ALL_BYTES  # of the next batch, see kwire.log.write_ahead
        self.doomed: list[tuple[int, list[Path]]] = []
        self.unflushed: list[LogSegment] = []
        self.disk, self.hurry = disk, disk.hurry
        self._files_made, self._files_sure = 1, 0
        self.is_abandoned = self.is_being_cut = False
        # True if bytes after the end are to be cut off, or the WriteAhead that has written them.
        self.needs_cut: object = False

    @property
    def name(self) -> str:
        """``topic-partition``, the name of the directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def active(self) -> LogSegment:
        """The segment that appends go to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Size of all segments, in bytes."""
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        """Whether the data directory has failed."""
        return self.health.failure is not None

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, None if no transaction is open."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    def update_config(self, config: LogConfig) -> None:
        """Apply new settings at once; those for indexes apply from the next segment on."""
        self.config, self.producers.limit = config, config.producer_ids_max
        for segment in self.segments:
            segment.room_bytes = -1

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append batches; a writable buffer is patched in place, others are copied.

        A client appends exactly one batch. Raises KafkaError as ``validation.checked_batch`` and
        ``append_checked`` do. Followers append with ``replication.append_replicated``.
        """
        self.check_writable()
        if origin is AppendOrigin.CLIENT:
            checked = checked_batch(client_batch(records), self.config, now_ms)
            return self.append_checked(checked, leader_epoch=leader_epoch, now_ms=now_ms)
        data = records if isinstance(records, bytearray) else bytearray(records)
        first_offset = self.log_end_offset
        for batch in list(batches(data)):
            check_of_coordinator(batch, self.config, now_ms)
            assign_offsets(batch, self.log_end_offset, leader_epoch)
            self._write(batch, now_ms)
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset)

    def append_checked(
        self, checked: CheckedBatch, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        """Append a client's batch that ``checked_batch`` has checked, perhaps in a thread.

        Raises KafkaError as ``ProducerStates.check`` does, RECORD_LIST_TOO_LARGE, and
        KAFKA_STORAGE_ERROR after a disk error.
        """
        batch, append_time = checked
        first_offset = self.log_end_offset
        if not self.append_in_room(batch, leader_epoch):
            self.check_writable()
            check_segment_size(batch, self.config)
            if batch.has_producer_id:
                repeated = self.producers.check(batch)
                if repeated is not None:
                    # Kafka answers with the timestamp of the batch, whatever the timestamp type.
                    return AppendInfo(
                        repeated.first_offset,
                        repeated.last_offset,
                        repeated.timestamp,
                        self.log_start_offset,
                        is_duplicate=True,
                    )
            assign_offsets(batch, first_offset, leader_epoch)
            self._write(batch, now_ms)
        return AppendInfo(first_offset, self.log_end_offset - 1, append_time, self.log_start_offset)

    def append_in_room(self, batch: RecordBatch, leader_epoch: int) -> bool:
        """Append the common batch, checked and alone in its writable buffer, in one step.

        It does what the rest of ``append_checked`` does, for an append that needs no work besides
        writing. It changes nothing and returns False if a segment has to be rolled, if a leader
        epoch starts, if a producer's batch doesn't continue its sequence or belongs to a
        transaction, or after a disk error; the rest then also raises the errors. Raises
        KAFKA_STORAGE_ERROR if it can't write.
        """
        segment = self.segments[-1]
        if segment.room_bytes < 0:
            note_room_if_any(segment, self.config)
        size_bytes = batch.size_bytes
        first_offset = self.log_end_offset
        last_offset = first_offset + batch.last_offset_delta
        if (
            segment.size_bytes + size_bytes > segment.room_bytes
            or batch.max_timestamp > segment.room_timestamp
            or last_offset > segment.room_offset
            or self.health.failure is not None
            or self.is_abandoned
            or self.needs_cut
            or self.unwritten_bytes >= 0
            or leader_epoch > self.leader_epochs.latest
            or batch.attributes & (TRANSACTIONAL_MASK | CONTROL_MASK)
            or size_bytes != len(batch.buffer)
        ):
            return False
        producer = None
        if batch.producer_id > NO_PRODUCER_ID:
            producer = self.producers.goes_on(batch)
            if producer is None:
                return False
        length = size_bytes - LOG_OVERHEAD_BYTES
        _START.pack_into(batch.buffer, 0, first_offset, length, leader_epoch)
        try:
            segment.append(batch.buffer, last_offset, batch.max_timestamp, last_offset)
        except OSError as error:
            _START.pack_into(batch.buffer, 0, 0, length, -1)
            raise self.undo_append(error) from error
        batch.base_offset = first_offset
        self.log_end_offset = last_offset + 1
        if producer is not None:
            producer.add_batch(batch)
        return True

    def _write(self, batch: RecordBatch, now_ms: int) -> None:
        """Write a batch whose offsets are assigned, and update epochs and producers."""
        # A gap or an overlap here would be in the file forever.
        assert batch.base_offset == self.log_end_offset, (batch, self.log_end_offset)
        last_offset = batch.last_offset
        try:
            segment = self.active
            if segment.size_bytes and is_full(segment, batch, last_offset, self.config, now_ms):
                self.roll(now_ms)
                segment = self.active
            if batch.partition_leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            newest_ms = batch.max_timestamp
            segment.append(batch.data, last_offset, newest_ms, last_offset, self.unwritten_bytes)
        except OSError as error:
            raise self.undo_append(error) from error
        # The roll has begun no segment after the batch: its name would hide the batch.
        assert segment.base_offset <= batch.base_offset, (segment.base_offset, batch)
        self.log_end_offset = last_offset + 1
        if batch.has_producer_id:
            self.note_producer(batch, segment)

    def note_producer(self, batch: RecordBatch, segment: LogSegment) -> None:
        """Update the producers by a batch that was written; KafkaError if the disk fails."""
        aborted = self.producers.update(batch)
        if aborted is None:
            return
        try:
            segment.transaction_index.append(aborted)
        except OSError as error:  # the entry stays in memory; the next flush writes it
            refusal = self.health.refused(f"cannot index a transaction of {self.name}", error)
            if self.is_offline:
                raise refusal from error
        self._files_made += 1

    def undo_append(self, error: OSError) -> KafkaError:
        """Cut the bytes that a failed append left; returns the client's error."""
        refusal = self.health.refused(f"cannot append to {self.name}", error)
        self.needs_cut = True
        with suppress(KafkaError):
            self._cut_refused()
        return refusal

    def _cut_refused(self) -> None:
        if self.needs_cut:
            # Pieces are only in the file. If their cut fails, their writer can't go on.
            are_pieces, self.needs_cut = self.needs_cut is not True, True
            try:
                if are_pieces:
                    self.active.file().truncate(self.active.size_bytes)
                else:
                    self.active.cut(self.active.size_bytes, self.log_end_offset)
            except OSError as error:
                raise self.health.refused(f"cannot cut the end of {self.name}", error) from error
            self.needs_cut = False

    def check_writable(self) -> None:
        """Remove the remains of a failed append; KafkaError if nothing may be appended."""
        self.health.check()
        if self.is_abandoned:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} was deleted")
        self._cut_refused()

    def roll(self, now_ms: int, *, is_first: bool = False) -> None:
        """Close the active segment and start a new one at the log end offset; OSError.

        Does nothing while the active segment is empty. What was written ahead of an append is cut
        off. Housekeeping flushes the closed segment later, because a flush can take long.
        ``is_first`` says that the log's directory is new.
        """
        if self.unwritten_bytes >= 0:
            self.needs_cut, self.unwritten_bytes = True, ALL_BYTES
        self._cut_refused()
        if self.segments and not self.active.size_bytes:
            return
        new = self.new_segment(self.log_end_offset, now_ms)
        try:
            new.create(is_first=is_first)
            if self.segments:
                self.active.finish()
                write_snapshot(self.producers, self.directory, self.log_end_offset, self.disk)
        except OSError:
            self._discard(new)
            raise
        if self.segments:
            self.active.close()
            self.unflushed.append(self.active)
        self._files_made += 1
        self.segments.roll(new)
        assert self.active.base_offset == self.log_end_offset, self.name

    def _discard(self, segment: LogSegment) -> None:
        """Remove an incomplete new segment, which the next start would take for the log's end."""
        assert segment not in self.segments, (self.name, segment.base_offset)  # it has no records
        segment.close()
        try:
            for path in segment.delete_later():
                self.disk.remove(path)
        except OSError as error:
            self.health.fail(f"cannot remove an unfinished segment of {self.name}", error)

    def new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        """A segment object with this log's settings; creates no file."""
        return LogSegment(
            self.directory,
            base_offset,
            self.disk,
            index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=now_ms,
        )

    @property
    def flush_is_due(self) -> bool:
        """Whether ``flush.messages`` records are unflushed, so that a flush precedes the answer."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def flush_time_is_due(self, steady_ms: int) -> bool:
        """Whether to flush because ``flush.ms`` has passed, or because a segment was rolled."""
        if self.flushed_ms < 0:  # before the first flush, the time counts from the first call
            self.flushed_ms = steady_ms
        if self.unflushed or self.flush_is_due:
            return True
        is_dirty = self.recovery_point < self.log_end_offset
        return is_dirty and steady_ms - self.flushed_ms >= self.config.flush_ms

    def flush(self, steady_ms: int) -> None:
        """Wait until everything appended so far is on the disk; may be called in a thread.

        KafkaError (KAFKA_STORAGE_ERROR) takes the directory offline: some pages may be lost.
        """
        sync_one(self.flushing(steady_ms))

    def flushing(self, steady_ms: int) -> Syncing:
        """The part of this log in a flush of several logs, see ``flush``."""
        yield from self._sync(self.log_end_offset, self.active, list(self.unflushed))
        self.flushed_ms = steady_ms

    def flush_rolled(self) -> None:
        """Wait until the rolled segments are on the disk; raises as ``flush`` does."""
        if self.unflushed:
            sync_one(self._sync(self.active.base_offset, None, list(self.unflushed)))

    def _sync(self, end: int, active: LogSegment | None, rolled: list[LogSegment]) -> Syncing:
        files_made = self._files_made  # read first: a file created meanwhile may not be synced
        truncations, health = self.truncations, self.health
        directory = self.directory if files_made > self._files_sure else None
        files: list[Path] = []
        health.check()  # the system reports lost pages once: the next sync of the file succeeds
        failed = partial(health.refused, f"cannot flush {self.name}")
        try:
            for segment in [*rolled, active] if active else rolled:
                segment.transaction_index.write_missing()
                files += segment.files(log_only=segment is active and segment not in rolled)
            self.leader_epochs.save()
            failed = partial(health.sync_failed, f"cannot flush {self.name}")
            yield Unsynced(self.disk, files, failed, directory)
        except FileNotFoundError:
            return  # the partition was deleted meanwhile
        except OSError as error:
            raise failed(error) from error
        health.check()
        self._files_sure = max(self._files_sure, files_made)
        for segment in rolled:  # not the active one: it may have grown and been rolled meanwhile
            with suppress(ValueError):
                self.unflushed.remove(segment)
        if self.truncations == truncations:  # else other records may be there now
            self.recovery_point = max(self.recovery_point, min(end, self.log_end_offset))
            assert self.recovery_point <= self.log_end_offset, (end, self.log_end_offset)

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool
    ) -> FileSlice | None:
        """Up to ``max_bytes`` of batches before ``end_offset``, from the batch with ``offset`` on.

        The last batch may be cut short, never the first: if it is larger than ``max_bytes``, only
        ``min_one_batch`` returns it, and whole. None if nothing is returned. KafkaError:
        OFFSET_OUT_OF_RANGE outside the log, KAFKA_STORAGE_ERROR after a disk error.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.name} is not within "
                f"{self.log_start_offset} and {self.log_end_offset}",
            )
        if offset >= end_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        if self.is_abandoned:
            self.check_writable()
        try:
            return self.segments.read(
                offset,
                max_bytes,
                end_offset=end_offset,
                log_end_offset=self.log_end_offset,
                min_one_batch=min_one_batch,
            )
        except OSError as error:
            raise self.health.refused(f"cannot read {self.name}", error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch up to ``epoch`` and its end offset; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_of(epoch, self.log_end_offset)

    def aborted_transactions(
        self, start_offset: int, end_offset: int, records: FileSlice | None = None
    ) -> list[AbortedTransaction]:
        """See ``LogSegments.aborted_transactions``; KafkaError (KAFKA_STORAGE_ERROR)."""
        try:
            return self.segments.aborted_transactions(start_offset, end_offset, records)
        except OSError as error:
            raise self.health.refused(f"cannot read {self.name}", error) from error

    def advance_log_start_offset(self, offset: int) -> None:
        """Hide records before ``offset`` from readers; retention removes their files later."""
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.leader_epochs.truncate_from_start(self.log_start_offset)
            assert self.log_start_offset <= self.log_end_offset

    def abandon(self) -> None:
        """Close without a flush and refuse further use: another log may take the directory name."""
        self.is_abandoned = True
        self.unflushed = []
        for segment in self.segments:
            segment.close()

    def close(self, now_ms: int) -> None:
        """Flush and close, leaving the files as Kafka's clean stop does; raises as ``flush``."""
        sync_one(self.closing())

    def closing(self) -> Syncing:
        """The part of this log in the close of several logs, see ``close``."""
        if not self.is_offline:
            self._cut_refused()
            self.active.finish()
            if self.unflushed or self.sure_end_offset != self.log_end_offset:
                yield from self._sync(self.log_end_offset, None, [*self.unflushed, self.active])
                self.sure_end_offset = self.log_end_offset
            # The mark of a clean stop makes the next start trust all records below the log's end.
            assert self.recovery_point <= self.log_end_offset, self.name
            write_snapshot(self.producers, self.directory, self.log_end_offset, self.disk)
            self.leader_epochs.save()
        for segment in self.segments:
            segment.close()
