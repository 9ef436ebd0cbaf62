"""Retention of one log in a single step, for tests whose logs have no other users."""

from kwire.log import retention
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog


def delete_old_segments(
    log: PartitionLog, now_ms: int, high_watermark: int, disk: Disk, steady_ms: int
) -> int:
    """Delete all segments past retention; returns how many."""
    clocks = retention.Clocks(lambda: now_ms, lambda: steady_ms, lambda: lambda _: 0)
    return len(list(retention.delete_old_segments(log, clocks, lambda: high_watermark, disk)))
