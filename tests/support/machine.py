"""A machine whose disk can fail, whose processes can die, and whose power can fail.

``Machine(root).disk`` is a ``Disk`` for everything below ``root``. The files are real, so code that
reads them in other ways (``sendfile``, for instance) works. Only the loss of power is simulated:
the machine computes what the files would contain after it.

Rules:

- ``kill``: a process that dies leaves everything that it wrote. Its open files are closed, and
  every further call on its disk raises Died. The next process gets a new disk, ``machine.disk``.
- ``lose_power``: the machine keeps what was synced, and any part of what wasn't, in any order. Each
  unsynced write to a file is kept whole, in part, as zeros or not at all. Each name that was
  created, renamed or removed in an unsynced directory is kept or not. A rename happens whole or not
  at all. A synced file in an unsynced directory may be lost. The caller's Random decides.
- Faults are planned by the number of calls from now on: ``disk.fail`` raises OSError, ``disk.die``
  raises Died. An interrupted write has written a part of its bytes. ``disk.break_below`` breaks one
  of the machine's disks, which one of its directories is on.
- Files that were created without the disk count as synced.
"""

import errno
import os
import shutil
from pathlib import Path
from random import Random

from kwire.log.disk import Disk
from kwire.record.batch import Buffer


class Died(BaseException):
    """The process died in this call. Code that catches this runs in the dead process."""


class _File:
    """A file: the synced content, and the changes since, oldest first.

    A change is (position, data). Without data, the file was cut or extended to the position.
    """

    __slots__ = ("changes", "sure")

    def __init__(self, sure: bytes = b"") -> None:
        self.sure = sure
        self.changes: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        """Make all changes so far permanent."""
        content = bytearray(self.sure)
        for position, data in self.changes:
            _apply(content, position, data)
        self.sure, self.changes = bytes(content), []

    def lose_power(self, random: Random) -> bytes:
        """Keep a random part of the changes; returns the content, which counts as synced."""
        content = bytearray(self.sure)
        luck = random.choice((0.0, 0.5, 0.9, 1.0))
        for position, data in self.changes:
            if random.random() < luck:
                _apply(content, position, data)
            elif data and random.random() < luck:
                torn = random.randrange(len(data) + 1)
                _apply(content, position, random.choice((data[:torn], bytes(torn))))
        self.sure, self.changes = bytes(content), []
        return self.sure


class _Directory:
    """A directory: the synced names, and the changes since, oldest first.

    A change maps some names to their new entries, or to None for removed names.
    """

    __slots__ = ("changes", "now", "sure")

    def __init__(self) -> None:
        self.sure: dict[str, _Entry] = {}
        self.now: dict[str, _Entry] = {}
        self.changes: list[dict[str, _Entry | None]] = []

    def change(self, names: "dict[str, _Entry | None]") -> None:
        """Make a change that isn't synced yet."""
        self.changes.append(names)
        _update(self.now, names)

    def sync(self) -> None:
        """Make the current names permanent."""
        self.sure, self.changes = dict(self.now), []

    def lose_power(self, random: Random) -> None:
        """Keep a random part of the changes; the remaining names count as synced."""
        luck = random.choice((0.0, 0.5, 0.9, 1.0))
        for names in self.changes:
            if random.random() < luck:
                _update(self.sure, names)
        self.now, self.changes = dict(self.sure), []


_Entry = _File | _Directory


