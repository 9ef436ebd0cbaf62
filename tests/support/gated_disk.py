"""A disk that holds the making, renaming or removal of files until the test lets it pass."""

import threading
from pathlib import Path

from kwire.log.disk import Disk

LONGEST_S = 60
"""A test that fails doesn't open its gates; its threads end by themselves."""

MAKE, RENAME, REMOVE = "make", "rename", "remove"


class Gate:
    """Holds one operation for the paths whose names begin with ``prefix``, each for itself."""

    def __init__(self, operation: str, prefix: str) -> None:
        self.operation, self.prefix = operation, prefix
        self.waiting = 0
        self._permits = threading.Semaphore(0)

    def let_pass(self, count: int) -> None:
        """Let so many of them pass."""
        self._permits.release(count)

    def open(self) -> None:
        """Let all pass from now on."""
        self._permits.release(1_000_000)

    def wait(self) -> None:
        """Wait in the thread that has the disk do it."""
        self.waiting += 1
        passes = self._permits.acquire(timeout=LONGEST_S)
        assert passes, f"nobody has let {self.operation} of {self.prefix} pass"
        self.waiting -= 1


class GatedDisk(Disk):
    """``done`` has each operation that was done, with the name of its path."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self._gates: list[Gate] = []

    def hold(self, operation: str, prefix: str) -> Gate:
        """From now on, hold an operation for some paths."""
        gate = Gate(operation, prefix)
        self._gates.append(gate)
        return gate

    def made(self, *prefixes: str) -> list[str]:
        """The names of the directories that were made, in their order, without those of others."""
        return [
            name for operation, name in self.done if operation == MAKE and name.startswith(prefixes)
        ]

    def make_directory(self, path: Path) -> bool:
        """Make it when it may pass."""
        self._wait(MAKE, path)
        is_made = super().make_directory(path)
        self.done.append((MAKE, path.name))
        return is_made

    def rename(self, old: Path, new: Path) -> None:
        """Rename it when it may pass."""
        self._wait(RENAME, old)
        super().rename(old, new)
        self.done.append((RENAME, old.name))

    def remove(self, path: Path) -> None:
        """Remove it when it may pass."""
        self._wait(REMOVE, path)
        super().remove(path)
        self.done.append((REMOVE, path.name))

    def _wait(self, operation: str, path: Path) -> None:
        for gate in self._gates:
            if gate.operation == operation and path.name.startswith(gate.prefix):
                gate.wait()
