"""The segments of a partition's directory, which a broker may change at the same time.

Rules:

- Nothing is written, locked or created.
- A segment is the file ``N.log``. While a broker swaps in a compacted segment, it is ``N.log.swap``
  for a moment. After retention or compaction has removed it, it is ``N.log.deleted`` for a minute;
  such a file is read only if no segment that exists has the offsets.
- ``N.log.cleaned`` is incomplete and never read.
- An open file stays readable, even if it is renamed or removed.
- Indexes are hints. A position from an index counts only if the header there has the index's
  offset.

Source: LocalLog.replaceSegments, LogSegment of Kafka.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kwire.log.index_files import (
    OffsetEntry,
    TimeEntry,
    entry_before,
    offset_entries,
    time_entries,
    transaction_entries,
)
from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import HEADER_BYTES, MAGIC
from kwire.record.batch_scan import BatchHeader, scan_headers

LOG = ".log"
_SWAP, _DELETED = ".swap", ".deleted"
_TRIES = 5
"""How often a directory is listed anew because a file went away between listing and opening."""

_SCAN_BYTES = 64 * 1024
_START = struct.Struct(">q8xb6xi")
"""Base offset, magic and last offset delta of a batch."""


class OpenSegment:
    """A segment's open file; closed by ``with``."""

    def __init__(self, path: Path, base: int) -> None:
        self.path = path
        self.base = base
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._fd).st_size

    def __enter__(self) -> "OpenSegment":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``position``."""
        return os.pread(self._fd, size, position)

    def headers(self, position: int) -> Iterator[BatchHeader]:
        """The headers from a batch's position on, up to an incomplete batch."""
        return scan_headers(self.read, position, self.size_bytes, _SCAN_BYTES)

    def batch_start(self, entry: OffsetEntry) -> int | None:
        """The base offset of the batch that an index's entry names; None if the entry is wrong."""
        if not 0 <= entry.position <= self.size_bytes - HEADER_BYTES:
            return None
        base, magic, delta = _START.unpack(self.read(entry.position, _START.size))
        return base if magic == MAGIC and base + delta == entry.offset else None

    def offset_entries(self) -> list[OffsetEntry]:
        """The entries of ``.index``."""
        return offset_entries(read_beside(self.path.parent, self.base, ".index"), self.base)

    def time_entries(self) -> list[TimeEntry]:
        """The entries of ``.timeindex``."""
        return time_entries(read_beside(self.path.parent, self.base, ".timeindex"), self.base)

    def position_before(self, offset: int) -> int:
        """The position of a batch at or before the one that holds ``offset``."""
        if offset <= self.base:
            return 0
        entry = entry_before(self.offset_entries(), offset)
        return entry.position if entry and self.batch_start(entry) is not None else 0


class Segments(NamedTuple):
    """The base offsets of a partition's segments, ascending, and their files' names."""

    directory: Path
    names: dict[int, str]

    @property
    def bases(self) -> list[int]:
        """The base offsets, ascending."""
        return list(self.names)

    def path(self, base: int) -> Path:
        """The file of a segment."""
        return self.directory / self.names[base]

    def floor(self, offset: int) -> int | None:
        """The base of the segment that has ``offset``, if any has."""
        bases = self.bases
        place = bisect_right(bases, offset)
        return bases[place - 1] if place else None

    def open(self, base: int) -> OpenSegment:
        """Open a segment; FileNotFoundError if it was removed or renamed meanwhile."""
        return OpenSegment(self.path(base), base)


def list_segments(directory: Path, *, with_deleted: bool = False) -> Segments:
    """The segments that exist now; FileNotFoundError if the directory is missing."""
    found: dict[int, str] = {}
    suffixes = (LOG + _DELETED, LOG + _SWAP, LOG) if with_deleted else (LOG + _SWAP, LOG)
    names = os.listdir(directory)
    for suffix in suffixes:  # a later suffix wins
        for name in names:
            stem = name.removesuffix(suffix)
            if stem != name and len(stem) == 20 and stem.isdecimal():
                found[int(stem)] = name
    return Segments(directory, dict(sorted(found.items())))


def replaced_bases(directory: Path) -> list[int]:
    """The base offsets of segments that are being replaced or removed, ascending."""
    found = set()
    for name in os.listdir(directory):
        for suffix in (LOG + _DELETED, LOG + _SWAP):
            stem = name.removesuffix(suffix)
            if stem != name and len(stem) == 20 and stem.isdecimal():
                found.add(int(stem))
    return sorted(found)


def open_at(directory: Path, offset: int) -> OpenSegment | None:
    """Open the segment that has ``offset``; None if no file has it any more.

    FileNotFoundError if the directory is gone.
    """
    for _ in range(_TRIES):
        for with_deleted in (False, True):
            segments = list_segments(directory, with_deleted=with_deleted)
            base = segments.floor(offset)
            if base is None:
                continue
            try:
                return segments.open(base)
            except FileNotFoundError:
                break
        else:
            return None
    return None


def read_beside(directory: Path, base: int, suffix: str) -> bytes:
    """The content of a segment's index file; empty if there is none."""
    for ending in ("", _SWAP, _DELETED):
        try:
            return (directory / f"{base:020d}{suffix}{ending}").read_bytes()
        except FileNotFoundError:
            continue
    return b""


def aborted_transactions(segments: Segments, first: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in the offsets ``first`` to ``end - 1``.

    A transaction is in the index of the segment that has its marker, so this reads the indexes of
    all segments from that of ``first`` on. Source: LocalLog.collectAbortedTransactions of Kafka.
    """
    floor = segments.floor(first)
    return sorted(
        entry.aborted
        for base in segments.bases
        if floor is None or base >= floor
        for entry in transaction_entries(read_beside(segments.directory, base, ".txnindex"))
        if entry.aborted.first_offset < end and entry.aborted.last_offset >= first
    )
