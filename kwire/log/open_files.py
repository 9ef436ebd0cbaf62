"""Log files that are opened on first use, with a limit on how many are open at a time.

Rules:

- A partition has three files per segment, a broker has thousands of partitions, and a process has a
  limit of descriptors. A file is therefore opened on first use. When too many are open, a file that
  was not used lately is closed and opened again at its next use. Callers notice only the time.
- A caller that uses a descriptor holds the OpenFile, whose descriptor is closed when the last
  reference to it goes. A file that was evicted here, or deleted, can therefore still be sent by a
  caller that holds it.
- "Lately" is a second chance: eviction goes through the files in the order of their opening and
  passes over a file once if it was used since the last pass. This costs the hot path one attribute.
- Flushing threads open files as well, so a lock guards every change of the set of open files.
"""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kwire.record.batch import Buffer

MAX_OPEN_FILES = 10_000


class Opener(Protocol):
    """The calls of ``Disk`` that this module needs."""

    @property
    def open_files(self) -> "OpenFiles":
        """The set of open files."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file."""

    def close(self, fd: int) -> None:
        """Close a file."""

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read from a file."""

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write to a file."""

    def size(self, fd: int) -> int:
        """Size of a file, in bytes."""

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Set the size of a file, in bytes."""


class OpenFile:
    """An open file, closed when the last reference to this object goes."""

    __slots__ = ("_disk", "fd")

    def __init__(self, fd: int, disk: Opener) -> None:
        self.fd = fd
        self._disk = disk

    def __del__(self) -> None:
        self._disk.close(self.fd)

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Up to ``size_bytes`` bytes at ``position``."""
        return self._disk.pread(self.fd, size_bytes, position)

    def pwrite_all(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``; OSError."""
        self._disk.pwrite_all(self.fd, data, position)

    def size(self) -> int:
        """Size of the file, in bytes."""
        return self._disk.size(self.fd)

    def truncate(self, size_bytes: int) -> None:
        """Set the size of the file: cut it, or extend it with zeros."""
        self._disk.truncate(self.fd, size_bytes)


class LazyFile:
    """A file that ``get`` opens on first use and again after an eviction."""

    __slots__ = ("_disk", "_opened", "directory", "is_used", "name")

    def __init__(self, directory: Path, name: str, disk: Opener) -> None:
        self.directory = directory
        self.name = name
        self.is_used = False
        self._disk = disk
        self._opened: OpenFile | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.directory / self.name

    def get(self, *, create: bool = False) -> OpenFile:
        """The open file; OSError if it is missing and ``create`` is unset."""
        self.is_used = True
        opened = self._opened
        if opened is None:
            fd = self._disk.open_files.open(self, create=create)
            opened = self._opened = OpenFile(fd, self._disk)
        return opened

    def is_open_as(self, opened: object) -> bool:
        """Whether ``opened`` is the current OpenFile, so the file wasn't closed since."""
        return self._opened is opened

    def close(self) -> None:
        """Drop the open file; the next ``get`` opens it again."""
        if self._opened is not None:
            self._opened = None
            self._disk.open_files.forget(self)

    def let_go(self) -> None:
        """Drop the open file when OpenFiles has already removed it from its set."""
        self._opened = None


class OpenFiles:
    """The open files of one disk, at most ``limit`` of them."""

    def __init__(self, disk: Opener, limit: int) -> None:
        self.limit = limit
        self._disk = disk
        self._open: dict[LazyFile, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, file: LazyFile, *, create: bool) -> int:
        """Open a file and return its descriptor; evicts other files if too many are open."""
        with self._lock:
            self._make_room(self.limit - 1)
        fd = self.open_briefly(lambda: self._disk.open(file.path, create=create))
        with self._lock:
            self._open[file] = None
        return fd

    def open_briefly(self, open_file: Callable[[], int]) -> int:
        """Open a file that the caller soon closes; returns its descriptor."""
        try:
            return open_file()
        except OSError as error:
            # Connections take descriptors too, so fewer may be left than ``limit`` assumes.
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
            with self._lock:
                self._make_room(len(self._open) // 2)
            return open_file()

    def forget(self, file: LazyFile) -> None:
        """Remove a file that was closed from the set of open files."""
        with self._lock:
            self._open.pop(file, None)

    def close_all(self) -> None:
        """Close every file; the next use opens it again. Tests let a process end this way."""
        with self._lock:
            while self._open:
                self._open.popitem()[0].let_go()

    def _make_room(self, most: int) -> None:
        """Close files that weren't used lately until at most ``most`` are open."""
        while len(self._open) > max(most, 0):
            file = next(iter(self._open))
            del self._open[file]
            if file.is_used:
                file.is_used = False
                self._open[file] = None
            else:
                file.let_go()


def descriptors_for_logs() -> int:
    """How many log files may stay open.

    Half of the process's descriptors: the rest is for connections, and for files that are held open
    while they are sent.
    """
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else min(soft // 2, MAX_OPEN_FILES)
