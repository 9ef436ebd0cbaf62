"""What a move between data directories leaves on the disks, and what a start makes of it.

Rules:

- The copy is ``<topic>-<partition>.<32 hex digits>-future``, as in Kafka, until it is complete. A
  start never serves it: the move begins anew.
- A complete copy holds the file ``kwire-moved`` and gets the partition's name before the former
  directory loses it. A crash between the two leaves two directories of one log. The start serves
  the longer log, or the marked one if both are equally long, and puts the other one aside.
- The file is removed once the former directory has lost its name for good.

Source: LogManager.replaceCurrentWithFutureLog of Kafka, which refuses to start after such a crash.
"""

import logging
import re

from kwire.log.checkpoints import TopicPartition
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.log.strays import STRAY_SUFFIX, aside

log = logging.getLogger(__name__)

FUTURE_SUFFIX = "-future"
MARKER = "kwire-moved"
_FUTURE_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-future")


def future_of(name: str) -> TopicPartition | None:
    """The partition whose unfinished copy a directory of this name is; None if it is none."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return (match["topic"], int(match["partition"])) if match else None


def moved_one(
    one: PartitionLog, other: PartitionLog, token: str, disk: Disk
) -> PartitionLog | None:
    """Which of two logs of one partition a move has left to serve; the other one is put aside.

    None if none or both are marked, because then no move was interrupted here. OSError.
    """
    marked = [found for found in (one, other) if MARKER in disk.names(found.directory)]
    if len(marked) != 1:
        return None
    former = other if marked[0] is one else one
    kept = marked[0] if marked[0].log_end_offset >= former.log_end_offset else former
    left = former if kept is marked[0] else marked[0]
    target = aside(left.directory, token, STRAY_SUFFIX)
    log.warning("%s was moved to %s; putting it aside", left.directory, kept.directory)
    left.abandon()
    disk.rename(left.directory, target)
    disk.sync_directory(target.parent)
    return kept
