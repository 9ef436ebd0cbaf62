"""One partition's log: segments, producers, leader epochs, and the offsets between which it lives.

Rules:

- An append that returned is in the page cache, so it survives the death of the process; it survives
  the death of the machine after a flush (``flush.messages``, ``flush.ms``, a roll).
- Batches are appended as they came; base offset and leader epoch are patched in place.
- Offsets below ``log_start_offset`` are gone for readers, even while their files are still there.
- After an error of the disk what was half written is cut, and the client is told. When even that
  fails, the log takes no more appends until it is opened anew.

Source: UnifiedLog and LocalLog of Kafka.
"""

import logging
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.log.disk import Disk
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.log_config import LogConfig
from kwire.log.producer_recovery import rebuild_producers
from kwire.log.producer_state import ProducerStates, write_snapshot
from kwire.log.segment import LOG_SUFFIX, MAX_SEGMENT_BYTES, LogSegment
from kwire.log.transaction_index import AbortedTransaction
from kwire.log.validation import check_batch, with_compression
from kwire.protocol.file_slice import FileSlice
from kwire.record.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Buffer,
    RecordBatch,
    assign_offsets,
    batches,
    set_log_append_time,
)
from kwire.record.batch_scan import BatchHeader

log = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET = (1 << 31) - 1


