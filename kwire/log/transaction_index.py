"""The aborted transactions of a segment: ``.txnindex``.

Format: entries of ``version int16 (0) | producer_id int64 | first_offset int64 |
last_offset int64 | last_stable_offset int64``, in the order of their markers. The file is created
with the first entry.

Source: TransactionIndex, AbortedTxn of Kafka.
"""

from pathlib import Path
from struct import Struct
from typing import NamedTuple

from kwire.log.disk import Disk

_ENTRY = Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    ``last_offset`` is the marker's, ``last_stable_offset`` the log's once the marker is written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one file, read on first use."""

    __slots__ = ("_disk", "_entries", "_written", "directory", "name")

    def __init__(self, directory: Path, name: str, disk: Disk) -> None:
        self.directory = directory
        self.name = name
        self._disk = disk
        self._entries: list[AbortedTransaction] | None = None
        self._written = 0

    @property
    def path(self) -> Path:
        """The path of the index's file."""
        return self.directory / self.name

    def is_sound(self, base_offset: int, end_offset: int) -> bool:
        """Whether the file can be right: whole entries of transactions that end between these
        offsets, in order, each with a record before its marker. A missing file is sound; OSError.
        """
        data = self._disk.read_bytes(self.path)
        if not data:
            return True
        if len(data) % _ENTRY.size:
            return False
        previous = base_offset - 1
        for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(data):
            if version != 0 or not max(previous, first_offset) < last_offset < end_offset:
                return False
            previous = last_offset
        return True

    def entries(self) -> list[AbortedTransaction]:
        """Every entry; an incomplete last one is left out."""
        if self._entries is None:
            data = self._disk.read_bytes(self.path) or b""
            whole = len(data) - len(data) % _ENTRY.size
            self._entries = [
                AbortedTransaction(*row[1:]) for row in _ENTRY.iter_unpack(data[:whole])
            ]
            self._written = len(self._entries)
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry; OSError. If writing fails, the entry stays for ``write_missing``."""
        # ``is_sound`` looks for the same after a crash.
        assert aborted.first_offset < aborted.last_offset, aborted
        self.entries().append(aborted)
        self.write_missing()

    def write_missing(self) -> None:
        """Write the entries that a failure, such as a full disk, kept out of the file; OSError."""
        entries = self._entries
        if entries is None or self._written == len(entries):
            return
        first = self._written  # read once: a flushing thread may write the same entries meanwhile
        missing = b"".join(_ENTRY.pack(0, *entry) for entry in entries[first:])
        fd = self._disk.open_briefly(self.path, create=True)
        try:
            self._disk.pwrite_all(fd, missing, first * _ENTRY.size)
        finally:
            self._disk.close(fd)
        self._written = max(self._written, first + len(missing) // _ENTRY.size)

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions that ended at ``offset`` or later."""
        kept = [entry for entry in self.entries() if entry.last_offset < offset]
        if len(kept) == len(self.entries()):
            return
        self._entries = kept
        self._written = min(self._written, len(kept))
        fd = self._disk.open_briefly(self.path, create=True)
        try:
            self._disk.truncate(fd, len(kept) * _ENTRY.size)
        finally:
            self._disk.close(fd)
