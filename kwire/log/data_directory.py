"""One data directory (an entry of ``log.dirs``): its lock, its identity, its checkpoints.

Rules:

- The broker holds ``.lock`` while the directory is open, so two processes never write the same
  files.
- ``.kafka_cleanshutdown`` exists only between a clean stop and the next start. The broker removes
  the file before it loads the logs: a start that fails halfway must not leave it (KAFKA-10471).
- A checkpoint holds the offsets of the partitions in this directory only.
- A disk error takes the directory offline, at the start and later. A directory that belongs to
  another broker or cluster, or that another process has locked, is the operator's mistake and stops
  the start.
- A start that is refused gives back the directories that it was the first to claim: it may have
  claimed them with a wrong ``node.id``, which would refuse the next start.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from errno import EACCES, EPERM, EROFS
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kwire.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
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
from kwire.log.stop_marks import BOOT_FILE, CLEAN_SHUTDOWN_FILE, NO_EPOCH, StopMarks

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]

ROOM_TO_START_BYTES = 16 << 20
"""Enough for the indexes and snapshots that a start may have to rebuild."""

_OF_EVERY_START = {
    LOCK_FILE,
    META_FILE,
    CLEAN_SHUTDOWN_FILE,
    BOOT_FILE,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
}
"""The files in a directory that has never had a partition."""

WORKER_DIRECTORY = re.compile(r"worker\.\d+")
"""The names of the workers' directories (``kwire serve --workers``) in the first worker's
directory."""


class LogDirectoryError(Exception):
    """A data directory can't be used; the text is one line that says what to do."""


