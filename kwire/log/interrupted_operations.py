"""Finishes deletions, rolls and compactions that a crash interrupted in a partition's directory.

Rules (LogLoader of Kafka):

- ``.deleted``, ``.cleaned`` and ``.tmp`` files are removed: they are obsolete or incomplete.
- A ``.swap`` log file is complete, because compaction synced it before giving it that name. It
  replaces the segments whose offsets it covers. A swap file at or after the first ``.cleaned`` file
  belongs to a swap that had not begun, so it is removed.
- An index file without its log file is removed.
"""

import logging
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SCAN_BYTES
from kwire.record.batch_scan import scan_headers

log = logging.getLogger(__name__)

SWAP_SUFFIX = ".swap"
CLEANED_SUFFIX = ".cleaned"
_UNFINISHED_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


def finish_interrupted_operations(directory: Path, names: list[str], disk: Disk) -> list[str]:
    """Bring a directory into a state in which it holds only valid segments; OSError.

    ``names`` are those of its files; returns the names afterwards, perhaps with those of removed
    indexes.
    """
    if any(name.endswith(_UNFINISHED_SUFFIXES) for name in names):
        _finish_swaps(directory, names, disk)
        names = disk.names(directory)
    stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        if name.endswith(_INDEX_SUFFIXES) and name.split(".", 1)[0] not in stems:
            disk.remove(directory / name)
    return names


def _finish_swaps(directory: Path, names: list[str], disk: Disk) -> None:
    disk.sync_directory(directory)  # a power loss must not undo the renames that decide what goes
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = []
    for name in sorted(names):
        if name.endswith(SWAP_SUFFIX):
            if not cleaned or _base_offset(name) < min(cleaned):
                swaps.append(name)
            else:
                disk.remove(directory / name)
        elif name.endswith(_UNFINISHED_SUFFIXES):
            disk.remove(directory / name)
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(directory / name, names, disk)
    for name in swaps:
        log.warning("%s: finishing the swap of %s", directory, name)
        disk.rename(directory / name, directory / name.removesuffix(SWAP_SUFFIX))
    disk.sync_directory(directory)


def _remove_replaced(swap: Path, names: list[str], disk: Disk) -> None:
    """Remove the segments whose offsets a swap file covers."""
    first = _base_offset(swap.name)
    following = max(_offset_after(swap, disk), first + 1)
    for name in names:
        belongs = name.endswith((LOG_SUFFIX, *_INDEX_SUFFIXES))
        if belongs and first <= _base_offset(name) < following:
            disk.remove(swap.with_name(name))


def _offset_after(path: Path, disk: Disk) -> int:
    """The offset after the last batch of a log file."""
    fd = disk.open(path)
    try:
        end = -1
        for header in scan_headers(
            lambda at, size: disk.pread(fd, size, at), 0, disk.size(fd), SCAN_BYTES
        ):
            end = header.last_offset + 1
        return end
    finally:
        disk.close(fd)


def _base_offset(name: str) -> int:
    """The number at the start of a file's name, -1 if there is none."""
    stem = name.split(".", 1)[0]
    return int(stem) if stem.isdigit() else -1
