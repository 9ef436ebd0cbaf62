"""The directories that a move of a log between data directories leaves, and how a start treats
them.

Rules:

- Until the copy is complete, its directory is named ``<topic>-<partition>.<32 hex digits>-future``,
  as in Kafka. A start never serves such a copy. The move begins again instead.
- A complete copy contains the file ``kwire-moved``. It gets the partition's name before the former
  directory is renamed. So a crash in between leaves two directories with one name. The start serves
  the longer log, or the one with the file if both are equally long. It puts the other directory
  aside.
- The file is removed after the former directory has been renamed or deleted for good.

Source: LogManager.replaceCurrentWithFutureLog of Kafka, which refuses to start after such a crash.
"""

import logging
import re

from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.stray_partitions import STRAY_SUFFIX, path_with_suffix

log = logging.getLogger(__name__)

FUTURE_SUFFIX = "-future"
MARKER = "kwire-moved"
_FUTURE_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-future")


def future_of(name: str) -> TopicPartition | None:
    """The partition whose unfinished copy is in a directory of this name, or None."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


def moved_one(
    opened: PartitionLog, other: PartitionLog, token: str, disk: Disk
) -> PartitionLog | None:
    """Of two logs of one partition, return the one to serve after an interrupted move.

    The caller puts the other log aside. Returns None if none or both have the file ``kwire-moved``:
    then no move was interrupted. OSError.
    """
    marked = [found for found in (opened, other) if MARKER in disk.names(found.directory)]
    if len(marked) != 1:
        return None
    former = other if marked[0] is opened else opened
    kept = marked[0] if marked[0].log_end_offset >= former.log_end_offset else former
    left = former if kept is marked[0] else marked[0]
    target = path_with_suffix(left.directory, token, STRAY_SUFFIX)
    log.warning("%s was moved to %s; putting it aside", left.directory, kept.directory)
    left.abandon()
    disk.rename(left.directory, target)
    disk.sync_directory(target.parent)
    return kept
