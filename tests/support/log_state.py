"""What a log consists of now, for tests that compare it: segments, producers, leader epochs.

The tests ask here, so that only this module has to know how a PartitionLog keeps these things.
"""

from pathlib import Path

from kwire.log.partition_log import PartitionLog
from kwire.log.producer_entry import ProducerEntry


def log_files(log: PartitionLog) -> list[Path]:
    """The files with the records of a log, one for each segment, oldest first."""
    return sorted(log.directory.glob("[0-9]" * 20 + ".log"))


def base_offsets(log: PartitionLog) -> list[int]:
    """Where the segments of a log begin, by the names of their files."""
    return [int(path.stem) for path in log_files(log)]


def segment_sizes(log: PartitionLog) -> list[int]:
    """The sizes of these files, in bytes."""
    return [path.stat().st_size for path in log_files(log)]


def known_producers(log: PartitionLog) -> dict[int, ProducerEntry]:
    """What a log knows of its producers, by producer id."""
    return log.producers.producers


def leader_epochs(log: PartitionLog) -> list[tuple[int, int]]:
    """Each leader epoch of a log, and its first offset."""
    return log.leader_epochs.entries


def close_files(log: PartitionLog) -> None:
    """Close a log's files without a flush, as the end of its process does."""
    for segment in log.segments:
        segment.close()
