"""A disk that fails, fills up or waits when a test says so, in the directories that it names.

Rules: the faults are injected into the calls of ``Disk``, so no special file system is needed. A
call that fails has no effect, except that a write to a full disk writes the bytes that fit.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from kwire.log.disk import Disk
from kwire.record.batch import Buffer


class FaultyDisk(Disk):
    """``broken`` maps directories to the errno that every call in them raises.

    ``room_bytes`` is how much more the disk takes, None for no limit. ``syncs`` counts synced
    files. ``before_sync`` is called before each sync, in the thread that syncs.
    """

    def __init__(self) -> None:
        self.broken: dict[Path, int] = {}
        self.room_bytes: int | None = None
        self.syncs = 0
        self.before_sync: Callable[[Path], None] = lambda path: None
        self._paths: dict[int, Path] = {}
        self._lock = threading.Lock()

    def _check(self, path: Path) -> None:
        for directory, code in self.broken.items():
            if path.is_relative_to(directory):
                raise OSError(code, os.strerror(code))

    def _check_fd(self, fd: int) -> Path:
        path = self._paths[fd]
        self._check(path)
        return path

    def _take_room(self, size_bytes: int) -> int:
        """Use up room; returns how many of the bytes fit."""
        with self._lock:
            if self.room_bytes is None:
                return size_bytes
            fitting = min(size_bytes, self.room_bytes)
            self.room_bytes -= fitting
            return fitting

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file and remember its path, or fail."""
        self._check(path)
        if create and self.room_bytes == 0 and not path.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fd = super().open(path, create=create)
        self._paths[fd] = path
        return fd

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read, or fail."""
        self._check_fd(fd)
        return super().pread(fd, size_bytes, position)

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write, as much as fits on a full disk, or fail."""
        self._check_fd(fd)
        is_log = self._paths[fd].suffix == ".log"  # indexes are preallocated without taking room
        new_bytes = max(0, position + len(data) - self.size(fd)) if is_log else 0
        missing = new_bytes - self._take_room(new_bytes)
        super().pwrite_all(fd, memoryview(data)[: len(data) - missing], position)
        if missing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Truncate, or fail; the bytes that are cut become free."""
        self._check_fd(fd)
        if self.room_bytes is not None and self._paths[fd].suffix == ".log":
            self.room_bytes += max(0, self.size(fd) - size_bytes)
        super().truncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        """Count the sync instead of waiting, or fail."""
        path = self._check_fd(fd)
        self.before_sync(path)
        with self._lock:
            self.syncs += 1

    def sync_directory(self, path: Path) -> None:
        """Do nothing, or fail."""
        self._check(path)

    def make_directory(self, path: Path) -> bool:
        """Make, or fail."""
        self._check(path)
        return super().make_directory(path)

    def names(self, directory: Path) -> list[str]:
        """List, or fail."""
        self._check(directory)
        return super().names(directory)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, or fail."""
        self._check(old)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        """Remove, or fail."""
        self._check(path)
        super().remove(path)

    def read_bytes(self, path: Path) -> bytes | None:
        """Read, or fail."""
        self._check(path)
        return super().read_bytes(path)