class AppendOrigin(Enum):
    """Who appends: a client is checked, the coordinators and the leader of a follower are not."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class AppendInfo(NamedTuple):
    """What an append did; ``log_append_time_ms`` is -1 where the client's timestamps are kept."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


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
    ) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments: list[LogSegment] = []
        self.leader_epochs = LeaderEpochs(directory, disk)
        self.producers = ProducerStates()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.doomed: list[tuple[int, list[Path]]] = []
        self.unflushed: list[LogSegment] = []
        self._disk = disk
        self._flushed_ms = 0
        self._is_broken = False

    @property
    def name(self) -> str:
        """``topic-partition``, as its directory is named."""
        return f"{self.topic}-{self.partition}"

    @property
    def active(self) -> LogSegment:
        """The segment that is written to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, None where none is open."""
        return self.producers.first_unstable_offset

    def update_config(self, config: LogConfig) -> None:
        """Go by other settings from now on."""
        self.config = config

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append batches; a writable buffer is patched in place, others are copied.

        A client appends exactly one batch. Raises KafkaError as ``validation.check_batch`` and
        ``ProducerStates.check`` do, and KAFKA_STORAGE_ERROR when the disk refuses.
        """
        if self._is_broken:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.name} is offline")
        if origin is AppendOrigin.CLIENT:
            return self._append_for_client(records, leader_epoch, now_ms)
        data = records if isinstance(records, bytearray) else bytearray(records)
        first_offset = self.log_end_offset
        for batch in list(batches(data)):
            self._write(batch, leader_epoch, now_ms)
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset)

    def _append_for_client(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendInfo:
        batch = RecordBatch(records)
        if batch.size_bytes != len(records):
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "A produce request holds exactly one record batch for each partition",
            )
        check_batch(batch, self.config, now_ms)
        if batch.producer_id != NO_PRODUCER_ID:
            repeated = self.producers.check(batch)
            if repeated is not None:
                return AppendInfo(
                    repeated.first_offset, repeated.last_offset, -1, self.log_start_offset, True
                )
        recompressed = with_compression(batch, self.config)
        if recompressed is not None:
            batch = RecordBatch(recompressed)
        elif isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
            batch = RecordBatch(bytearray(records))
        first_offset = self.log_end_offset
        stamped = self.config.log_append_time
        self._write(batch, leader_epoch, now_ms, stamp=stamped)
        append_time = now_ms if stamped else NO_TIMESTAMP
        return AppendInfo(first_offset, self.log_end_offset - 1, append_time, self.log_start_offset)

    def _write(
        self, batch: RecordBatch, leader_epoch: int, now_ms: int, *, stamp: bool = False
    ) -> None:
        """Assign offsets to one batch, write it, and take it into account everywhere."""
        buffer = batch.buffer
        assert not isinstance(buffer, bytes)
        offset = self.log_end_offset
        assign_offsets(buffer, batch.position, offset, leader_epoch)
        batch.base_offset = offset
        if stamp:
            set_log_append_time(buffer, batch.position, now_ms)
            batch.max_timestamp = now_ms
        segment = self._segment_for(batch, now_ms)
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, offset)
        size_before = segment.size_bytes
        try:
            segment.append(batch.data, batch.last_offset, batch.max_timestamp, batch.last_offset)
        except OSError as error:
            raise self._undo(segment, size_before, error) from error
        self.log_end_offset = batch.next_offset
        if batch.producer_id != NO_PRODUCER_ID:
            aborted = self.producers.update(batch)
            if aborted is not None:
                segment.transaction_index.append(aborted)
        config = self.config
        if self.log_end_offset - self.recovery_point >= config.flush_messages or (
            now_ms - self._flushed_ms >= config.flush_ms
        ):
            self.flush(now_ms)

    def _undo(self, segment: LogSegment, size_bytes: int, error: OSError) -> KafkaError:
        """Cut what a failed append left behind; the error for the client."""
        log.error("cannot append to %s: %s", self.name, error)
        try:
            segment.cut(size_bytes, self.log_end_offset)
        except OSError as worse:
            self._is_broken = True
            log.error("%s is offline, its end can't be cut: %s", self.name, worse)
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"cannot write to {self.directory}: {error.strerror}"
        )

    def _segment_for(self, batch: RecordBatch, now_ms: int) -> LogSegment:
        """The segment that takes a batch: the active one, or a new one when that is full."""
        active = self.active
        if active.size_bytes and self._is_full(active, batch):
            self.roll(now_ms)
        return self.active

    def _is_full(self, active: LogSegment, batch: RecordBatch) -> bool:
        config = self.config
        if active.size_bytes + batch.size_bytes > min(config.segment_bytes, MAX_SEGMENT_BYTES):
            return True
        if active.offset_index.is_full or active.time_index.is_full:
            return True
        if batch.last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        first = active.first_timestamp
        return first >= 0 and batch.max_timestamp - first > config.segment_ms - self._jitter_ms()

    def _jitter_ms(self) -> int:
        """A part of ``segment.jitter.ms`` that differs from partition to partition."""
        jitter = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return (
            hash((self.topic_id, self.partition, self.active.base_offset)) % jitter if jitter else 0
        )

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one at the log end offset.

        The old one is flushed by housekeeping, for that may take long.
        """
        if self.segments:
            old = self.active
            old.finish()
            old.close()
            self.unflushed.append(old)
        write_snapshot(self.producers, self.directory, self.log_end_offset, self._disk)
        self.segments.append(self.new_segment(self.log_end_offset))
        self.active.file()

    def new_segment(self, base_offset: int) -> LogSegment:
        """A segment object with this log's settings; no file is touched yet."""
        return LogSegment(
            self.directory,
            base_offset,
            self._disk,
            index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
        )

    def flush(self, now_ms: int) -> None:
        """Wait until everything is on the disk.

        Raises KafkaError (KAFKA_STORAGE_ERROR); the log is offline then, for after a failed sync
        nobody knows what the disk has.
        """
        try:
            for segment in self.unflushed:
                segment.flush()
            self.unflushed.clear()
            self.active.flush()
        except OSError as error:
            self._is_broken = True
            log.error("%s is offline, it can't be flushed: %s", self.name, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"cannot flush {self.directory}: {error.strerror}"
            ) from error
        self.recovery_point = self.log_end_offset
        self._flushed_ms = now_ms

    def flush_rolled(self) -> None:
        """Wait until the segments that were rolled are on the disk; may be called in a thread."""
        while self.unflushed:
            segment = self.unflushed[0]
            segment.flush()
            self.recovery_point = max(self.recovery_point, segment.base_offset)
            self.unflushed.pop(0)
        self._disk.sync_directory(self.directory)

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, min_one_batch: bool
    ) -> FileSlice | None:
        """Batches from the one that holds ``offset`` on: ``max_bytes`` before ``end_offset``.

        With ``min_one_batch`` the first batch comes whole even if it is larger. The last one may be
        cut. None when there is nothing to give; KafkaError (OFFSET_OUT_OF_RANGE) outside the log.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.name} is not within "
                f"{self.log_start_offset} and {self.log_end_offset}",
            )
        if offset >= end_offset or (max_bytes <= 0 and not min_one_batch):
            return None
        for segment in self.segments_from(offset):
            first = segment.find(offset)
            if first is None:
                continue
            if first.base_offset >= end_offset:
                return None
            end = self._end_position(segment, end_offset)
            size_bytes = min(max_bytes, end - first.position)
            if min_one_batch:
                size_bytes = max(size_bytes, first.size_bytes)
            return segment.slice(first.position, size_bytes) if size_bytes > 0 else None
        return None

    def segments_from(self, offset: int) -> Iterator[LogSegment]:
        """The segment that holds ``offset`` and those after it."""
        segments = self.segments
        low = len(segments) - 1
        if segments[low].base_offset > offset:  # mostly it is the active one
            low, high = 0, low
            while low < high:
                middle = (low + high + 1) // 2
                if segments[middle].base_offset <= offset:
                    low = middle
                else:
                    high = middle - 1
        for index in range(low, len(segments)):
            yield segments[index]

    def _end_position(self, segment: LogSegment, end_offset: int) -> int:
        """Where in a segment the batches before ``end_offset`` end."""
        if end_offset >= self.log_end_offset:
            return segment.size_bytes
        if segment is not self.active:
            following = self.segments[self.segments.index(segment) + 1]
            if end_offset >= following.base_offset:
                return segment.size_bytes
        header = segment.find(end_offset)
        return header.position if header else segment.size_bytes

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch up to ``epoch`` and where it ended; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_of(epoch, self.log_end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records between the offsets, by their first offset."""
        found = []
        for segment in self.segments_from(start_offset):
            for entry in segment.transaction_index.entries():
                if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return sorted(found, key=lambda aborted: aborted.first_offset)
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def headers(self) -> Iterator[BatchHeader]:
        """The headers of all batches, oldest first."""
        for segment in self.segments:
            yield from segment.headers()

    def advance_log_start_offset(self, offset: int) -> None:
        """Forget what lies before ``offset``; the files go when retention comes by."""
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.leader_epochs.truncate_from_start(self.log_start_offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut everything from ``offset`` on, as a follower does that has diverged."""
        if offset >= self.log_end_offset:
            return
        kept = [s for s in self.segments if s.base_offset < offset] or self.segments[:1]
        for segment in self.segments[len(kept) :]:
            self.doomed.append((now_ms, segment.delete_later()))
        self.segments = kept
        self.active.truncate_to(offset)
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.leader_epochs.truncate_from_end(offset)
        self.producers = rebuild_producers(
            self.directory, self.segments, self.log_start_offset, offset, self._disk
        )

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that have been silent for long."""
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def close(self, now_ms: int) -> None:
        """Flush and close; the files are as Kafka leaves them at a clean stop."""
        if not self._is_broken:
            self.active.finish()
            if self.unflushed or self.recovery_point < self.log_end_offset:
                self.flush(now_ms)
            write_snapshot(self.producers, self.directory, self.log_end_offset, self._disk)
        for segment in self.segments:
            segment.close()

    @property
    def log_file(self) -> Path:
        """The active segment's file."""
        return self.active.path(LOG_SUFFIX)
