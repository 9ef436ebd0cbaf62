"""What a deletion, a roll or a compaction left half done in a partition's directory.

Rules (LogLoader of Kafka):

- ``.deleted``, ``.cleaned`` and ``.tmp`` files go: they are no longer needed, or not yet whole.
- A ``.swap`` file of a log is complete: compaction had synced it before it got that name. The
  segments it replaces are removed and it takes its place. Swap files at or after the first
  ``.cleaned`` one belong to a swap that had not begun, and go.
- An index without its log goes.
"""

import logging
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SCAN_BYTES
from kwire.record.batch_scan import scan_headers

log = logging.getLogger(__name__)

SWAP_SUFFIX = ".swap"
CLEANED_SUFFIX = ".cleaned"
_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


def finish_leftovers(directory: Path, disk: Disk) -> None:
    """Bring a directory into a state in which its segments are what counts; OSError."""
    _remove_all(directory, ("*" + DELETED_SUFFIX, "*.tmp"), disk)
    cleaned = [_base_offset(path) for path in directory.glob(f"*{LOG_SUFFIX}{CLEANED_SUFFIX}")]
    if cleaned:
        for path in list(directory.glob("*" + SWAP_SUFFIX)):
            if _base_offset(path) >= min(cleaned):
                disk.remove(path)
    _remove_all(directory, ("*" + CLEANED_SUFFIX,), disk)
    for path in sorted(directory.glob(f"*{LOG_SUFFIX}{SWAP_SUFFIX}")):
        _remove_replaced(path, disk)
    for path in sorted(directory.glob("*" + SWAP_SUFFIX)):
        log.warning("%s: finishing a swap", path)
        disk.rename(path, path.with_name(path.name.removesuffix(SWAP_SUFFIX)))
    for suffix in _INDEX_SUFFIXES:
        for path in list(directory.glob("*" + suffix)):
            if not path.with_suffix(LOG_SUFFIX).exists():
                disk.remove(path)


def _remove_all(directory: Path, patterns: tuple[str, ...], disk: Disk) -> None:
    for pattern in patterns:
        for path in list(directory.glob(pattern)):
            disk.remove(path)


def _remove_replaced(swap: Path, disk: Disk) -> None:
    """Remove the segments whose offsets a swap file holds."""
    first = _base_offset(swap)
    following = _offset_after(swap, disk)
    for path in list(swap.parent.glob("*" + LOG_SUFFIX)):
        if first <= _base_offset(path) < max(following, first + 1):
            for suffix in (LOG_SUFFIX, *_INDEX_SUFFIXES):
                disk.remove(path.with_suffix(suffix))


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


def _base_offset(path: Path) -> int:
    """The number that a file's name begins with, -1 where it doesn't."""
    stem = path.name.split(".", 1)[0]
    return int(stem) if stem.isdigit() else -1
