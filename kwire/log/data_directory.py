"""One data directory (an entry of ``log.dirs``): its lock, its identity, its checkpoints.

Rules:

- ``.lock`` is held as long as the directory is open, so two processes never write the same files.
- ``.kafka_cleanshutdown`` is there only between a clean stop and the next start: it is taken away
  before the logs are loaded, or a start that breaks off would leave it (KAFKA-10471).
- Checkpoints hold the offsets of the partitions in this directory alone.
- An error of the disk takes the directory offline, at the start as later; a directory that is
  another's (locked, or of another broker or cluster) is a mistake that stops the start.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from errno import EACCES, EPERM, EROFS
from pathlib import Path
from typing import TypeAlias

from kwire.log.checkpoints import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    write_offsets,
)
from kwire.log.directory_health import LOCK_FILE, DirectoryHealth, is_shortage_of_room
from kwire.log.disk import Disk
from kwire.log.meta_properties import FILE_NAME as META_FILE
from kwire.log.meta_properties import (
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]

ROOM_TO_START_BYTES = 16 << 20
"""Enough for the indexes and snapshots that a start may have to make anew."""

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN = b'{"version":0,"brokerEpoch":-1}'


class LogDirectoryError(Exception):
    """A data directory that can't be used; the text is one line that says what to do."""


class DataDirectory:
    """A data directory, open or offline."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Create and lock the directory; offline where that can't be.

        Raises LogDirectoryError where another process has it.
        """
        self.path = path
        self.health = DirectoryHealth(path)
        self.health.is_opening = True
        self.meta: MetaProperties | None = None
        self.was_clean = False
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        # The loop and threads write checkpoints: one at a time, or the older might win.
        self._checkpointing = threading.Lock()
        self._disk = disk
        self._lock = -1
        try:
            self._open()
        except (OSError, ValueError) as error:
            self.health.failure = _why_not(error)  # announced if others are left
            self.health.lacks_room = is_shortage_of_room(error)

    @property
    def is_online(self) -> bool:
        """Whether it serves."""
        return self.health.failure is None

    def _open(self) -> None:
        made = [above for above in (self.path, *self.path.parents) if not above.exists()]
        self._disk.make_directory(self.path)
        for new in made:
            self._disk.sync_directory(new.parent)
        try:
            self._lock = self._disk.lock(self.path / LOCK_FILE)
        except BlockingIOError as error:
            raise LogDirectoryError(
                f"the data directory {self.path} is in use by another process; "
                "stop that one, or choose another with --data-dir DIR (log.dirs)"
            ) from error
        self.meta = read_meta_properties(self.path, self._disk)
        self.was_clean = CLEAN_SHUTDOWN_FILE in self._disk.names(self.path)
        self.recovery_points = read_offsets(self.path / RECOVERY_POINTS, self._disk)
        self.log_start_offsets = read_offsets(self.path / LOG_START_OFFSETS, self._disk)
        self._checkpoints[RECOVERY_POINTS] = self.recovery_points
        self._checkpoints[LOG_START_OFFSETS] = self.log_start_offsets

    def identify(self, node_id: int, cluster_id: str) -> None:
        """Check whose the directory is, or make it ours; LogDirectoryError if it is another's."""
        meta = self.meta
        if meta is not None and meta.node_id != node_id:
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to node.id {meta.node_id}, not {node_id}; "
                f"start with -o node.id={meta.node_id}"
            )
        if meta is not None and meta.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to cluster {meta.cluster_id}, "
                f"the others to {cluster_id}"
            )
        if meta is not None and meta.directory_id:
            return
        if meta is None:
            self._warn_of_kafkas_below()
        self.meta = MetaProperties(cluster_id, node_id, random_id())
        try:
            write_meta_properties(self.path, self.meta, self._disk)
        except OSError as error:
            self.health.fail("cannot write meta.properties", error)

    def _warn_of_kafkas_below(self) -> None:
        """A new directory around another that has data may be a mistake of one level."""
        found = [
            self.path / name
            for name in sorted(self._disk.names(self.path))
            if (self.path / name / META_FILE).is_file()
        ]
        if found:
            log.warning(
                "%s has no data of its own and starts empty, but %s is the data directory of a "
                "broker; to serve that one: --data-dir %s (log.dirs)",
                self.path,
                ", ".join(map(str, found)),
                ",".join(map(str, found)),
            )

    def begin(self) -> None:
        """Take away the mark of the last clean stop: from here on a crash is possible."""
        if not self.was_clean:
            return
        try:
            self._disk.remove(self.path / CLEAN_SHUTDOWN_FILE)
            self._disk.sync_directory(self.path)
        except OSError as error:
            self.health.fail("cannot take away the mark of a clean stop", error)

    def write_checkpoint(self, name: str, offsets: Callable[[], Offsets]) -> None:
        """Replace a checkpoint by the offsets as they are when its turn comes, if it has news;
        OSError."""
        with self._checkpointing:
            self._write_checkpoint(name, offsets())
            if CLEANER_OFFSETS not in self._disk.names(self.path):
                write_offsets(self.path / CLEANER_OFFSETS, {}, self._disk)

    def forget_offsets(self, key: TopicPartition) -> None:
        """Take a partition out of the checkpoints; OSError.

        Those of one that was deleted must not count for a new one of its name: its records would
        be taken for flushed, or for deleted.
        """
        with self._checkpointing:
            for name in (RECOVERY_POINTS, LOG_START_OFFSETS):
                known = self._checkpoints.get(name)
                if known is None:
                    known = read_offsets(self.path / name, self._disk)
                self._write_checkpoint(name, {k: v for k, v in known.items() if k != key})

    def _write_checkpoint(self, name: str, offsets: Offsets) -> None:
        if self._checkpoints.get(name) == offsets:
            return
        self._checkpoints.pop(name, None)
        write_offsets(self.path / name, offsets, self._disk)
        self._checkpoints[name] = dict(offsets)

    def close(self, *, clean: bool) -> None:
        """Let go of the directory; ``clean`` says that everything in it is flushed and closed."""
        if clean and self.is_online:
            try:
                self._disk.write_atomically(self.path / CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN)
            except OSError as error:
                log.error("cannot mark %s as closed cleanly: %s", self.path, error)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            self._disk.close(self._lock)
            self._lock = -1


