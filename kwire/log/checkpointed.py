"""What is written down of the logs of a data directory, checkpoint by checkpoint."""

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
    """What a checkpoint says of the logs of a directory."""
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
    """The recovery point to be written down.

    Who finds a segment wholly before it trusts its indexes too, so it stays within the first
    segment whose indexes aren't synced: they are completed when it is rolled.
    """
    segments = LogSegments(opened.segments)  # a thread looks at it, and they may change
    unsure = [*opened.unflushed, segments.active][0].base_offset
    following = segments[segments.index_of(unsure) + 1 :]
    end_offset = following[0].base_offset if following else opened.log_end_offset
    if opened.sure_end_offset == opened.log_end_offset or end_offset == unsure:
        return opened.recovery_point
    return min(opened.recovery_point, end_offset - 1)
