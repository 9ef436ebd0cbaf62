"""Directories for the data of test brokers, all removed at the end of the run.

Rules:

- A directory is removed with its broker. If the run was killed, the next run removes it: a lock
  shows whether the process that made a directory is alive.
- The directories are in memory (``/dev/shm``) if there is enough room, because files are created
  and removed faster there. ``KWIRE_TEST_DIR`` names another place.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

PREFIX = "kwire-test-"
LOCK_NAME = "in-use"
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30
"""The free room that memory must have for directories; containers often have 64 MB."""


class TestDirectory:
    """A new directory, ``path``, which is locked until ``remove``; ``log_file`` is beside it."""

    __test__ = False  # not a class of tests, despite its name

    def __init__(self) -> None:
        base = base_directory()
        _remove_left_over(base)
        self._root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        # The lock gets its name when it is held, so that another run never finds it free.
        unnamed = self._root / f"{LOCK_NAME}.new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self._root / LOCK_NAME)
        self.path = self._root / "data"
        self.log_file = self._root / "broker.log"

    def remove(self) -> None:
        """Remove the directory and everything in it; harmless when it is gone."""
        shutil.rmtree(self._root, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Close the lock, and leave the directory as it is."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def base_directory() -> Path:
    """The directory in which the directories are made."""
    named = os.environ.get("KWIRE_TEST_DIR")
    if named:
        return Path(named)
    with suppress(OSError):
        free = os.statvfs(IN_MEMORY)
        if free.f_bavail * free.f_frsize >= ROOM_BYTES and os.access(IN_MEMORY, os.W_OK):
            return IN_MEMORY
    return Path(tempfile.gettempdir())


@cache
def _remove_left_over(base: Path) -> None:
    """Remove the directories of processes that are dead; once in a process."""
    with suppress(OSError):
        for found in base.glob(f"{PREFIX}*"):
            with suppress(OSError):
                lock = os.open(found / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(found, ignore_errors=True)
                finally:
                    os.close(lock)
