"""Opens a partition's directory: as it is after a clean stop, with recovery after a crash.

Rules:

- After a clean stop the log's files are trusted. An index that is missing or wrong is rebuilt from
  the batches all the same.
- After a crash everything from the recovery point on is read. The log ends before the first batch
  that is incomplete, has a wrong checksum or doesn't follow the batch before. All bytes after the
  log's end are cut off, and the indexes are rebuilt. Every record that was acknowledged before the
  crash lies before that end.
- If the last batch of a segment is sound but ends before the next segment's base offset, then the
  machine has crashed before the segment's end was synced. As in Kafka, the later segments are kept.
  A warning names the missing offsets, because nothing else shows them. After a power cut,
  ``gap_at`` is the first missing offset: a follower truncates its log there, and fetches the
  missing records again.
- Leader epochs that ``leader-epoch-checkpoint`` lacks are found in the batches.
- Recovered records are in the page cache but not necessarily on the disk, so the recovery point
  doesn't move until the next flush.
- The producer state is built from the newest usable snapshot and the batches after it.

Source: LogLoader of Kafka.
"""

import logging
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from kwire.log.directory_health import DirectoryHealth
from kwire.log.disk import Disk
from kwire.log.index_checks import index_problem
from kwire.log.interrupted_operations import finish_interrupted_operations
from kwire.log.leader_epochs import UNDEFINED, LeaderEpochs
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.partition_metadata import read_topic_id, write_topic_id
from kwire.log.producer_recovery import rebuild_producers
from kwire.log.segment import LOG_SUFFIX, LogSegment
from kwire.log.segment_scan import SegmentScan
from kwire.log.segments import LogSegments
from kwire.record.batch import LOG_OVERHEAD_BYTES, MAGIC
from kwire.record.batch_scan import BatchHeader

log = logging.getLogger(__name__)

NO_TOPIC_ID = bytes(16)
_STEM = re.compile("[0-9]{20}")

Progress: TypeAlias = Callable[[int], None]
"""Called with the number of bytes of a log that were read since the last call."""


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
    epoch: int = UNDEFINED,
    is_new: bool = False,
    health: DirectoryHealth | None = None,
    progress: Progress = lambda size_bytes: None,
    may_lack_records: bool = False,
) -> PartitionLog:
    """Open or create the log of a partition.

    ``recovery_point`` and ``log_start_offset`` come from the checkpoints. ``clean`` says that the
    last stop was clean, ``may_lack_records`` that the power may have been cut. ``topic_id`` is used
    only if the directory has no ``partition.metadata``, and ``epoch``, that of the leader, only if
    the directory is empty. ``is_new`` says that the caller has just made it. ``health`` is that of
    the data directory. OSError and ValueError say that the log can't be used.
    """
    is_new = is_new or disk.make_directory(directory)
    names = [] if is_new else disk.names(directory)
    found_id = _identify(directory, names, topic_id, disk)
    opened = PartitionLog(directory, topic, partition, found_id, config, disk, health)
    if not names:
        _make_files(opened, log_start_offset, epoch, now_ms, disk)
        return opened
    opened.leader_epochs = LeaderEpochs.read(directory, disk)
    names = finish_interrupted_operations(directory, names, disk)
    opened.segments = LogSegments(
        opened.new_segment(base, now_ms) for base in segment_offsets(names)
    )
    recovered: dict[int, array[int]] = {}
    if opened.segments:
        opened.log_end_offset, recovered = _load_segments(
            opened, disk, clean, recovery_point, progress
        )
        opened.log_start_offset = max(log_start_offset, opened.segments[0].base_offset)
    if opened.log_end_offset < log_start_offset or not opened.segments:
        _start_anew(opened, log_start_offset, now_ms, disk)
    if not may_lack_records:
        opened.gap_at = -1  # compaction has removed the missing offsets before
    if not recovered:
        opened.recovery_point = opened.sure_end_offset = opened.log_end_offset
    else:
        opened.recovery_point = min(recovery_point, opened.log_end_offset)
        opened.unflushed = [s for s in opened.segments[:-1] if s.base_offset >= min(recovered)]
    assert opened.segments, opened.name  # appends and reads go by the active one without asking
    assert opened.recovery_point <= opened.log_end_offset, opened.name
    # An epoch that starts at the log end offset is kept: it exists but has written nothing yet.
    opened.leader_epochs.truncate_from_end(opened.log_end_offset + 1)
    opened.leader_epochs.truncate_from_start(opened.log_start_offset)
    _find_first_epochs(opened, progress)
    opened.producers = rebuild_producers(
        directory,
        opened.segments,
        opened.log_end_offset,
        disk,
        limit=config.producer_ids_max,
        recovered=recovered,
    )
    for segment in opened.segments:
        segment.close()
    return opened


