"""Lists and removes stray logs: those of deleted topics, and of replicas that moved away.

Rules:

- A stray is a log's directory that was renamed to ``<topic>-<partition>.<32 hex digits>-stray``.
  Neither kwire nor Apache Kafka uses it any more, so it can be read and removed while a broker uses
  the data directory.
- A start puts a log aside if the metadata no longer gives its partition to this broker: the topic
  was deleted, or the replica moved to another broker, while this broker was down.
- Only an operator removes a stray, because it may be all that is left of a topic whose metadata was
  lost. Apache Kafka keeps strays forever too (LogManager: isStrayReplica, "Loaded stray log").
"""

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kwire.log.disk import Disk

STRAY_SUFFIX = "-stray"
MAX_NAME = 255
_STRAY_DIRECTORY = re.compile(r"(?P<log>.+)\.[0-9a-f]{32}-stray")


class Stray(NamedTuple):
    """A stray directory, the log that it held (``topic-partition``), and the size of its files."""

    path: Path
    log: str
    size_bytes: int


class NoSuchStray(Exception):
    """No stray has the given name; the text is one line."""


def path_with_suffix(directory: Path, token: str, suffix: str) -> Path:
    """The path of a partition's directory with a suffix; the name has 255 bytes at most."""
    end = f".{token}{suffix}"
    return directory.with_name(directory.name[: MAX_NAME - len(end)] + end)


def find_strays(directory: Path, disk: Disk) -> list[Stray]:
    """The strays of a data directory, sorted by name; OSError."""
    found = []
    for name in sorted(disk.names(directory)):
        match = _STRAY_DIRECTORY.fullmatch(name)
        path = directory / name
        if match and path.is_dir() and not path.is_symlink():
            with suppress(FileNotFoundError):  # an operator may be removing it right now
                size_bytes = sum(disk.size_of(path / file) for file in disk.names(path))
                found.append(Stray(path, match["log"], size_bytes))
    return found


def remove_strays(directory: Path, names: Collection[str] | None, disk: Disk) -> list[Stray]:
    """Remove the strays with these names, or all for None; returns the removed ones.

    Raises OSError, and NoSuchStray before anything is removed.
    """
    found = find_strays(directory, disk)
    missing = set(names or ()) - {stray.path.name for stray in found}
    if missing:
        raise NoSuchStray(f"{directory} has no stray {min(missing)}")
    chosen = [stray for stray in found if names is None or stray.path.name in names]
    for stray in chosen:
        disk.remove_tree(stray.path)
        if stray.path.exists():
            raise OSError(f"cannot remove {stray.path}")
    if chosen:
        disk.sync_directory(directory)
    return chosen


def describe_strays(directory: Path, strays: list[Stray]) -> str:
    """One line that says how many strays there are, their size, and how to remove them."""
    size_mb = sum(stray.size_bytes for stray in strays) / 1e6
    return (
        f"{directory} has {len(strays)} stray log(s), {size_mb:.1f} MB, of deleted topics "
        "or of replicas that moved away: "
        f"kwire strays list --data-dir {directory} names them, kwire strays remove removes them"
    )
