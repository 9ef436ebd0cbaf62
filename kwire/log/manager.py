"""All logs of a broker, in one or more data directories.

Rules:

- A new partition goes to the directory that AlterReplicaLogDirs has named for it (``preferred``),
  or to the online one with the fewest partitions.
- A directory that fails goes offline alone, with its logs; the other directories serve on. A
  partition that isn't found while a directory is offline may be in that directory, so it isn't
  created in another one.
- A log whose topic no longer exists, or that has moved to other brokers while this one was down, is
  a stray: its directory is renamed to ``<name>.<32 hex digits>-stray`` and kept.
- The directory of a deleted partition is renamed to ``<name>.<32 hex digits>-delete`` at once and
  removed after ``file.delete.delay.ms``. A start removes such directories of an earlier run.
- A log start offset that moved is checkpointed before the request is acknowledged.

Source: LogManager of Kafka.
"""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpointed import ALL_CHECKPOINTS, HighWatermarks, checkpoint, note_lost_ends
from kwire.log.checkpoints import TopicPartition
from kwire.log.data_directory import DataDirectory, open_directories
from kwire.log.disk import Disk
from kwire.log.leader_epochs import UNDEFINED
from kwire.log.loading import DELETE_SUFFIX, load_logs, never
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.partition_metadata import holds_another_log, write_topic_id
from kwire.log.recovery import NO_TOPIC_ID, open_log
from kwire.log.retention import Clocks, apply_retention, has_doomed, remove_doomed
from kwire.log.stop_marks import NO_EPOCH
from kwire.log.stray_partitions import STRAY_SUFFIX, path_with_suffix
from kwire.log.syncing import Syncing, sync_all

log = logging.getLogger(__name__)


class AtStop(NamedTuple):
    """The data of a broker that stops: high watermarks, and the epoch of its registration."""

    high_watermarks: Mapping[TopicPartition, int]
    broker_epoch: int


NOTHING_KNOWN = AtStop(MappingProxyType({}), NO_EPOCH)