def _identify(directory: Path, names: Sequence[str], topic_id: bytes | None, disk: Disk) -> bytes:
    """The topic id that a log's directory has, or gets; it has files of these names.

    A broken ``partition.metadata`` counts as missing: the topic of the directory's name gets the
    records, which are worth more than the file. Apache Kafka takes the data directory offline.
    """
    found_id = None
    try:
        found_id = read_topic_id(directory, disk) if names else None
    except ValueError as error:
        log.warning(
            "%s: the topic of this name keeps the records, and its id is written again; nothing is "
            "to be done, unless the topic was deleted and made anew meanwhile",
            error,
        )
    if found_id is None and topic_id is not None:
        write_topic_id(directory, topic_id, disk)
        if names:
            disk.sync_directory(directory)
    return found_id or topic_id or NO_TOPIC_ID


def _make_files(opened: PartitionLog, offset: int, epoch: int, now_ms: int, disk: Disk) -> None:
    """Make the files of a log in an empty directory, and sync the directory once for all of them.

    While the event loop is busy, the thread that does this waits for the interpreter after every
    call of the system, and many logs may be created at once. So there are few calls.
    """
    opened.log_start_offset = opened.log_end_offset = offset
    opened.recovery_point = opened.sure_end_offset = offset
    opened.roll(now_ms, is_first=True)
    opened.active.close()
    if epoch != UNDEFINED:
        opened.leader_epochs.assign(epoch, offset)
        opened.leader_epochs.save_first()
    disk.sync_directory(opened.directory)


def _start_anew(opened: PartitionLog, offset: int, now_ms: int, disk: Disk) -> None:
    """Start with one empty segment at ``offset``; all existing records lie before the log start."""
    if opened.segments:
        log.warning("%s ends before its log start offset %d and starts empty", opened.name, offset)
        _drop_segments(opened, 0, disk)
    opened.log_start_offset = opened.log_end_offset = offset
    opened.roll(now_ms)
    assert opened.active.base_offset == offset, (opened.name, offset)
    if offset:  # only the name of the new segment's file says where the log starts
        disk.sync_directory(opened.directory)


def _find_first_epochs(opened: PartitionLog, progress: Progress) -> None:
    """Find the epochs of the first records if the file begins later.

    The log start offset was moved, the file was written, and a crash came before the checkpoint.
    A log whose first record has no epoch isn't read: the file is right to begin later.
    """
    start, known = opened.log_start_offset, opened.leader_epochs.entries
    end = known[0][1] if known else opened.log_end_offset
    if start >= end:
        return
    found: list[tuple[int, int]] = []
    for segment in opened.segments:
        if segment.base_offset >= end:
            break
        progress(0)
        for header in segment.headers(segment.position_before(start)):
            if header.base_offset >= end:
                break
            if not found and not _has_epoch(segment, header):
                return
            is_new = not found or header.leader_epoch > found[-1][0]
            if is_new and header.last_offset >= start:
                found.append((header.leader_epoch, max(header.base_offset, start)))
        segment.close()
    if found:
        opened.leader_epochs.prepend(found)


def _has_epoch(segment: LogSegment, header: BatchHeader) -> bool:
    """Whether a batch has a leader epoch; message formats before 2 have other fields there."""
    start = segment.file().pread(LOG_OVERHEAD_BYTES + 5, header.position)  # magic is the last
    return start[-1] == MAGIC and header.leader_epoch != UNDEFINED


