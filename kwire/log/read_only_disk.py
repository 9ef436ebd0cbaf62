"""A disk that refuses every change: for reading files that a broker or Kafka owns."""

import errno
import os
from pathlib import Path
from typing import NoReturn

from kwire.log.disk import Disk
from kwire.record.batch import Buffer


def _refuse(path: object) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


class ReadOnlyDisk(Disk):
    """Reads files; every call that would change something raises OSError (EROFS)."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file for reading; OSError if it is missing."""
        if create:
            _refuse(path)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Refused."""
        _refuse(fd)

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Refused."""
        _refuse(fd)

    def make_directory(self, path: Path) -> bool:
        """Refused unless the directory exists."""
        if not path.is_dir():
            _refuse(path)
        return False

    def rename(self, old: Path, new: Path) -> None:
        """Refused."""
        _refuse(old)

    def remove(self, path: Path) -> None:
        """Refused unless the file is missing."""
        if path.exists():
            _refuse(path)

    def remove_tree(self, path: Path) -> None:
        """Refused unless the directory is missing."""
        self.remove(path)

    def replace_file(self, path: Path, content: bytes, *, durable: bool = True) -> None:
        """Refused."""
        _refuse(path)
