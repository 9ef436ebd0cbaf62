"""Putting a cleaned segment in the place of those it was made of.

Rules:

- The files are renamed in an order that a crash between any two of them leaves something that
  ``leftovers`` can finish or undo: ``.cleaned`` → ``.swap``, the log first, and the directory is
  synced, for the machine may die as well and keep later names alone; then the old files →
  ``.deleted``; then ``.swap`` → their own names. Until the last file is ``.swap`` nothing has
  happened; from then on everything has.
- The old files are removed after ``file.delete.delay.ms``: whoever reads from them isn't disturbed.
- Nothing is replaced in a log that isn't what it was when the clean began.
- After an error of the disk halfway the data directory is offline; the next start finishes.

Source: LocalLog.replaceSegments of Kafka.
"""

from collections.abc import Sequence
from contextlib import suppress

from kwire.log.compaction.cleaned_segment import SUFFIXES
from kwire.log.compaction.job import CleanedGroup
from kwire.log.disk import Disk
from kwire.log.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshot import snapshot_path
from kwire.log.segment import LogSegment
from kwire.log.segments import LogSegments


def replace_segments(
    log: PartitionLog, old: Sequence[LogSegment], group: CleanedGroup, steady_ms: int, disk: Disk
) -> bool:
    """``begin_swap``, a sync of the directory, ``finish_swap``: for who may wait for the disk."""
    if not begin_swap(log, old, group, disk):
        return False
    try:
        disk.sync_directory(log.directory)
    except OSError:
        undo_swap(log, group, disk)
        raise
    return finish_swap(log, old, group, steady_ms, disk)


def begin_swap(
    log: PartitionLog, old: Sequence[LogSegment], group: CleanedGroup, disk: Disk
) -> bool:
    """Give a cleaned segment the names that a crash can't undo; False where the log has changed.

    The directory has to be synced after it, perhaps in a thread, and then ``finish_swap`` be called
    or ``undo_swap``. Raises OSError when nothing has happened.
    """
    if not are_in_log(log, old):
        discard_cleaned(log, group.base_offset, disk)
        return False
    try:
        _rename(log.new_segment(group.base_offset, 0), CLEANED_SUFFIX, SWAP_SUFFIX, disk)
    except OSError:
        undo_swap(log, group, disk)
        raise
    return True


def finish_swap(
    log: PartitionLog, old: Sequence[LogSegment], group: CleanedGroup, steady_ms: int, disk: Disk
) -> bool:
    """Swap a cleaned segment in for ``old``; False, and undone, where the log has changed.

    The last names aren't synced: that is for the caller to do, in a thread. Raises KafkaError
    (KAFKA_STORAGE_ERROR) when the log is offline after it.
    """
    if not are_in_log(log, old):
        undo_swap(log, group, disk)
        return False
    first = log.segments.index(old[0])
    new = log.new_segment(group.base_offset, 0)
    try:
        for segment in old:
            log.doomed.append((steady_ms, segment.delete_later()))
        _rename(new, SWAP_SUFFIX, "", disk)
        if not new.load():
            raise OSError(0, "the indexes of a cleaned segment are broken")
    except OSError as error:
        if log.is_abandoned:  # a thread took the directory away meanwhile: nobody needs the swap
            raise
        raise log.health.fail(f"cannot swap a segment of {log.name}", error) from error
    # A new list: whoever goes through the old one reads on in the old files.
    kept = [*log.segments[:first], new, *log.segments[first + len(old) :]]
    log.segments = LogSegments(kept)
    log.unflushed = [segment for segment in log.unflushed if segment not in old]
    for segment in old[1:]:
        with suppress(OSError):  # one too many does no harm
            disk.remove(snapshot_path(log.directory, segment.base_offset))
    return True


def are_in_log(log: PartitionLog, segments: Sequence[LogSegment]) -> bool:
    """Whether a log has these very segments, one after the other, and takes appends."""
    if log.is_offline or log.is_abandoned:
        return False
    if not segments:
        return True
    if segments[0] not in log.segments:
        return False
    first = log.segments.index(segments[0])
    return log.segments[first : first + len(segments)] == list(segments)


def discard_cleaned(log: PartitionLog, base_offset: int, disk: Disk) -> None:
    """Remove the files of a cleaned segment that nobody wants."""
    segment = log.new_segment(base_offset, 0)
    for suffix in SUFFIXES:
        with suppress(OSError):  # the next start removes them
            disk.remove(segment.path(suffix + CLEANED_SUFFIX))


def discard_all_cleaned(log: PartitionLog, disk: Disk) -> None:
    """Remove what a clean that was broken off has left."""
    with suppress(OSError):
        for name in disk.names(log.directory):
            if name.endswith(CLEANED_SUFFIX):
                disk.remove(log.directory / name)


def _rename(segment: LogSegment, old_suffix: str, new_suffix: str, disk: Disk) -> None:
    """Rename the files of a segment that are there; OSError."""
    for suffix in SUFFIXES:
        try:
            disk.rename(segment.path(suffix + old_suffix), segment.path(suffix + new_suffix))
        except FileNotFoundError:
            if suffix != ".txnindex":
                raise


def undo_swap(log: PartitionLog, group: CleanedGroup, disk: Disk) -> None:
    """Remove the files of a swap that isn't to be finished.

    The ``.swap`` ones first, and no more after an error: by themselves they would count.
    """
    segment = log.new_segment(group.base_offset, 0)
    with suppress(OSError):
        for ending in (SWAP_SUFFIX, CLEANED_SUFFIX):
            for suffix in SUFFIXES:
                disk.remove(segment.path(suffix + ending))
