"""Searching a log by timestamp.

Rules:

- The answer is the *first* record with at least the timestamp, inside its batch and decompressed if
  need be; timestamps need not ascend. The time index says where a segment can be skipped.
- A batch whose records can't be read counts as one record at its base offset with the timestamp of
  its header: nobody checked them (docs/decisions/0011), and readers can go on from there.
- With ``log.hurry`` entered, ColdPages is raised instead of waiting for the disk.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kwire.log.partition_log import PartitionLog
from kwire.log.segment import LogSegment
from kwire.record.batch import InvalidRecords
from kwire.record.batch_scan import BatchHeader
from kwire.record.walk import record_times


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
        if segment.max_timestamp < timestamp and segment.newest_timestamp() < timestamp:
            continue
        found = _search(segment, timestamp, log.log_start_offset)
        if found is not None:
            return found if found.offset < end_offset else None
    return None


def max_timestamp(log: PartitionLog) -> FoundOffset | None:
    """The first record that has the largest timestamp of all, None in an empty log."""
    if log.log_end_offset == log.log_start_offset:
        return None
    largest = max(segment.newest_timestamp() for segment in log.segments)
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
            for offset, timestamp in _times(segment, header):
                is_larger = timestamp > (best.timestamp if best else -1)
                if is_larger and offset >= log.log_start_offset:
                    best = FoundOffset(offset, timestamp, header.leader_epoch)
    return best


def _search(segment: LogSegment, timestamp: int, log_start_offset: int) -> FoundOffset | None:
    """The first record of a segment with at least ``timestamp``, from the log start offset on."""
    entry = segment.time_index.floor(timestamp - 1)
    start = segment.position_before(segment.base_offset + entry[1]) if entry else 0
    for header in segment.headers(start):
        if header.max_timestamp < timestamp or header.last_offset < log_start_offset:
            continue
        for offset, found in _times(segment, header):
            if found >= timestamp and offset >= log_start_offset:
                return FoundOffset(offset, found, header.leader_epoch)
    return None


def _times(segment: LogSegment, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of the records of a batch."""
    try:
        yield from record_times(segment.batch_at(header))
    except InvalidRecords:
        yield header.base_offset, header.max_timestamp
