"""Writes the checkpoint files of a data directory, with the offsets of its logs.

Rules:

- Every offset is looked up under the lock of the directory's checkpoints (``write_checkpoint``),
  high watermarks too. An offset that was looked up before would undo what another thread has
  written meanwhile for a log that was cut, or made anew under the name of a deleted one.
- A log is cut first, and its offsets are lowered in the checkpoints before it takes records again.
  So a lookup in the middle of a cut finds the old high watermark, but the lowering comes after it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from kwire.errors import KafkaError
from kwire.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.data_directory import DataDirectory
from kwire.log.partition_log import PartitionLog
from kwire.log.segments import LogSegments

Logs: TypeAlias = Mapping[TopicPartition, PartitionLog]
HighWatermarks: TypeAlias = Callable[[], Mapping[TopicPartition, int]]
"""Looks up the high watermarks of the partitions that are served; any thread may call it."""

ALL_CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)


def checkpoint(
    data: DataDirectory,
    logs: Logs,
    high_watermarks: HighWatermarks,
    names: Collection[str] = ALL_CHECKPOINTS,
    *,
    flush: bool = True,
) -> bool:
    """Write these checkpoints of one directory; False if the disk refused a call.

    With ``flush`` the rolled segments are flushed before, so that the recovery points pass them.
    A log that isn't served keeps the high watermark that an earlier process left.
    """
    here = partial(_logs_in, data, logs)

    def known() -> Mapping[TopicPartition, int]:
        return {**data.high_watermarks, **high_watermarks()}

    is_saved = True
    try:
        if flush and RECOVERY_POINTS in names:
            for opened in here().values():
                is_saved = _save(opened) and is_saved
        for name in names:
            data.write_checkpoint(name, partial(offsets_of, name, here, known))
    except KafkaError:
        return False
    except OSError as error:
        data.health.refused(f"cannot write the checkpoints in {data.path}", error)
        return False
    return is_saved


def _save(opened: PartitionLog) -> bool:
    """Flush the rolled segments and the leader epochs of a log; False if its files are missing.

    OSError, KafkaError. A log that another thread deletes meanwhile has lost nothing.
    """
    try:
        opened.flush_rolled()
        opened.leader_epochs.save()
    except FileNotFoundError as error:
        if not opened.is_abandoned:
            opened.health.refused(f"cannot save the leader epochs of {opened.name}", error)
            return False
    return True


def note_cuts(data: DataDirectory, logs: Logs, cut: Iterable[PartitionLog]) -> KafkaError | None:
    """Write the offsets of logs that were ``cut`` into the checkpoints; the error if that fails.

    After an error the directory is offline, also if it only lacks room: the logs fit their leader's
    again, so nothing would keep them from taking records that the checkpoints don't fit.
    """
    here = partial(_logs_in, data, logs)
    try:
        for name in (RECOVERY_POINTS, LOG_START_OFFSETS):
            data.write_checkpoint(name, partial(offsets_of, name, here, dict))
    except OSError as error:
        return data.health.fail(f"cannot write the checkpoints in {data.path}", error)
    return lower_high_watermarks(data, cut)


def lower_high_watermarks(data: DataDirectory, logs: Iterable[PartitionLog]) -> KafkaError | None:
    """Let no checkpointed high watermark lie beyond the end of one of these logs.

    Otherwise a start after a crash takes records for replicated that were appended after the log
    had lost its end, by a cut or with the power. Returns the error if that fails; the directory is
    offline then.
    """
    ends = {(o.topic, o.partition): o.log_end_offset for o in logs if o.health is data.health}
    try:
        data.lower_high_watermarks(ends)
    except OSError as error:
        return data.health.fail(f"cannot write the checkpoints in {data.path}", error)
    return None


def note_lost_ends(
    data: DataDirectory, logs: Logs, found: Sequence[PartitionLog]
) -> KafkaError | None:
    """Lower what lies beyond the ends of the logs that a start has found after a crash.

    The power may have taken records, and a cut may have been interrupted before its offsets were in
    the checkpoints. Returns the error if that fails; the directory is offline then.
    """
    points = data.recovery_points
    here = (one for one in found if one.health is data.health)
    if any(points.get((one.topic, one.partition), 0) > one.log_end_offset for one in here):
        return note_cuts(data, logs, found)
    return lower_high_watermarks(data, found)


def _logs_in(data: DataDirectory, logs: Logs) -> dict[TopicPartition, PartitionLog]:
    """The logs in one data directory, and the copies that arrive there."""
    found = {k: v for k, v in dict(logs).items() if v.health is data.health}
    return {**data.arriving, **found}


def offsets_of(
    name: str, get_logs: Callable[[], Logs], get_high_watermarks: HighWatermarks
) -> dict[TopicPartition, int]:
    """Return the content of the checkpoint ``name`` for the logs of one data directory.

    A log without a known high watermark has the smallest one: its records may not be replicated.
    The logs are looked up first. So the watermark of a log that was made anew isn't that of the
    deleted log of its name, whose role had ended before.
    """
    logs = get_logs()
    if name == RECOVERY_POINTS:
        return {key: _recovery_point(opened) for key, opened in logs.items()}
    if name == LOG_START_OFFSETS:
        return {
            key: opened.log_start_offset
            for key, opened in logs.items()
            if opened.log_start_offset > opened.segments[0].base_offset
        }
    high_watermarks = get_high_watermarks()
    return {
        key: min(high_watermarks.get(key, opened.log_start_offset), opened.log_end_offset)
        for key, opened in logs.items()
    }


def _recovery_point(opened: PartitionLog) -> int:
    """The recovery point to write into the checkpoint.

    The next start trusts the indexes of every segment wholly before the recovery point. An index is
    completed only when its segment is rolled. The recovery point therefore stays within the first
    segment whose indexes aren't synced yet.
    """
    segments = LogSegments(opened.segments)  # a copy: another thread may change the list
    unsure = [*opened.unflushed, segments.active][0].base_offset
    following = segments[segments.index_of(unsure) + 1 :]
    end_offset = following[0].base_offset if following else opened.log_end_offset
    if opened.sure_end_offset == opened.log_end_offset or end_offset == unsure:
        return opened.recovery_point
    return min(opened.recovery_point, end_offset - 1)