class DataDirectory:
    """A data directory, open or offline.

    ``arriving`` has copies of logs that move here, ``unfinished`` has moves of an earlier process.
    ``has_deletions`` says that such a process has noted deletions (``kwire.log.deletions``).
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        """Create and lock the directory; it is offline if that fails.

        Raises LogDirectoryError if another process has locked the directory.
        """
        self.path = path
        self.health = DirectoryHealth(path)
        self.health.is_opening = True
        self.meta: MetaProperties | None = None
        self.marks: StopMarks | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.arriving: dict[TopicPartition, PartitionLog] = {}
        self.unfinished: dict[TopicPartition, Path] = {}
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self._unsure: set[str] = set()  # files that count as empty and may be broken
        # The event loop and threads write checkpoints. Without a lock an older one could win.
        self._checkpointing = threading.Lock()
        self._disk = disk
        self._lock = -1
        self._is_claimed_now = self.has_deletions = False
        try:
            self._open_directory()
        except (OSError, ValueError) as error:
            self.health.failure = _why_not(error)  # open_directories logs it
            self.health.lacks_room = is_shortage_of_room(error)

    @property
    def is_online(self) -> bool:
        """Whether the directory is in use, that is, has not failed."""
        return self.health.failure is None

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was clean."""
        return self.marks is not None and self.marks.was_clean

    @property
    def may_lack_records(self) -> bool:
        """Whether a power cut may have taken records."""
        return self.marks is not None and self.marks.may_lack_records

    @property
    def lock_descriptor(self) -> int:
        """The descriptor of the lock file, -1 without a lock."""
        return self._lock

    @property
    def lock_name(self) -> str | None:
        """The name of the lock that this process holds; see ``Disk.name_of_lock``."""
        return self._disk.name_of_lock(self._lock) if self._lock >= 0 else None

    @cached_property
    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks that an earlier process left; read once, when they are needed."""
        return dict(self._known(HIGH_WATERMARKS))

    def _open_directory(self) -> None:
        made = [above for above in (self.path, *self.path.parents) if not above.exists()]
        self._disk.make_directory(self.path)
        for new in made:
            self._disk.sync_directory(new.parent)
        try:
            self._lock = self._disk.lock(self.path / LOCK_FILE)
        except BlockingIOError as error:
            raise LogDirectoryError(
                f"the data directory {self.path} is in use by another process; "
                "stop that process, or choose another directory with --data-dir DIR (log.dirs)"
            ) from error
        try:
            self.meta = read_meta_properties(self.path, self._disk)
        except ValueError as error:
            raise ValueError(
                f"{self.path / META_FILE} is broken ({error}): put its copy back, or remove it, "
                "and the next start writes a new one for this node.id"
            ) from error
        self.marks = StopMarks(self.path, self._disk)
        self.recovery_points = self._known(RECOVERY_POINTS)
        self.log_start_offsets = self._known(LOG_START_OFFSETS)

    def check_identity(self, node_id: int, cluster_id: str) -> None:
        """Check that the directory belongs to this broker or to none; LogDirectoryError."""
        meta = self.meta
        if meta is not None and meta.node_id != node_id:
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to node.id {meta.node_id}, not {node_id}; "
                f"start with -o node.id={meta.node_id}{self.or_remove_identity()}"
            )
        if meta is not None and meta.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"the data directory {self.path} belongs to cluster {meta.cluster_id}, the other "
                f"data directories to cluster {cluster_id}; take it out of log.dirs"
                f"{self.or_remove_identity()}"
            )

    def or_remove_identity(self) -> str:
        """A second remedy, for a directory that an earlier start has claimed and never used."""
        if not _OF_EVERY_START.issuperset(self._disk.names(self.path)):
            return ""
        return f", or remove {self.path / META_FILE}: the directory has no data"

    def claim(self, node_id: int, cluster_id: str) -> None:
        """Give the directory its identity, if it has none."""
        if self.meta is not None and self.meta.directory_id:
            return
        if self.meta is None:
            self._warn_of_kafkas_below()
            self._is_claimed_now = True
        self.meta = MetaProperties(cluster_id, node_id, random_id())
        try:
            write_meta_properties(self.path, self.meta, self._disk)
        except OSError as error:
            self.health.fail("cannot write meta.properties", error)

    def give_back(self) -> None:
        """Remove the identity that this process has given the directory; it has no partition."""
        if self._is_claimed_now and self.is_online:
            self._is_claimed_now = False
            try:
                self._disk.remove(self.path / META_FILE)
            except OSError as error:
                log.warning("cannot remove %s: %s", self.path / META_FILE, error)

    def _warn_of_kafkas_below(self) -> None:
        """Warn if a new directory contains a broker's: ``log.dirs`` may be one level too high."""
        found = [
            self.path / name
            for name in sorted(self._disk.names(self.path))
            if (self.path / name / META_FILE).is_file() and not WORKER_DIRECTORY.fullmatch(name)
        ]
        if found:
            log.warning(
                "%s has no data of its own and starts empty, but %s is the data directory of a "
                "broker; to serve that data start with --data-dir %s (log.dirs)",
                self.path,
                ", ".join(map(str, found)),
                ",".join(map(str, found)),
            )

    def remove_clean_mark(self) -> None:
        """Remove the mark of the last clean stop, because a crash is possible from here on."""
        try:
            if self.marks is not None:
                self.marks.note_start()
        except OSError as error:
            self.health.fail("cannot remove the mark of a clean stop", error)

    def note_boot(self) -> None:
        """Note the machine's boot; see ``kwire.log.stop_marks``."""
        try:
            if self.marks is not None and self.is_online:
                self.marks.note_boot()
        except OSError as error:
            self.health.refused(f"cannot note the boot in {self.path}", error)

    def write_checkpoint(self, name: str, offsets: Callable[[], Offsets]) -> None:
        """Replace a checkpoint if its offsets have changed; OSError.

        ``offsets`` is called under the lock, so the newest offsets are written.
        """
        with self._checkpointing:
            self._write_checkpoint(name, offsets())
            if CLEANER_OFFSETS not in self._disk.names(self.path):
                write_offsets(self.path / CLEANER_OFFSETS, {}, self._disk)

    def lower_high_watermarks(self, ends: Mapping[TopicPartition, int]) -> None:
        """Let no checkpointed high watermark lie beyond these log end offsets; OSError."""
        with self._checkpointing:
            known = self._known(HIGH_WATERMARKS)
            lowered = {key: min(offset, ends.get(key, offset)) for key, offset in known.items()}
            assert lowered.keys() == known.keys(), self.path  # no partition is forgotten by that
            self._write_checkpoint(HIGH_WATERMARKS, lowered)
            for key in ends.keys() & self.high_watermarks.keys():
                self.high_watermarks[key] = min(self.high_watermarks[key], ends[key])

    def forget_offsets(self, key: TopicPartition) -> None:
        """Remove a partition from the checkpoints; OSError.

        The offsets of a deleted partition must not apply to a new partition of the same name.
        Otherwise the next start would think that the new partition's records are flushed, deleted
        or replicated.
        """
        with self._checkpointing:
            self.high_watermarks.pop(key, None)
            for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS):
                known = self._known(name)
                if key in known:
                    self._write_checkpoint(name, {k: v for k, v in known.items() if k != key})

    def _known(self, name: str) -> dict[TopicPartition, int]:
        """The content of a checkpoint, read once; OSError."""
        known = self._checkpoints.get(name)
        if known is None:
            known = self._checkpoints[name] = read_offsets(self.path / name, self._disk)
            if not known and (self.path / name).exists():
                self._unsure.add(name)
        return known

    def _write_checkpoint(self, name: str, offsets: Offsets) -> None:
        if self._checkpoints.get(name) == offsets and name not in self._unsure:
            return
        self._checkpoints.pop(name, None)
        write_offsets(self.path / name, offsets, self._disk)
        self._checkpoints[name] = dict(offsets)
        self._unsure.discard(name)

    def close(self, *, clean: bool, broker_epoch: int = NO_EPOCH) -> None:
        """Release the directory; ``clean`` means that every log in it is flushed and closed."""
        if clean and self.is_online and self.marks is not None:
            try:
                self.marks.note_stop(broker_epoch)
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


