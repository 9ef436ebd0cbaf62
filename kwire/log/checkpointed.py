"""The offsets that each checkpoint file of a data directory holds for the directory's logs."""

from collections.abc import Callable, Mapping

from kwire.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.partition_log import PartitionLog
from kwire.log.segments import LogSegments

ALL_CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)


def offsets_of(
    name: str,
    get_logs: Callable[[], Mapping[TopicPartition, PartitionLog]],
    high_watermarks: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the content of the checkpoint ``name`` for the logs of one data directory."""
    logs = get_logs()
    if name == RECOVERY_POINTS:
        return {key: _recovery_point(opened) for key, opened in logs.items()}
    if name == LOG_START_OFFSETS:
        return {
            key: opened.log_start_offset
            for key, opened in logs.items()
            if opened.log_start_offset > opened.segments[0].base_offset
        }
    return {key: high_watermarks.get(key, opened.log_end_offset) for key, opened in logs.items()}


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
