"""Searching a log by timestamp.

Rules: the answer is the *first* record with at least the timestamp, inside its batch and
decompressed if need be; timestamps need not ascend. The time index
says where a segment can be skipped.
"""

from typing import NamedTuple

from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.record.records import records


class FoundOffset(NamedTuple):
    """An offset, the timestamp of its record in ms, and the leader epoch that wrote it."""

    offset: int
    timestamp: int
    leader_epoch: int


def offset_for_timestamp(
    log: PartitionLog, timestamp: int, *, end_offset: int
) -> FoundOffset | None:
    """The first record with at least this timestamp before ``end_offset``, None without one."""
    for segment in log.segments:
        if segment.max_timestamp < timestamp:
            continue
        found = _search(segment, timestamp, log.log_start_offset)
        if found is not None:
            return found if found.offset < end_offset else None
    return None


def max_timestamp(log: PartitionLog) -> FoundOffset | None:
    """The first record that has the largest timestamp of all, None in an empty log."""
    if log.log_end_offset == log.log_start_offset:
        return None
    largest = max(segment.max_timestamp for segment in log.segments)
    if largest < 0:
        return None
    found = offset_for_timestamp(log, largest, end_offset=log.log_end_offset)
    # Where the largest one lies before the log start offset the others have to be looked through.
    return found or _largest_of_all(log)


def _largest_of_all(log: PartitionLog) -> FoundOffset | None:
    """The first record with the largest timestamp, by reading from the log start offset on."""
    best: FoundOffset | None = None
    for segment in log.segments.from_offset(log.log_start_offset):
        for header in segment.headers():
            if best is not None and header.max_timestamp <= best.timestamp:
                continue
            for record in records(segment.batch_at(header)):
                is_larger = record.timestamp > (best.timestamp if best else -1)
                if is_larger and record.offset >= log.log_start_offset:
                    best = FoundOffset(record.offset, record.timestamp, header.leader_epoch)
    return best


def _search(segment: LogSegment, timestamp: int, log_start_offset: int) -> FoundOffset | None:
    """The first record of a segment with at least ``timestamp``, from the log start offset on."""
    entry = segment.time_index.floor(timestamp - 1)
    start = segment.offset_index.floor(entry[1]) if entry else None
    for header in segment.headers(start[1] if start else 0):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for record in records(segment.batch_at(header)):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return FoundOffset(record.offset, record.timestamp, header.leader_epoch)
    return None
