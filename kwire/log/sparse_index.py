"""The two sparse indexes beside a segment: offset → position, and timestamp → offset.

Format of ``.index``: entries of ``relative_offset int32 | position int32``, both ascending.
Format of ``.timeindex``: entries of ``timestamp int64 | relative_offset int32``, both ascending. No
record up to the offset has a larger timestamp.

Rules:

- While its segment is active, an index file is ``segment.index.bytes`` long, with zeros after the
  last entry. It is trimmed when the segment is rolled or closed.
- An index is a hint: if it is wrong or missing, it is rebuilt from the log.
- Files are opened on first use and searched in place. Only the last entry is in memory.
- A time index keeps one place free for the entry that is added when the segment is closed.

Source: OffsetIndex, TimeIndex of Kafka.
"""

from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import ClassVar

from kwire.log.disk import Disk
from kwire.log.open_files import LazyFile, OpenFile

PAGE_ENTRIES = 256


class SparseIndex:
    """Sorted entries of two numbers in a file; the subclass gives their meaning.

    ``entries`` is the number of entries, ``last`` the last entry or (-1, -1).
    """

    ENTRY: ClassVar[Struct]

    __slots__ = ("_file", "_preallocated", "entries", "last", "max_entries")

    def __init__(self, directory: Path, name: str, disk: Disk, max_bytes: int) -> None:
        self._file = LazyFile(directory, name, disk)
        self._preallocated = False
        self.max_entries = max_bytes // self.ENTRY.size
        self.entries = 0
        self.last = (-1, -1)

    @property
    def path(self) -> Path:
        """The path of the index's file."""
        return self._file.path

    def relocate(self, directory: Path) -> None:
        """Note that the file was moved, open or not."""
        self._file.directory = directory

    def load(self) -> bool:
        """Take the entries of a trimmed file; False if it is missing or can't be right."""
        try:
            file = self._open()
            size_bytes = file.size()
        except FileNotFoundError:
            return False
        if size_bytes % self.ENTRY.size:
            return False
        self.entries = size_bytes // self.ENTRY.size
        if self.entries:
            self.last = self._entry(self.entries - 1)
            first = self._entry(0)
            if self.last[0] < first[0] or self.last[1] < first[1] or min(self.last) < 0:
                return False
            if self.entries > 1 and self.last == (0, 0):
                return False
        return True

    def replace(self, content: bytes | bytearray) -> None:
        """Replace all entries; entries beyond the index's capacity are left out."""
        file = self._open(create=True)
        self.entries = 0
        self._preallocated = False
        file.truncate(0)
        kept = content[: self._most_entries * self.ENTRY.size]
        file.pwrite_all(kept, 0)
        self.entries = len(kept) // self.ENTRY.size
        self.last = self._entry(self.entries - 1) if self.entries else (-1, -1)

    @property
    def _most_entries(self) -> int:
        return self.max_entries

    @property
    def is_full(self) -> bool:
        """Whether no further entry fits, so that the segment has to be rolled."""
        return self.entries >= self._most_entries

    def append(self, first: int, second: int) -> None:
        """Add an entry after the last one."""
        file = self._open(create=True)
        if not self._preallocated:
            size = max(self.max_entries, self.entries + 1) * self.ENTRY.size
            file.truncate(size)
            self._preallocated = True
        entry = self.ENTRY.pack(first, second)
        file.pwrite_all(entry, self.entries * self.ENTRY.size)
        self.entries += 1
        self.last = (first, second)

    def floor(self, key: int, *, by_second: bool = False) -> tuple[int, int] | None:
        """The last entry whose first (or second) number is at most ``key``."""
        if self.entries and self.last[by_second] <= key:
            return self.last
        number = self._count_up_to(key, by_second)
        return self._entry(number - 1) if number else None

    def ceiling(self, key: int, *, by_second: bool = False) -> tuple[int, int] | None:
        """The first entry whose first (or second) number is at least ``key``."""
        if not self.entries or self.last[by_second] < key:
            return None
        return self._entry(self._count_up_to(key - 1, by_second))

    def _count_up_to(self, key: int, column: int) -> int:
        """The number of entries whose number in this column is at most ``key``.

        Each step reads one page of entries. The first page is the one that linear interpolation
        gives, which is nearly always right in an index of positions. Each later page is in the
        middle of the entries that are left.
        """
        low, high = 0, self.entries
        last = max(self.last[column], 1)
        middle = min(max(self.entries * key // last, 0), self.entries)
        while low < high:
            begin = max(low, middle - PAGE_ENTRIES // 2)
            count = min(high - begin, PAGE_ENTRIES)
            place = self._count_in_page(begin, count, key, column)
            if place == 0:
                high = begin
            elif place < count:
                return begin + place
            else:
                low = begin + count
            middle = (low + high) // 2
        return low

    def _count_in_page(self, begin: int, count: int, key: int, column: int) -> int:
        """As ``_count_up_to``, among ``count`` entries from the one numbered ``begin`` on."""
        size = self.ENTRY.size
        file = self._open()
        page = file.pread(count * size, begin * size)
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if self.ENTRY.unpack_from(page, middle * size)[column] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate_to(self, key: int, *, by_second: bool = False) -> None:
        """Drop every entry whose first (or second) number is ``key`` or more."""
        column = 1 if by_second else 0
        while self.entries and self._entry(self.entries - 1)[column] >= key:
            self.entries -= 1
        self.last = self._entry(self.entries - 1) if self.entries else (-1, -1)
        with suppress(FileNotFoundError):
            # The next append extends the file again, so zeros follow the last entry.
            file = self._open()
            file.truncate(self.entries * self.ENTRY.size)
            self._preallocated = False

    def trim(self) -> None:
        """Cut the file after its last entry."""
        self._open(create=True).truncate(self.entries * self.ENTRY.size)
        self._preallocated = False

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def _open(self, *, create: bool = False) -> OpenFile:
        return self._file.get(create=create)

    def _entry(self, number: int) -> tuple[int, int]:
        size = self.ENTRY.size
        file = self._open()
        first, second = self.ENTRY.unpack(file.pread(size, number * size))
        return first, second


class OffsetIndex(SparseIndex):
    """Relative offset of a batch's last record → position of the batch in the segment."""

    __slots__ = ()
    ENTRY: ClassVar[Struct] = Struct(">ii")


class TimeIndex(SparseIndex):
    """Largest timestamp so far → relative offset of the record with that timestamp."""

    __slots__ = ()
    ENTRY: ClassVar[Struct] = Struct(">qi")

    @property
    def _most_entries(self) -> int:
        """The capacity less one entry, because closing the segment adds one."""
        return self.max_entries - 1
