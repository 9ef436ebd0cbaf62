"""One data directory (an entry of ``log.dirs``): its lock, its identity, its checkpoints.

Rules:

- ``.lock`` is held as long as the directory is open, so two processes never write the same files.
  A JVM locks it by POSIX, which Linux keeps apart from flock, so that lock is taken as well.
- ``.kafka_cleanshutdown`` is there only between a clean stop and the next start.
- Checkpoints hold the offsets of the partitions in this directory alone.
"""

import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from kwire.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    write_offsets,
)
from kwire.log.disk import Disk
from kwire.log.meta_properties import (
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'


class LogDirectoryError(Exception):
    """A data directory that can't be used; the text is one line that says what to do."""


class DataDirectory:
    """An open data directory."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Create and lock the directory; LogDirectoryError where that can't be."""
        self.path = path
        self._disk = disk
        try:
            disk.make_directory(path)
            self._lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LogDirectoryError(
                f"cannot write to the data directory {path}: {error.strerror}; "
                "choose another with --data-dir DIR (log.dirs)"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if sys.platform == "linux":  # elsewhere the two are one, or know of each other
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise LogDirectoryError(
                f"the data directory {path} is in use by another process; "
                "stop that one, or choose another with --data-dir DIR (log.dirs)"
            ) from error
        self.was_clean = (path / CLEAN_SHUTDOWN_FILE).exists()
        self.recovery_points = read_offsets(path / RECOVERY_POINTS, disk)
        self.log_start_offsets = read_offsets(path / LOG_START_OFFSETS, disk)

    def identify(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        """Check whose the directory is, or make it ours; LogDirectoryError if it is another's."""
        try:
            meta = read_meta_properties(self.path, self._disk)
        except ValueError as error:
            raise LogDirectoryError(
                f"{self.path}/meta.properties can't be used: {error}"
            ) from error
        if meta is None:
            meta = MetaProperties(cluster_id or random_id(), node_id, random_id())
            write_meta_properties(self.path, meta, self._disk)
        if meta.node_id != node_id:
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to node.id {meta.node_id}, not {node_id}; "
                f"start with -o node.id={meta.node_id}"
            )
        if cluster_id not in (None, meta.cluster_id):
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to cluster {meta.cluster_id}, "
                f"the others to {cluster_id}"
            )
        return meta

    def begin(self) -> None:
        """Take away the mark of the last clean stop: from here on a crash is possible."""
        self._disk.remove(self.path / CLEAN_SHUTDOWN_FILE)
        self._disk.sync_directory(self.path)

    def write_checkpoints(
        self,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
        high_watermarks: Mapping[TopicPartition, int],
    ) -> None:
        """Replace the checkpoints."""
        write_offsets(self.path / RECOVERY_POINTS, recovery_points, self._disk)
        write_offsets(self.path / LOG_START_OFFSETS, log_start_offsets, self._disk)
        write_offsets(self.path / HIGH_WATERMARKS, high_watermarks, self._disk)
        if not (self.path / CLEANER_OFFSETS).exists():
            write_offsets(self.path / CLEANER_OFFSETS, {}, self._disk)

    def close(self, *, clean: bool) -> None:
        """Let go of the directory; ``clean`` says that everything in it is flushed and closed."""
        if clean:
            self._disk.write_atomically(self.path / CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN)
        os.close(self._lock)