def _why_not(error: OSError | ValueError) -> str:
    """Why a directory can't be opened."""
    if isinstance(error, FileExistsError):
        return "it is not a directory"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    refused = isinstance(error, OSError) and error.errno in (EACCES, EPERM, EROFS)
    return f"cannot {'write to' if refused else 'open'} it: {reason}"


def open_directories(paths: list[Path], node_id: int, disk: Disk) -> list[DataDirectory]:
    """Lock and identify the directories of a broker, in their order.

    Those that fail are offline. Raises LogDirectoryError for a mistake in ``log.dirs``, and where
    none is left.
    """
    opened: list[DataDirectory] = []
    try:
        for path in paths:
            if any(path.resolve() == other.path.resolve() for other in opened):
                raise LogDirectoryError(f"{path} is named twice in log.dirs")
            opened.append(DataDirectory(path, disk))
        known = [data.meta for data in opened if data.meta is not None]
        cluster_id = known[0].cluster_id if known else random_id()
        for data in opened:
            if data.is_online:
                data.identify(node_id, cluster_id)
        _check_ids(opened)
        if not any(data.is_online for data in opened):
            raise all_failed(opened)
        for data in opened:
            if not data.is_online:
                data.health.announce()
    except BaseException:
        for data in opened:
            data.close(clean=False)
        raise
    return opened


def _check_ids(opened: list[DataDirectory]) -> None:
    """Two directories with one id are a directory and its copy."""
    by_id: dict[str, Path] = {}
    for data in opened:
        if data.meta is None:
            continue
        other = by_id.setdefault(data.meta.directory_id, data.path)
        if other != data.path:
            raise LogDirectoryError(
                f"{other} and {data.path} have the same directory.id {data.meta.directory_id}: "
                "one is a copy of the other; take it out of log.dirs"
            )


def all_failed(directories: list[DataDirectory]) -> LogDirectoryError:
    """What there is to say when no directory is left."""
    reasons = "; ".join(f"{data.path}: {data.health.failure}" for data in directories)
    remedy = "mend it, or choose another with --data-dir DIR (log.dirs)"
    if any(data.health.lacks_room for data in directories):
        remedy = (
            f"make at least {ROOM_TO_START_BYTES >> 20} MB free and start again, "
            "nothing that was acknowledged is lost"
        )
    return LogDirectoryError(f"cannot use any data directory: {reasons}; {remedy}")