class LogManager:
    """The data directories of one broker and the logs in them."""

    def __init__(self, directories: Sequence[DataDirectory], disk: Disk) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._data_directories = {data.path: data for data in directories}
        self._metas = [data.meta for data in directories if data.meta is not None]
        self.counts = {data.path: 0 for data in directories}
        self.preferred: dict[TopicPartition, Path] = {}
        self._cordoned: Callable[[], Collection[Path]] = tuple
        self.disk = disk
        # Logs of the same name as one in ``logs``, until get_or_create chooses by topic id.
        self.rivals: list[PartitionLog] = []
        self.deleted_segments = 0
        self.doomed: list[tuple[int, Path]] = []
        # Threads create and delete logs, the event loop ends moves: one at a time.
        self.changing = threading.Lock()

    @property
    def cluster_id(self) -> str:
        """The id in the directories' ``meta.properties``."""
        return self._metas[0].cluster_id

    @property
    def data_directories(self) -> list[DataDirectory]:
        """The data directories themselves: their ids and locks."""
        return list(self._data_directories.values())

    @property
    def directories(self) -> list[Path]:
        """The data directories, in the order of ``log.dirs``."""
        return list(self._data_directories)

    def tell_of_failures(self, tell: Callable[[], None]) -> None:
        """Set the function that is called, in any thread, when a directory fails or is full."""
        for data in self._data_directories.values():
            data.health.tell = tell

    def ask_for_cordons(self, ask: Callable[[], Collection[Path]]) -> None:
        """Set the function that is asked, in any thread, which directories get no new logs."""
        self._cordoned = ask

    def is_cordoned(self, directory: Path) -> bool:
        """Whether a data directory gets no new logs."""
        return directory in self._cordoned()

    @property
    def failures(self) -> dict[Path, str]:
        """The directories that are offline, each with the reason."""
        healths = [data.health for data in self._data_directories.values()]
        return {health.path: health.failure for health in healths if health.failure is not None}

    @property
    def has_failed(self) -> bool:
        """Whether every directory has failed."""
        return len(self.failures) == len(self._data_directories)

    @classmethod
    def open(
        cls,
        directories: Sequence[Path],
        *,
        node_id: int,
        now_ms: int,
        default_config: LogConfig | None = None,
        disk: Disk | None = None,
        recovery_threads: int = 1,
        cluster_id: str | None = None,
        is_stopped: Callable[[], bool] = never,
    ) -> "LogManager":
        """Open data directories and every log in them; LogDirectoryError or LoadingStopped.

        ``cluster_id`` is that of a cluster that exists already. ``default_config`` applies to a log
        until ``get_or_create`` passes the topic's own.
        """
        disk = disk or Disk()
        opened = open_directories([p.absolute() for p in directories], node_id, disk, cluster_id)
        manager, config = cls(opened, disk), default_config or LogConfig()
        try:
            found = load_logs(opened, config, now_ms, disk, recovery_threads, is_stopped)
        except BaseException:
            for data in opened:
                data.close(clean=False)
            raise
        for one in found:
            manager.counts[one.directory.parent] += 1
            if (one.topic, one.partition) in manager.logs:
                manager.rivals.append(one)
            else:
                manager.logs[one.topic, one.partition] = one
        for data in opened:
            if data.is_online and not data.was_clean:
                note_lost_ends(data, manager.logs, found)
        return manager

    def look_for_room(self) -> None:
        """Check whether directories that were full have room again; called every few seconds."""
        for data in self._data_directories.values():
            if data.health.is_short_of_room:
                with suppress(OSError):
                    data.health.check_shortage(self.disk.free_bytes(data.path))

    def get_or_create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool = True,
        epoch: int = UNDEFINED,
    ) -> PartitionLog:
        """The log of a partition, updated to these settings; created if there is none.

        ``epoch`` is that of the leader if this broker leads: a log that is created begins with it.
        A directory of the same name with another topic id is left from a deleted topic and is put
        aside. Raises KafkaError (KAFKA_STORAGE_ERROR), also for a partition that isn't new and may
        be in a directory that is offline.
        """
        with self.changing:
            found = self._get_or_create((topic, partition), topic_id, config, now_ms, is_new, epoch)
        found.update_config(config)
        return found

    def _get_or_create(
        self,
        key: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        is_new: bool,
        epoch: int,
    ) -> PartitionLog:
        found = self._choose(key, topic_id)
        if found is not None and found.topic_id == NO_TOPIC_ID:
            self._name_topic(found, topic_id)
        if found is None:
            if not is_new and self.failures:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{key[0]}-{key[1]} may be in a directory that is offline",
                )
            found = self.logs[key] = self._create(key, topic_id, config, now_ms, epoch)
        return found

    def _choose(self, key: TopicPartition, topic_id: bytes) -> PartitionLog | None:
        """The log with this name and this topic id or no id; other logs are put aside."""
        found = [self.logs[key]] if key in self.logs else []
        found += [rival for rival in self.rivals if (rival.topic, rival.partition) == key]
        fitting = [one for one in found if one.topic_id in (topic_id, NO_TOPIC_ID)]
        for stray in found:
            if stray not in fitting[:1]:
                self._put_stray_aside(stray)
        if fitting:
            self.logs[key] = fitting[0]
            self.rivals = [rival for rival in self.rivals if rival is not fitting[0]]
            return fitting[0]
        return None

    def _put_stray_aside(self, stray: PartitionLog) -> None:
        """Rename the directory of a log that is no longer this broker's, and keep its files."""
        key = (stray.topic, stray.partition)
        log.warning("%s is of a deleted topic or moved away; putting it aside", stray.directory)
        if self.logs.get(key) is stray:
            del self.logs[key]
        self.rivals = [rival for rival in self.rivals if rival is not stray]
        self.counts[stray.directory.parent] -= 1
        stray.abandon()
        try:
            self._put_aside(stray.directory, STRAY_SUFFIX)
        except OSError as error:
            stray.health.refused(f"cannot put {stray.name} aside", error)

    def put_strays_aside(self, own: Mapping[TopicPartition, bytes]) -> None:
        """Put aside every log that isn't one of these partitions, which have these topic ids."""
        for one in [*self.logs.values(), *self.rivals]:
            wanted = own.get((one.topic, one.partition))
            if wanted is None or one.topic_id not in (wanted, NO_TOPIC_ID) or one in self.rivals:
                self._put_stray_aside(one)

    def _name_topic(self, opened: PartitionLog, topic_id: bytes) -> None:
        """Write the topic id into the log's directory, which has none yet."""
        try:
            write_topic_id(opened.directory, topic_id, self.disk)
            self.disk.sync_directory(opened.directory)
        except OSError as error:
            raise opened.health.refused(f"cannot open {opened.name}", error) from error
        opened.topic_id = topic_id

    def _create(
        self, key: TopicPartition, topic_id: bytes, config: LogConfig, now_ms: int, epoch: int
    ) -> PartitionLog:
        """Create a log in the preferred directory, or that with the fewest logs, or the next.

        A cordoned directory is the last resort, for a replica that was placed before the cordon.
        """
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory is offline")
        wanted = self.preferred.pop(key, None)
        cordoned = self._cordoned()
        for data in sorted(
            self.data_directories,
            key=lambda d: (d.path in cordoned, d.path != wanted, self.counts[d.path]),
        ):
            if not data.is_online:
                continue
            path = data.path / f"{key[0]}-{key[1]}"
            try:
                data.forget_offsets(key)  # first: after a crash the directory would have them
                is_new = self.disk.make_directory(path)
                if not is_new and holds_another_log(path, topic_id, self.disk):
                    log.warning("%s holds another log; putting it aside", path)
                    self._put_aside(path, STRAY_SUFFIX)
                created = open_log(
                    path,
                    *key,
                    config,
                    disk=self.disk,
                    now_ms=now_ms,
                    clean=True,
                    topic_id=topic_id,
                    epoch=epoch,
                    is_new=is_new,
                    health=data.health,
                )
                self.disk.sync_directory(data.path)
            except (FileExistsError, NotADirectoryError, ValueError) as error:  # no disk error
                refusal = KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create {path}: {error}"
                )
                continue
            except OSError as error:
                refusal = data.health.refused(f"cannot create {path}", error)
                continue
            self.counts[data.path] += 1
            return created
        raise refusal

    def high_watermark_before(self, opened: PartitionLog) -> int:
        """A log's high watermark when an earlier process checkpointed it last; 0 if unknown."""
        known = self._data_directories[opened.health.path].high_watermarks
        return known.get((opened.topic, opened.partition), 0)

    def begin_epoch(self, opened: PartitionLog, epoch: int) -> None:
        """Note that a leader of this epoch starts to write; KafkaError (KAFKA_STORAGE_ERROR)."""
        try:
            opened.leader_epochs.assign(epoch, opened.log_end_offset)
            opened.leader_epochs.save()
        except OSError as error:
            what = f"cannot begin a leader epoch of {opened.name}"
            raise opened.health.refused(what, error) from error

    def delete(self, topic: str, partition: int, steady_ms: int) -> None:
        """Rename the directory of a log now; its files are removed later.

        A directory that can't be renamed is put aside when its name is needed.
        """
        with self.changing:
            self._delete((topic, partition), steady_ms)

    def _delete(self, key: TopicPartition, steady_ms: int) -> None:
        doomed = self.logs.pop(key)
        doomed.abandon()
        self.counts[doomed.directory.parent] -= 1
        if doomed.is_offline:
            log.warning("%s keeps its name because its data directory is offline", doomed.directory)
            return
        try:
            target = self._put_aside(doomed.directory, DELETE_SUFFIX)
            self.doomed.append((steady_ms + doomed.config.file_delete_delay_ms, target))
        except OSError as error:
            doomed.health.refused(f"cannot delete {doomed.name}", error)

    def _put_aside(self, directory: Path, kind: str) -> Path:
        """Rename a partition's directory so that its name is free; returns the new path."""
        assert directory.parent in self._data_directories, directory  # never one level too high
        target = path_with_suffix(directory, os.urandom(16).hex(), kind)
        self.disk.rename(directory, target)
        self.disk.sync_directory(target.parent)
        return target

    def retain(
        self, clocks: Clocks, high_watermark: Callable[[TopicPartition], int]
    ) -> Iterator[None]:
        """Apply retention and expire producers, see ``apply_retention``; yields for other tasks."""
        for deleted in apply_retention(self.logs, clocks, high_watermark, self.disk):
            self.deleted_segments += deleted
            yield

    def has_doomed(self, steady_ms: int) -> bool:
        """Whether the delay of a deleted file is over; a thread may change the lists meanwhile."""
        return any(remove_ms <= steady_ms for remove_ms, _ in list(self.doomed)) or any(
            opened.doomed and not opened.is_offline and has_doomed(opened, steady_ms)
            for opened in list(self.logs.values())
        )

    def remove_doomed(self, steady_ms: int) -> None:
        """Remove deleted files whose delay is over; call in a thread: large files take a while."""
        for opened in list(self.logs.values()):
            if opened.doomed and not opened.is_offline:
                try:
                    remove_doomed(opened, steady_ms, self.disk)
                except OSError as error:
                    opened.health.refused(f"cannot remove files of {opened.name}", error)
        for doomed in list(self.doomed):
            remove_ms, path = doomed
            if remove_ms <= steady_ms:
                self.disk.remove_tree(path)
                self.doomed.remove(doomed)

    def checkpoint(
        self, high_watermarks: HighWatermarks, names: Collection[str] = ALL_CHECKPOINTS
    ) -> bool:
        """Flush the rolled segments, then write these checkpoints; may run in a thread.

        Returns False if a disk refused a call; the log says which.
        """
        online = [data for data in self._data_directories.values() if data.is_online]
        done = [checkpoint(data, self.logs, high_watermarks, names) for data in online]
        return all(done)

    def note_boot(self) -> None:
        """Note the boot in directories whose logs have no gap to fill. Call it in a thread."""
        for data in filter(lambda found: not self._has_gap(found), self.data_directories):
            data.note_boot()

    def _has_gap(self, data: DataDirectory) -> bool:
        return any(one.gap_at >= 0 for one in self.logs.values() if one.health is data.health)

    def close(self, now_ms: int, *, clean: bool = True, known: AtStop = NOTHING_KNOWN) -> None:
        """Close every log; ``clean`` also flushes, checkpoints and marks the directories.

        A directory with a log that can't be flushed gets no mark, so that the next start recovers
        its logs.
        """
        unclean: set[Path] = set()
        logs = list(self.logs.values()) if clean else []
        errors = sync_all([_closing(opened) for opened in logs], self.disk.syncers)
        for opened, error in zip(logs, errors, strict=True):
            if error is not None:
                log.error("cannot close %s cleanly: %s", opened.name, error)
                unclean.add(opened.health.path)
        for data in self._data_directories.values():
            is_clean = clean and data.is_online and data.path not in unclean
            is_clean = is_clean and not self._has_gap(data)
            is_clean = is_clean and checkpoint(data, self.logs, lambda: known.high_watermarks)
            data.close(clean=is_clean, broker_epoch=known.broker_epoch)


def _closing(opened: PartitionLog) -> Syncing:
    """The part of one log in the close of all logs; KafkaError after an error of the disk."""
    try:
        yield from opened.closing()
    except OSError as error:
        raise opened.health.refused(f"cannot close {opened.name}", error) from error
