"""The log's only access to files, so that a test can replace it by one that injects faults.

Rules:

- A file that was created, renamed or removed stays so after a power loss only if its directory was
  synced.
- ``pwrite_all`` writes everything or raises. If it raises, the caller truncates what was written.
"""

import fcntl
import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import get_ident

from kwire.log.open_files import OpenFiles
from kwire.log.page_cache import pread_nowait
from kwire.record.batch import Buffer

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux gives every boot of a machine an id of its own."""


class Hurry:
    """A context manager: inside it, this thread's reads raise ColdPages instead of waiting."""

    __slots__ = ("thread",)

    def __init__(self) -> None:
        self.thread = 0

    def __enter__(self) -> None:
        self.thread = get_ident()

    def __exit__(self, *error: object) -> None:
        self.thread = 0


class Disk:
    """The operating system's file calls; ``fd`` is a file descriptor, sizes are in bytes.

    ``max_open_files`` limits how many log files stay open between two uses. ``is_durable`` says
    whether what was synced has to survive a power loss.
    """

    max_open_files = 512
    syncers = 16
    """How many files are synced at a time."""
    is_durable = True

    @cached_property
    def open_files(self) -> OpenFiles:
        """The log files that stay open between two uses."""
        return OpenFiles(self, self.max_open_files)

    @cached_property
    def hurry(self) -> Hurry:
        """Inside ``with disk.hurry:`` no read waits for the disk; for the event loop's thread."""
        return Hurry()

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file for reading and writing; OSError if it is missing and ``create`` is unset."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def lock(self, path: Path) -> int:
        """Lock a file until it is closed; BlockingIOError if another process has the lock.

        A JVM takes a POSIX lock, which Linux keeps apart from flock, so this takes both locks.
        """
        fd = self.open(path, create=True)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if sys.platform == "linux":  # other systems let the two locks exclude each other
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self.close(fd)
            raise
        return fd

    def boot_id(self) -> str:
        """The name of the machine's present boot; a new one at each call if the system has none."""
        try:
            return BOOT_ID.read_text().strip()
        except OSError:  # not Linux
            return os.urandom(16).hex()

    def name_of_lock(self, fd: int) -> str:
        """The name of a locked file: no other file of any running machine has it.

        Another boot, another machine or a copy of the file gives another name. Without a boot's id
        it is a name that no process has, so nobody is replaced by it.
        """
        found = os.fstat(fd)
        return f"{self.boot_id()}/{found.st_dev:x}/{found.st_ino:x}"

    def open_briefly(self, path: Path, *, create: bool = False) -> int:
        """Open a file for a short use. Closes files that are kept open if descriptors run out."""
        return self.open_files.open_briefly(lambda: self.open(path, create=create))

    def close(self, fd: int) -> None:
        """Close a file."""
        os.close(fd)

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read ``size_bytes``, fewer only at the end of the file; ColdPages inside ``hurry``."""
        if self.hurry.thread and self.hurry.thread == get_ident():
            return pread_nowait(fd, size_bytes, position)
        return os.pread(fd, size_bytes, position)

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``."""
        written = os.pwrite(fd, data, position)
        if written != len(data):
            view = memoryview(data)
            while written < len(view):
                written += os.pwrite(fd, view[written:], position + written)

    def size(self, fd: int) -> int:
        """Size of an open file."""
        return os.fstat(fd).st_size

    def size_of(self, path: Path) -> int:
        """Size of a file; OSError if it doesn't exist."""
        return path.stat().st_size

    def free_bytes(self, path: Path) -> int:
        """The free bytes of the file system that contains a path."""
        return os.statvfs(path).f_bavail * os.statvfs(path).f_frsize

    def modified_ms(self, path: Path) -> int:
        """When a file was last written, in ms since the epoch; OSError if it doesn't exist."""
        return path.stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Set when a file was last written; OSError if it doesn't exist."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cut or extend an open file; an extension reads as zeros and takes no room on the disk."""
        os.ftruncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        """Wait until a file's content is on the disk."""
        os.fsync(fd)

    def sync_path(self, path: Path) -> None:
        """Wait until a file's content is on the disk, unless the file was deleted."""
        with suppress(FileNotFoundError):
            fd = self.open_briefly(path)
            try:
                self.sync(fd)
            finally:
                self.close(fd)

    def sync_directory(self, path: Path) -> None:
        """Wait until a directory's entries are on the disk."""
        fd = self.open_files.open_briefly(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def make_directory(self, path: Path) -> bool:
        """Create a directory and its missing parents; False if it was there. OSError."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise
            return False
        return True

    def names(self, directory: Path) -> list[str]:
        """The names of the entries of a directory, in no order."""
        return os.listdir(directory)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or directory, replacing a file of the new name."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file; a missing file is no error."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and its content; a missing directory is no error."""
        import shutil

        shutil.rmtree(path, ignore_errors=True)

    def read_bytes(self, path: Path) -> bytes | None:
        """The content of a small file, None if it doesn't exist."""
        try:
            fd = self.open_files.open_briefly(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return None
        try:
            return Disk.pread(self, fd, os.fstat(fd).st_size, 0)
        finally:
            os.close(fd)

    def read_text(self, path: Path) -> str | None:
        """The text of a small file, None if it doesn't exist; UnicodeDecodeError."""
        content = self.read_bytes(path)
        return None if content is None else content.decode()

    def write_atomically(self, path: Path, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file as a whole, or leave it as it was.

        Without ``durable`` the call doesn't wait for the disk, and the file may have any content
        after a power loss. Use that only for a file that has a checksum and can be rebuilt.
        """
        self.replace_file(path, content, durable=durable)
        if durable:
            self.sync_directory(path.parent)

    def replace_file(self, path: Path, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file as a whole. It stays so after a power loss if its directory is
        synced afterwards.
        """
        temporary = path.with_name(path.name + ".tmp")
        fd = self.open_briefly(temporary, create=True)
        try:
            self.truncate(fd, 0)
            self.pwrite_all(fd, content, 0)
            if durable:
                self.sync(fd)
        except OSError:
            with suppress(OSError):
                self.remove(temporary)
            raise
        finally:
            self.close(fd)
        self.rename(temporary, path)
