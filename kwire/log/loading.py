"""Loading every log of the data directories at the start.

Rules:

- The logs of a directory that was closed cleanly are opened without checking their batches. The
  logs of any other directory are recovered (``kwire.log.recovery``).
- Several threads recover logs, so that one log waits for the disk while another is checked.
- A stop of the broker ends the loading: between two logs, and while a segment is read to check it,
  before anything of it is cut or rebuilt. The next start recovers the logs.
- A disk error takes the directory and all its logs offline. The other directories are loaded.
- ``<name>.<hex>-delete`` is an unfinished deletion: it is finished now. Kafka or kwire has put a
  ``-stray`` directory aside: it stays, and one line counts all of them
  (``kwire.log.stray_partitions``). ``-future`` is an unfinished move between directories, which
  begins anew when the partition is served (``kwire.log.moved``).
- If two directories hold the same partition of the same topic id, and no move was interrupted at
  its end, the start stops, because only a person can decide which one to keep. If the topic ids
  differ, an older topic of that name was deleted while its directory was offline; ``LogManager``
  decides by the current topic id.
- ``__cluster_metadata`` in Apache Kafka's directory is the log of Kafka's controllers. kwire leaves
  it alone.

Source: LogManager.loadLogs of Kafka.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kwire.log.checkpoints import DELETIONS, TopicPartition
from kwire.log.data_directory import DataDirectory, LogDirectoryError, all_failed
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.producer_limits import LoadedProducers
from kwire.log.recovery import open_log, segment_offsets
from kwire.log.segment import LOG_SUFFIX
from kwire.log.stray_partitions import describe_strays, find_strays

log = logging.getLogger(__name__)

TELL_INTERVAL_S = 3.0
DELETE_SUFFIX = "-delete"
_FUTURE_SUFFIX = "-future"
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_DELETED_DIRECTORY = re.compile(r".+\.[0-9a-f]{32}-delete")
_CONTROLLERS_TOPIC = "__cluster_metadata"


class LoadingStopped(Exception):
    """The broker was asked to stop before every log was loaded."""


def never() -> bool:
    """False: nothing stops the loading."""
    return False


class RecoveryProgress:
    """Writes a line every few seconds that says how far a directory's recovery has come.

    ``check`` and ``add_bytes`` raise LoadingStopped once ``is_stopped`` returns True.
    """

    def __init__(
        self, directory: Path, logs: int, size_bytes: int, is_stopped: Callable[[], bool] = never
    ) -> None:
        self._directory = directory
        self._is_stopped = is_stopped
        self._logs, self._bytes = logs, size_bytes
        self._logs_done = self._bytes_done = 0
        self._began_s = self._told_s = time.monotonic()
        self._lock = threading.Lock()
        if logs and size_bytes:
            log.warning("%s was not closed cleanly; checking its logs", directory)

    def check(self) -> None:
        """Raise LoadingStopped if the broker was asked to stop."""
        if self._is_stopped():
            raise LoadingStopped

    def add_bytes(self, size_bytes: int) -> None:
        """Count bytes that recovery has read."""
        self.check()
        with self._lock:
            self._bytes_done += size_bytes
            if time.monotonic() - self._told_s >= TELL_INTERVAL_S:
                self._report_progress("recovering")

    def add_log(self) -> None:
        """Count a log that was opened."""
        with self._lock:
            self._logs_done += 1

    def finish(self) -> None:
        """Write a line that says that every log of the directory is open."""
        if self._logs:
            self._report_progress("recovered")

    def _report_progress(self, what: str) -> None:
        self._told_s = time.monotonic()
        log.info(
            "%s %s: %d of %d logs, %.1f of %.1f MB in %.1f s",
            what,
            self._directory,
            self._logs_done,
            self._logs,
            self._bytes_done / 1e6,
            self._bytes / 1e6,
            self._told_s - self._began_s,
        )


def load_logs(
    directories: Sequence[DataDirectory],
    config: LogConfig,
    now_ms: int,
    disk: Disk,
    recovery_threads: int,
    is_stopped: Callable[[], bool] = never,
) -> list[PartitionLog]:
    """Load every log of the online directories; ``recovery_threads`` threads per directory.

    Raises LogDirectoryError if two directories hold the same log, and if every directory failed;
    LoadingStopped soon after ``is_stopped``, which threads call, returns True.
    """
    logs: dict[tuple[TopicPartition, bytes], PartitionLog] = {}
    producers = LoadedProducers(config.producer_ids_max_of_broker)
    for data in directories:
        if not data.is_online:
            continue
        data.remove_clean_mark()
        for opened in _load_directory(
            data, config, now_ms, disk, recovery_threads, producers, is_stopped
        ):
            key = ((opened.topic, opened.partition), opened.topic_id)
            if key in logs and (kept := _moved(logs[key], opened, disk)) is not None:
                logs[key] = kept
                continue
            if key in logs:
                raise LogDirectoryError(
                    f"{logs[key].directory} and {opened.directory} hold the same log; "
                    "remove the one in the data directory that failed last"
                )
            logs[key] = opened
        if not data.is_online and any(other.is_online for other in directories):
            data.health.announce()
    if not any(data.is_online for data in directories):
        raise all_failed(list(directories))
    for data in directories:
        data.health.is_opening = False
    return list(logs.values())


def _moved(opened: PartitionLog, other: PartitionLog, disk: Disk) -> PartitionLog | None:
    """The one of two logs to serve after an interrupted move; LogDirectoryError."""
    from kwire.log.moved import moved_one

    try:
        return moved_one(opened, other, os.urandom(16).hex(), disk)
    except OSError as error:
        raise LogDirectoryError(f"cannot end the move of {opened.directory}: {error}") from error


def _load_directory(
    data: DataDirectory,
    config: LogConfig,
    now_ms: int,
    disk: Disk,
    threads: int,
    producers: LoadedProducers,
    is_stopped: Callable[[], bool],
) -> list[PartitionLog]:
    """The logs of one directory, empty if the directory fails."""
    try:
        found = _partition_directories(data, disk)
        suspect_bytes = _suspect_bytes(data, found, disk)
        progress = RecoveryProgress(data.path, len(found), suspect_bytes, is_stopped)
    except OSError as error:
        data.health.fail("cannot look for logs", error)
        return []

    def load(place: tuple[Path, TopicPartition]) -> PartitionLog | None:
        path, key = place
        if not data.is_online:
            return None
        progress.check()
        try:
            opened = open_log(
                path,
                *key,
                config,
                disk=disk,
                now_ms=now_ms,
                clean=data.was_clean,
                recovery_point=data.recovery_points.get(key, 0),
                log_start_offset=data.log_start_offsets.get(key, 0),
                health=data.health,
                progress=progress.add_bytes,
                may_lack_records=data.may_lack_records,
            )
        except (OSError, ValueError) as error:
            data.health.fail(f"cannot open the log in {path}", error)
            return None
        progress.add_log()
        producers.add(opened)
        return opened

    if data.was_clean or min(threads, len(found)) <= 1:
        loaded = [load(place) for place in found]
    else:
        from kwire.log.parallel_map import parallel_map

        loaded = parallel_map(load, found, threads, "log-recovery")
    if not data.is_online:
        return []
    if not data.was_clean:
        progress.finish()
    return [one for one in loaded if one is not None]


def _suspect_bytes(
    data: DataDirectory, found: Sequence[tuple[Path, TopicPartition]], disk: Disk
) -> int:
    """How many bytes recovery has to read: every segment that a crash may have touched."""
    total = 0
    for path, key in () if data.was_clean else found:
        bases = segment_offsets(disk.names(path))
        point = data.recovery_points.get(key, 0)
        for base, following in zip(bases, [*bases[1:], None], strict=False):
            if following is None or following > point:
                total += disk.size_of(path / f"{base:020d}{LOG_SUFFIX}")
    return total


def _partition_directories(data: DataDirectory, disk: Disk) -> list[tuple[Path, TopicPartition]]:
    """The partitions' directories, after unfinished deletions have been finished."""
    found = []
    names = disk.names(data.path)
    data.has_deletions = DELETIONS in names
    for name in sorted(names):
        path = data.path / name
        if _DELETED_DIRECTORY.fullmatch(name):
            disk.remove_tree(path)
        elif name.endswith(_FUTURE_SUFFIX) and path.is_dir():
            log.warning("%s is an unfinished move between directories, which begins anew", path)
            from kwire.log.moved import future_of

            if (moved := future_of(name)) is not None:
                data.unfinished[moved] = path
        else:
            match = _PARTITION_DIRECTORY.fullmatch(name)
            if match and match["topic"] != _CONTROLLERS_TOPIC and path.is_dir():
                found.append((path, (match["topic"], int(match["partition"]))))
    strays = find_strays(data.path, disk)
    if strays:
        log.warning("%s", describe_strays(data.path, strays))
    return found