class Machine:
    """The files below ``root``, and the process that uses them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.boots = 1
        self.disk = MachineDisk(self)
        self._tree = _Directory()

    def kill(self) -> None:
        """End the process; ``disk`` is then the disk of the next process."""
        self.disk.shut()
        self.disk = MachineDisk(self)

    def lose_power(self, random: Random) -> None:
        """End the machine; the files get the content that the loss of power leaves."""
        self.kill()
        self.boots += 1
        self._learn(self.root)
        self._lose_power(self._tree, self.root, random)

    def entry(self, path: Path) -> _Entry | None:
        """The entry of a path, None if missing; a file created without the disk is added."""
        if path == self.root:
            return self._tree
        parent = self.entry(path.parent)
        if not isinstance(parent, _Directory):
            return None
        found = parent.now.get(path.name)
        if found is None and path.exists():
            found = _Directory() if path.is_dir() else _File(path.read_bytes())
            parent.sure[path.name] = parent.now[path.name] = found
        return found

    def directory(self, path: Path) -> _Directory:
        """The entry of an existing directory; FileNotFoundError."""
        found = self.entry(path)
        if not isinstance(found, _Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found

    def _learn(self, path: Path) -> None:
        for below in path.iterdir():
            if isinstance(self.entry(below), _Directory):
                self._learn(below)

    def _lose_power(self, directory: _Directory, path: Path, random: Random) -> None:
        before = directory.now
        directory.lose_power(random)
        for name, entry in before.items():
            if directory.now.get(name) is not entry:
                _remove(path / name)
        for name, entry in sorted(directory.now.items()):
            below = path / name
            if isinstance(entry, _Directory):
                below.mkdir(exist_ok=True)
                self._lose_power(entry, below, random)
            elif entry.changes or not below.exists():
                _write_sparsely(below, entry.lose_power(random))


class MachineDisk(Disk):
    """The disk of one process. ``calls`` counts calls that may fail, ``failures`` failed calls."""

    syncers = 1  # so that runs are repeatable

    def __init__(self, machine: Machine) -> None:
        self.calls = 0
        self.failures = 0
        self._machine = machine
        self._files: dict[int, _File] = {}
        self._is_shut = False
        self._fails_from, self._fails_to, self._error = -1, -1, errno.EIO
        self._dies_at, self._dies_writing = -1, 0.0
        self._broken: Path | None = None
        self._paths: dict[int, Path] = {}

    def boot_id(self) -> str:
        """A new one after each loss of power."""
        return f"boot-{self._machine.boots}"

    @property
    def open_count(self) -> int:
        """The number of open files."""
        return len(self._files)

    def fail(self, calls: int, failures: int = 1, error: int = errno.EIO) -> None:
        """Plan a fault: after ``calls`` calls, ``failures`` calls raise OSError."""
        self._fails_from = self.calls + calls
        self._fails_to, self._error = self._fails_from + failures, error

    def break_below(self, directory: Path) -> None:
        """Let every call on a file or directory below this one raise OSError, from now on."""
        self._broken = directory

    def die(self, calls: int, written: float = 0.0) -> None:
        """Plan a death after ``calls`` calls; ``written`` is the part of a write that is done."""
        self._dies_at, self._dies_writing = self.calls + calls, written

    def heal(self) -> None:
        """Cancel planned faults."""
        self._fails_from = self._fails_to = self._dies_at = -1
        self._broken = None

    def shut(self) -> None:
        """Close the files of a dead process and refuse further calls."""
        self._is_shut = True
        for fd in self._files:
            os.close(fd)
        self._files.clear()

    def _call(self, path: Path, fd: int = -1, data: Buffer = b"", position: int = 0) -> None:
        """Count a call, and fail if a fault is planned for it; OSError, Died."""
        if self._is_shut:
            raise Died
        number, self.calls = self.calls, self.calls + 1
        if number == self._dies_at:
            self._write(fd, data[: int(len(data) * self._dies_writing)], position)
            self._machine.kill()
            raise Died
        is_broken = self._broken is not None and path.is_relative_to(self._broken)
        if is_broken or self._fails_from <= number < self._fails_to:
            self.failures += 1
            self._write(fd, data[: len(data) // 2], position)
            raise OSError(self._error, os.strerror(self._error))

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file; a new one may vanish until its directory is synced."""
        self._call(path)
        entry = self._machine.entry(path)
        fd = super().open(path, create=create)
        if entry is None:
            entry = _File()
            self._machine.directory(path.parent).change({path.name: entry})
        assert isinstance(entry, _File)
        self._files[fd], self._paths[fd] = entry, path
        return fd

    def close(self, fd: int) -> None:
        """Close a file, unless its process is dead, which has closed it already."""
        if self._files.pop(fd, None) is not None:
            os.close(fd)

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Read."""
        self._call(self._paths[fd])
        return super().pread(fd, size_bytes, position)

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write; the data is permanent once the file is synced."""
        self._call(self._paths[fd], fd, data, position)
        self._write(fd, data, position)

    def _write(self, fd: int, data: Buffer, position: int) -> None:
        if len(data):
            super().pwrite_all(fd, data, position)
            self._files[fd].changes.append((position, bytes(data)))

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cut or extend; the size is permanent once the file is synced."""
        self._call(self._paths[fd])
        super().truncate(fd, size_bytes)
        self._files[fd].changes.append((size_bytes, None))

    def sync(self, fd: int) -> None:
        """Make the content permanent, without waiting."""
        self._call(self._paths[fd])
        self._files[fd].sync()

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory permanent."""
        self._call(path)
        self._machine.directory(path).sync()

    def make_directory(self, path: Path) -> bool:
        """Create a directory, which may vanish until its parent is synced."""
        if self._machine.entry(path) is not None:
            return False
        self.make_directory(path.parent)
        self._call(path)
        path.mkdir()
        self._machine.directory(path.parent).change({path.name: _Directory()})
        return True

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted, so that runs are repeatable."""
        self._call(directory)
        return sorted(super().names(directory))

    def rename(self, old: Path, new: Path) -> None:
        """Rename within a directory; it may be undone until the directory is synced."""
        self._call(old)
        assert old.parent == new.parent
        entry = self._machine.entry(old)
        super().rename(old, new)
        self._machine.directory(old.parent).change({old.name: None, new.name: entry})

    def remove(self, path: Path) -> None:
        """Remove a file, which may come back until the directory is synced."""
        self._call(path)
        if self._machine.entry(path) is not None:
            super().remove(path)
            self._machine.directory(path.parent).change({path.name: None})

    def remove_tree(self, path: Path) -> None:
        """Remove a directory, file by file."""
        if self._machine.entry(path) is None:
            return
        for name in sorted(os.listdir(path)):
            below = path / name
            (self.remove_tree if below.is_dir() else self.remove)(below)
        self._call(path)
        path.rmdir()
        self._machine.directory(path.parent).change({path.name: None})

    def read_text(self, path: Path) -> str | None:
        """The text of a small file."""
        self._call(path)
        return super().read_text(path)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    """Apply a change to the content of a file."""
    if data is None:
        del content[position:]
        data = b""
    content += bytes(max(position - len(content), 0))
    content[position : position + len(data)] = data


def _update(names: dict[str, _Entry], changed: dict[str, _Entry | None]) -> None:
    for name, entry in changed.items():
        if entry is None:
            names.pop(name, None)
        else:
            names[name] = entry


def _write_sparsely(path: Path, content: bytes) -> None:
    """Write a file; the zeros at its end take no room, and no time."""
    path.write_bytes(content.rstrip(b"\0"))
    os.truncate(path, len(content))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
