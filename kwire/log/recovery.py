"""Opening a partition's directory: after a clean stop by trust, after a crash by reading.

Rules:

- After a clean stop every file is what it says. Indexes that are missing or wrong are rebuilt all
  the same, from the batches that are sound.
- After a crash everything from the recovery point on is read: a batch that isn't whole, whose
  checksum is wrong or that doesn't follow the one before ends the log, what follows is cut, and the
  indexes are built anew. What was acknowledged before the crash lies before that end.
- What was only recovered is in the page cache, not on the disk: the recovery point stays where it
  was until the next flush.
- The producers' state is the newest usable snapshot and the batches after it.

Source: LogLoader of Kafka.
"""

import logging
from pathlib import Path

from kwire.log.directory_health import DirectoryHealth
from kwire.log.disk import Disk
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.leftovers import finish_leftovers
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.partition_metadata import read_topic_id, write_topic_id
from kwire.log.producer_recovery import rebuild_producers
from kwire.log.rolling import MAX_RELATIVE_OFFSET
from kwire.log.segment import LOG_SUFFIX, LogSegment
from kwire.log.segments import LogSegments
from kwire.record.batch import InvalidRecords

log = logging.getLogger(__name__)

NO_TOPIC_ID = bytes(16)


def open_log(
    directory: Path,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    disk: Disk,
    now_ms: int,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    topic_id: bytes | None = None,
    health: DirectoryHealth | None = None,
) -> PartitionLog:
    """Open or create the log of a partition.

    ``recovery_point`` and ``log_start_offset`` come from the checkpoints; ``clean`` says that the
    last stop was. ``topic_id`` is for a new log; an old one knows its own. ``health`` is the data
    directory's. OSError and ValueError say that the log can't be used.
    """
    disk.make_directory(directory)
    found_id = read_topic_id(directory, disk)
    if found_id is None and topic_id is not None:
        found_id = topic_id
        write_topic_id(directory, topic_id, disk)
    opened = PartitionLog(
        directory, topic, partition, found_id or NO_TOPIC_ID, config, disk, health
    )
    opened.flushed_ms = now_ms
    finish_leftovers(directory, disk)
    opened.segments = LogSegments(
        opened.new_segment(base, now_ms) for base in _base_offsets(directory, disk)
    )
    recovered_from = None
    if opened.segments:
        opened.log_end_offset, recovered_from = _load_segments(opened, disk, clean, recovery_point)
        opened.log_start_offset = max(log_start_offset, opened.segments[0].base_offset)
    if opened.log_end_offset < log_start_offset or not opened.segments:
        _start_anew(opened, log_start_offset, now_ms, disk)
    if recovered_from is None:
        opened.recovery_point = opened.log_end_offset
    else:
        opened.recovery_point = min(recovery_point, opened.log_end_offset)
        opened.unflushed = [s for s in opened.segments[:-1] if s.base_offset >= recovered_from]
    # An epoch that begins at the end is one in which nothing was written yet.
    opened.leader_epochs.truncate_from_end(opened.log_end_offset + 1)
    opened.leader_epochs.truncate_from_start(opened.log_start_offset)
    opened.producers = rebuild_producers(
        directory,
        opened.segments,
        opened.log_end_offset,
        disk,
        trusted_to=recovered_from,
    )
    for segment in opened.segments:
        segment.close()
    return opened


def _start_anew(opened: PartitionLog, offset: int, now_ms: int, disk: Disk) -> None:
    """Begin with one empty segment at ``offset``: all that was there lies before the log start."""
    if opened.segments:
        log.warning("%s ends before its log start offset %d", opened.name, offset)
        _drop_segments(opened, 0, disk)
    opened.log_start_offset = opened.log_end_offset = offset
    opened.roll(now_ms)


def _base_offsets(directory: Path, disk: Disk) -> list[int]:
    stems = (
        name.removesuffix(LOG_SUFFIX) for name in disk.names(directory) if name.endswith(LOG_SUFFIX)
    )
    return sorted(int(stem) for stem in stems if stem.isdigit())


def _load_segments(
    opened: PartitionLog, disk: Disk, clean: bool, recovery_point: int
) -> tuple[int, int | None]:
    """Load or recover every segment: the offset after the last batch, the first one recovered."""
    end_offset = opened.segments[0].base_offset
    recovered_from: int | None = None
    for index, segment in enumerate(opened.segments):
        following = opened.segments[index + 1 : index + 2]
        suspect = not clean and (not following or following[0].base_offset > recovery_point)
        sound = segment.load()
        if sound and not suspect:
            end_offset = following[0].base_offset if following else _end_offset(segment)
            segment.close()
            continue
        if recovered_from is None:
            recovered_from = segment.base_offset
        log.info(
            "%s: recovering segment %d, %d bytes (%d of %d)",
            opened.name,
            segment.base_offset,
            segment.size_bytes,
            index + 1,
            len(opened.segments),
        )
        whole, end_offset = recover_segment(segment, opened.leader_epochs, disk, opened.name)
        segment.close()
        if not whole and suspect:
            _drop_segments(opened, index + 1, disk)
            break
    return end_offset, recovered_from


def _end_offset(segment: LogSegment) -> int:
    """The offset after the last batch of a sound segment."""
    end = segment.base_offset
    entry = segment.offset_index.last
    for header in segment.headers(entry[1] if segment.offset_index.entries else 0):
        end = header.last_offset + 1
        if header.max_timestamp > segment.max_timestamp:
            segment.max_timestamp = header.max_timestamp
            segment.max_timestamp_offset = header.last_offset
    return end


def recover_segment(
    segment: LogSegment, leader_epochs: LeaderEpochs, disk: Disk, name: str
) -> tuple[bool, int]:
    """Read a segment, cut what isn't sound, build its indexes; (nothing was cut, end offset).

    Epochs that the checkpoint lacks are learnt from the batches.
    """
    size_on_disk = segment.size_bytes
    segment.reset_indexes()
    end_offset = segment.base_offset
    position = 0
    try:
        for batch in segment.batches(0, size_on_disk):
            last_offset = batch.last_offset
            far = last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            if not end_offset <= batch.base_offset <= last_offset or far:
                log.warning("%s: %r at position %d does not follow", name, batch, position)
                break
            batch.verify_crc()
            segment.note(last_offset, position, batch.size_bytes, batch.max_timestamp, last_offset)
            leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            position += batch.size_bytes
            end_offset = last_offset + 1
    except InvalidRecords as error:
        log.warning("%s: %s at position %d", name, error.message, position)
    if position == size_on_disk:
        segment.finish()
        return True, end_offset
    log.warning(
        "%s: cut %d bytes after offset %d, which were never acknowledged or are damaged",
        name,
        size_on_disk - position,
        end_offset - 1,
    )
    disk.truncate(segment.file().fd, position)
    segment.transaction_index.truncate_to(end_offset)
    segment.finish()
    return False, end_offset


def _drop_segments(opened: PartitionLog, first: int, disk: Disk) -> None:
    """Remove the segments after a damaged one: their offsets would leave a hole."""
    for segment in opened.segments[first:]:
        log.warning("%s: removing segment %d after a damaged one", opened.name, segment.base_offset)
        for path in segment.delete_later():
            disk.remove(path)
    del opened.segments[first:]