def segment_offsets(names: Iterable[str]) -> list[int]:
    """The base offsets of the segments among the files of a partition's directory, ascending."""
    stems = (name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if _STEM.fullmatch(stem))


def _load_segments(
    opened: PartitionLog, disk: Disk, clean: bool, recovery_point: int, progress: Progress
) -> tuple[int, "dict[int, array[int]]"]:
    """Load or recover every segment. Returns the log end offset and the recovered segments.

    The latter map base offsets to the positions of the batches that have a producer id.
    """
    end_offset = opened.segments[0].base_offset
    recovered: dict[int, array[int]] = {}
    next_offsets = [*(segment.base_offset for segment in opened.segments[1:]), None]
    for index, (segment, next_offset) in enumerate(zip(opened.segments, next_offsets, strict=True)):
        suspect = not clean and (next_offset is None or next_offset > recovery_point)
        sound = segment.load()
        if not suspect:
            problem = index_problem(segment, next_offset) if sound else "one is missing or broken"
            if problem:
                name = segment.path(LOG_SUFFIX).name
                log.warning("%s: rebuilding the indexes of %s: %s", opened.name, name, problem)
            sound = not problem
        if sound and not suspect:
            end_offset = _end_offset(segment) if next_offset is None else next_offset
            segment.close()
            continue
        found = recover_segment(
            segment,
            opened.leader_epochs,
            opened.name,
            progress,
            opened.config.producer_ids_max,
        )
        if found.problem:  # or a second power cut could bring back what was cut, after new records
            disk.sync_path(segment.path(LOG_SUFFIX))
        recovered[segment.base_offset] = found.replayed
        end_offset = found.end_offset
        if end_offset <= recovery_point:
            # The checkpoint says that this segment is synced, so its rebuilt indexes must be too.
            segment.sync()
            disk.sync_directory(opened.directory)
        segment.close()
        if found.problem and suspect:
            _drop_segments(opened, index + 1, disk)
            break
        if suspect and next_offset is not None:
            _tell_gap(opened, found.end_offset, next_offset)
    return end_offset, recovered


def _tell_gap(opened: PartitionLog, end_offset: int, next_offset: int) -> None:
    """Warn that offsets are missing between two segments, unless compaction may be the reason."""
    if end_offset < next_offset and opened.gap_at < 0:
        opened.gap_at = end_offset
    if end_offset < next_offset and not opened.config.compact:
        log.warning(
            "%s: offsets %d to %d are missing: their segment was not yet on the disk when the "
            "machine stopped; the records after them are kept",
            opened.name,
            end_offset,
            next_offset - 1,
        )


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
    segment: LogSegment,
    leader_epochs: LeaderEpochs,
    name: str,
    progress: Progress,
    producers_kept: int,
) -> SegmentScan:
    """Read a segment, cut it after its sound part, rebuild its indexes; returns the scan.

    Leader epochs that the checkpoint lacks are taken from the batches.
    """
    size_on_disk = segment.size_bytes
    found = segment.scan(progress, producers_kept)
    if found.problem:
        log.warning(
            "%s: %s at position %d of %s; cut %d bytes after offset %d, which were never "
            "acknowledged or are damaged",
            name,
            found.problem,
            found.size_bytes,
            segment.path(LOG_SUFFIX).name,
            size_on_disk - found.size_bytes,
            found.end_offset - 1,
        )
    segment.rebuild(found)
    for epoch, start_offset in found.epochs:
        leader_epochs.assign(epoch, start_offset)
    return found


def _drop_segments(opened: PartitionLog, first: int, disk: Disk) -> None:
    """Remove segments after a damaged one, which would follow a gap, or before the log start."""
    for segment in opened.segments[first:]:
        log.warning("%s: removing segment %d after a damaged one", opened.name, segment.base_offset)
        for path in segment.delete_later():
            disk.remove(path)
    del opened.segments[first:]
    disk.sync_directory(opened.directory)  # or a crash could bring old segments back after new ones