def open_directories(
    paths: list[Path], node_id: int, disk: Disk, cluster_id: str | None = None
) -> list[DataDirectory]:
    """Lock and identify the data directories of a broker, in the order of ``paths``.

    ``cluster_id`` is the id of a cluster that exists already. A directory that fails is returned
    offline. Raises LogDirectoryError for a mistake in ``log.dirs``, and if every directory failed.
    """
    opened: list[DataDirectory] = []
    try:
        for path in paths:
            if any(path.resolve() == other.path.resolve() for other in opened):
                raise LogDirectoryError(f"{path} is named twice in log.dirs")
            opened.append(DataDirectory(path, disk))
        cluster_id = _cluster_of(opened, cluster_id)
        online = [data for data in opened if data.is_online]
        for data in online:
            data.check_identity(node_id, cluster_id)
        _check_ids(opened)
        for data in online:
            data.claim(node_id, cluster_id)
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


def _cluster_of(opened: list[DataDirectory], cluster_id: str | None) -> str:
    """The cluster's id: the expected one, that of the directories, or a new one."""
    first = next((data for data in opened if data.meta is not None), None)
    known = first.meta.cluster_id if first is not None and first.meta is not None else None
    if first is not None and None not in (cluster_id, known) and known != cluster_id:
        raise LogDirectoryError(
            f"the data directory {first.path} belongs to cluster {known}, the metadata store "
            f"to cluster {cluster_id}; start with another directory, or with another prefix in "
            f"kwire.metadata.store{first.or_remove_identity()}"
        )
    return cluster_id or known or random_id()


def _check_ids(opened: list[DataDirectory]) -> None:
    """Raise LogDirectoryError if two directories have one id: one is a copy of the other."""
    by_id: dict[str, Path] = {}
    for data in opened:
        if data.meta is None or not data.meta.directory_id:  # Kafka before 3.7 gave none
            continue
        other = by_id.setdefault(data.meta.directory_id, data.path)
        if other != data.path:
            raise LogDirectoryError(
                f"{other} and {data.path} have the same directory.id {data.meta.directory_id}: "
                "one is a copy of the other; take it out of log.dirs"
            )


def all_failed(directories: list[DataDirectory]) -> LogDirectoryError:
    """The error for a broker whose data directories have all failed."""
    reasons = "; ".join(f"{data.path}: {data.health.failure}" for data in directories)
    remedy = "mend it, or choose another with --data-dir DIR (log.dirs)"
    if any(data.health.lacks_room for data in directories):
        remedy = (
            f"make at least {ROOM_TO_START_BYTES >> 20} MB free and start again, "
            "nothing that was acknowledged is lost"
        )
    return LogDirectoryError(f"cannot use any data directory: {reasons}; {remedy}")
