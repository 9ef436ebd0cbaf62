"""Writes the checkpoint files of a data directory, with the offsets of its logs."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

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

ALL_CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)


def checkpoint(
    data: DataDirectory,
    logs: Mapping[TopicPartition, PartitionLog],
    high_watermarks: Mapping[TopicPartition, int],
    names: Collection[str] = ALL_CHECKPOINTS,
    *,
    flush: bool = True,
) -> bool:
    """Write these checkpoints of one directory; False if the disk refused a call.

    With ``flush`` the rolled segments are flushed before, so that the recovery points pass them.
    """

    def here() -> dict[TopicPartition, PartitionLog]:
        found = {k: v for k, v in dict(logs).items() if v.health is data.health}
        return {**data.arriving, **found}

    try:
        if flush and RECOVERY_POINTS in names:
            for opened in here().values():
                opened.flush_rolled()
                opened.leader_epochs.save()
        for name in names:
            known = high_watermarks
            if name == HIGH_WATERMARKS and not known.keys() >= here().keys():
                known = {**data.high_watermarks, **known}  # keep those of logs that weren't served
            data.write_checkpoint(name, partial(offsets_of, name, here, known))
    except KafkaError:
        return False
    except OSError as error:
        data.health.refused(f"cannot write the checkpoints in {data.path}", error)
        return False
    return True


def lower_high_watermarks(data: DataDirectory, logs: Iterable[PartitionLog]) -> None:
    """Let no checkpointed high watermark lie beyond the end of one of these logs.

    Otherwise a start after a crash takes records for replicated that were appended after the log
    had lost its end, by a cut or with the power.
    """
    ends = {(o.topic, o.partition): o.log_end_offset for o in logs if o.health is data.health}
    try:
        data.lower_high_watermarks(ends)
    except OSError as error:
        data.health.refused(f"cannot write the checkpoints in {data.path}", error)


def offsets_of(
    name: str,
    get_logs: Callable[[], Mapping[TopicPartition, PartitionLog]],
    high_watermarks: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the content of the checkpoint ``name`` for the logs of one data directory.

    A log without a known high watermark has the smallest one: it may have been made since the
    watermarks were looked up, and its records may not be replicated.
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
