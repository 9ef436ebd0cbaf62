"""Files that are opened when they are needed, and of which only so many are open at a time.

Rules:

- A partition has three files for each segment, a broker thousands of partitions, a process a limit
  of descriptors. So a file is opened on first use; when too many are open, one that wasn't used
  lately is closed and opened again at its next use. Nobody notices but by the time it takes.
- Who uses a descriptor holds the OpenFile: it is closed when the last one has let go. So a file
  that was closed here, or deleted, can still be sent by whoever holds it. Files are read and
  written by the methods of OpenFile and never as ``disk.pread(file.fd)``: compiled code lets go of
  a name after its last use, another thread may need room, and the descriptor would be another
  file's in the middle of the call.
- "Lately" is a second chance: files are looked at in the order of their opening, and one that was
  used since the last look is passed over once. That costs the hot path one attribute.
- Threads that flush open files as well, so what is open is changed under a lock.
"""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kwire.record.batch import Buffer


class Opener(Protocol):
    """What is needed of the disk."""

    @property
    def open_files(self) -> "OpenFiles":
        """The files that are open."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file."""

    def close(self, fd: int) -> None:
        """Close a file."""

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read from a file."""

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write to a file."""

    def size(self, fd: int) -> int:
        """How long a file is."""

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Set how long a file is."""


class OpenFile:
    """An open file, closed when the last one who needs it lets go."""

    __slots__ = ("_disk", "fd")

    def __init__(self, fd: int, disk: Opener) -> None:
        self.fd = fd
        self._disk = disk

    def __del__(self) -> None:
        self._disk.close(self.fd)

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Up to so many bytes at ``position``."""
        return self._disk.pread(self.fd, size_bytes, position)

    def pwrite_all(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``; OSError where the disk refuses."""
        self._disk.pwrite_all(self.fd, data, position)

    def size(self) -> int:
        """How long it is, in bytes."""
        return self._disk.size(self.fd)

    def truncate(self, size_bytes: int) -> None:
        """Make it this long: cut it, or have zeros follow."""
        self._disk.truncate(self.fd, size_bytes)


class LazyFile:
    """A file that is opened when somebody asks for it."""

    __slots__ = ("_disk", "_opened", "directory", "is_used", "name")

    def __init__(self, directory: Path, name: str, disk: Opener) -> None:
        self.directory = directory
        self.name = name
        self.is_used = False
        self._disk = disk
        self._opened: OpenFile | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.directory / self.name

    def get(self, *, create: bool = False) -> OpenFile:
        """The open file; OSError where it is missing and not to be made."""
        self.is_used = True
        opened = self._opened
        if opened is None:
            fd = self._disk.open_files.open(self, create=create)
            opened = self._opened = OpenFile(fd, self._disk)
        return opened

    def is_open_as(self, opened: object) -> bool:
        """Whether this is what ``get`` has given last."""
        return self._opened is opened

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._opened is not None:
            self._opened = None
            self._disk.open_files.forget(self)

    def let_go(self) -> None:
        """Let go of the file without telling the others: they know."""
        self._opened = None


class OpenFiles:
    """The files of one disk that are open, at most ``limit`` of them."""

    def __init__(self, disk: Opener, limit: int) -> None:
        self.limit = limit
        self._disk = disk
        self._open: dict[LazyFile, None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, file: LazyFile, *, create: bool) -> int:
        """Open a file, and close others where too many are open; its descriptor."""
        with self._lock:
            self._make_room(self.limit - 1)
        fd = self.open_briefly(lambda: self._disk.open(file.path, create=create))
        with self._lock:
            self._open[file] = None
        return fd

    def open_briefly(self, open_file: Callable[[], int]) -> int:
        """Open what the caller closes soon; its descriptor."""
        try:
            return open_file()
        except OSError as error:
            # The process may have less left than was thought: connections take descriptors too.
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
            with self._lock:
                self._make_room(len(self._open) // 2)
            return open_file()

    def forget(self, file: LazyFile) -> None:
        """A file was closed."""
        with self._lock:
            self._open.pop(file, None)

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
