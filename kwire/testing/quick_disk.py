"""A disk for brokers that live as long as a test: nothing waits until it is on the disk.

The data survive the end of the broker, also by ``kill``, because the system keeps what was written.
A power cut would lose them, and with them the test.
"""

from pathlib import Path

from kwire.log.disk import Disk


class QuickDisk(Disk):
    """The operating system's file calls, without syncs."""

    is_durable = False

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""
