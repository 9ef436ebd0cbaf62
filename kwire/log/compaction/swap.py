"""Replacing segments by the cleaned segment that was made from them.

Rules:

- Files are renamed in an order in which ``interrupted_operations`` can finish or undo the swap
  after a crash between any two steps: first ``.cleaned`` → ``.swap``, the log file first; then a
  sync of the directory, because a power loss could otherwise keep later renames and lose these;
  then the old files → ``.deleted``; then ``.swap`` → the final names. If a crash comes before the
  last file is ``.swap``, the next start undoes the swap; if it comes later, the next start finishes
  the swap.
- The old files are removed after ``file.delete.delay.ms``, so readers of them aren't disturbed.
- Nothing is replaced if the log has changed since the clean started.
- After a disk error halfway, the data directory is offline; the next start finishes the swap.

Source: LocalLog.replaceSegments of Kafka.
"""

from collections.abc import Sequence
from contextlib import suppress

from kwire.log.compaction.cleaned_segment import SUFFIXES
from kwire.log.compaction.job import CleanedGroup
from kwire.log.disk import Disk
from kwire.log.interrupted_operations import CLEANED_SUFFIX, SWAP_SUFFIX
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_snapshot import snapshot_path
from kwire.log.segment import LogSegment
from kwire.log.segments import LogSegments


def replace_segments(
    log: PartitionLog, old: Sequence[LogSegment], group: CleanedGroup, steady_ms: int, disk: Disk
) -> bool:
    """Do ``begin_swap``, sync the directory, and do ``finish_swap``; for callers that may block."""
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
    """Give a cleaned segment its ``.swap`` names; False if the log has changed.

    The caller has to sync the directory, perhaps in a thread, and then to call ``finish_swap`` or
    ``undo_swap``. After an OSError nothing has happened.
    """
    if not are_in_log(log, old):
        discard_cleaned(log, group.base_offset, disk)
        return False
    # The cleaned segment takes the name of the first that it replaces.
    assert group.base_offset == old[0].base_offset, (log.name, group.base_offset)
    try:
        _rename(log.new_segment(group.base_offset, 0), CLEANED_SUFFIX, SWAP_SUFFIX, disk)
    except OSError:
        undo_swap(log, group, disk)
        raise
    return True


def finish_swap(
    log: PartitionLog, old: Sequence[LogSegment], group: CleanedGroup, steady_ms: int, disk: Disk
) -> bool:
    """Replace ``old`` by the cleaned segment; False if the log has changed, and then undone.

    The final names aren't synced: the caller does that, in a thread. Raises KafkaError
    (KAFKA_STORAGE_ERROR) if the log is offline afterwards.
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
        if log.is_abandoned:  # a thread has deleted the log meanwhile, so the swap is obsolete
            raise
        raise log.health.fail(f"cannot swap a segment of {log.name}", error) from error
    # A new list: an iteration over the old list goes on with the old files.
    assert new.base_offset == old[0].base_offset, (log.name, new.base_offset)
    kept = [*log.segments[:first], new, *log.segments[first + len(old) :]]
    log.segments = LogSegments(kept)
    log.unflushed = [segment for segment in log.unflushed if segment not in old]
    for segment in old[1:]:
        with suppress(OSError):  # a superfluous snapshot does no harm
            disk.remove(snapshot_path(log.directory, segment.base_offset))
    return True


def are_in_log(log: PartitionLog, segments: Sequence[LogSegment]) -> bool:
    """Whether a log has exactly these segments, in sequence, and takes appends."""
    if log.is_offline or log.is_abandoned:
        return False
    if not segments:
        return True
    if segments[0] not in log.segments:
        return False
    first = log.segments.index(segments[0])
    return log.segments[first : first + len(segments)] == list(segments)


def discard_cleaned(log: PartitionLog, base_offset: int, disk: Disk) -> None:
    """Remove the files of a cleaned segment that isn't needed."""
    segment = log.new_segment(base_offset, 0)
    for suffix in SUFFIXES:
        with suppress(OSError):  # the next start removes them
            disk.remove(segment.path(suffix + CLEANED_SUFFIX))


def discard_all_cleaned(log: PartitionLog, disk: Disk) -> None:
    """Remove all files that an aborted clean has left."""
    with suppress(OSError):
        for name in disk.names(log.directory):
            if name.endswith(CLEANED_SUFFIX):
                disk.remove(log.directory / name)


def _rename(segment: LogSegment, old_suffix: str, new_suffix: str, disk: Disk) -> None:
    """Rename the files of a segment; only ``.txnindex`` may be missing. OSError."""
    for suffix in SUFFIXES:
        try:
            disk.rename(segment.path(suffix + old_suffix), segment.path(suffix + new_suffix))
        except FileNotFoundError:
            if suffix != ".txnindex":
                raise


def undo_swap(log: PartitionLog, group: CleanedGroup, disk: Disk) -> None:
    """Remove the files of a swap that won't be finished.

    The ``.swap`` files go first. After an error the ``.cleaned`` files stay, because a ``.swap``
    file without them would count as complete.
    """
    segment = log.new_segment(group.base_offset, 0)
    with suppress(OSError):
        for ending in (SWAP_SUFFIX, CLEANED_SUFFIX):
            for suffix in SUFFIXES:
                disk.remove(segment.path(suffix + ending))
