"""Kafka's checkpoint files: small text tables, each replaced as a whole.

Format: a line with the version (0), a line with the number of entries, then one line per entry with
its fields separated by blanks. An entry is ``topic partition offset`` in a data directory's
checkpoints and ``epoch start_offset`` in a partition's ``leader-epoch-checkpoint``.

Rules: a checkpoint is only a hint, or kwire can rebuild it from the log. A checkpoint that can't be
read therefore counts as empty, and a warning says so, and what follows from it. Each line ends with
a line feed: a last line without one may have lost digits.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from kwire.log.disk import Disk

log = logging.getLogger(__name__)

TopicPartition: TypeAlias = tuple[str, int]

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
DELETIONS = "kwire-deletions"

_VERSION = "0"

_CONSEQUENCES = {
    RECOVERY_POINTS: "after a crash whole logs are checked; nothing is to be done",
    LOG_START_OFFSETS: "records that were deleted may be back; DeleteRecords removes them",
    HIGH_WATERMARKS: "other replicas or the logs tell high watermarks; nothing is to be done",
    DELETIONS: "logs that were to be deleted are put aside; kwire strays remove removes them",
}
"""What follows for an operator if a file is broken; any other is made anew from the batches."""


def read_lines(path: Path, disk: Disk) -> list[list[str]]:
    """The fields of every entry of a checkpoint; empty if the file is missing or broken."""
    text = disk.read_text(path)
    if text is None or (not text and path.name == CLEANER_OFFSETS):  # Kafka creates it empty
        return []
    lines = text.splitlines()
    entries = [line.split() for line in lines[2:]]
    is_whole = text.endswith("\n") and len(lines) >= 2
    if not is_whole or lines[0] != _VERSION or lines[1] != str(len(entries)):
        tell_broken(path)
        return []
    return entries


def tell_broken(path: Path) -> None:
    """Write one line about a checkpoint that can't be read: the file, and what is to be done."""
    follows = _CONSEQUENCES.get(path.name, "it is made anew from the log; nothing is to be done")
    log.warning("%s is broken and ignored: %s", path, follows)


def write_lines(path: Path, entries: Iterable[Iterable[object]], disk: Disk) -> None:
    """Replace a checkpoint."""
    disk.write_atomically(path, text_of(entries))


def text_of(entries: Iterable[Iterable[object]]) -> bytes:
    """The content of a checkpoint."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return ("\n".join([_VERSION, str(len(lines)), *lines]) + "\n").encode()


def read_offsets(path: Path, disk: Disk) -> dict[TopicPartition, int]:
    """The offset of every partition in a checkpoint."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partition, offset in read_lines(path, disk)
        }
    except ValueError:
        tell_broken(path)
        return {}


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], disk: Disk) -> None:
    """Replace a checkpoint of offsets."""
    entries = ((topic, partition, offset) for (topic, partition), offset in sorted(offsets.items()))
    write_lines(path, entries, disk)
