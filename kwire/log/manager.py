"""All logs of a broker, in one or more data directories.

Rules:

- A new partition goes to the directory with the fewest.
- A deleted partition's directory is renamed to ``<name>.<32 hex digits>-delete`` at once and
  removed after ``file.delete.delay.ms``; one left over from an earlier run is removed at the start.
- A log start offset that moved is checkpointed before it is acknowledged.
- ``__cluster_metadata`` in a directory of Apache Kafka is its controllers' log and is left alone.

Source: LogManager of Kafka.
"""

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.data_directory import DataDirectory, LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.partition_metadata import write_topic_id
from kwire.log.recovery import NO_TOPIC_ID, open_log
from kwire.log.retention import delete_old_segments, remove_doomed

log = logging.getLogger(__name__)

DELETE_SUFFIX = "-delete"
_PARTITION_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_MAX_DIRECTORY_NAME = 255
_CONTROLLERS_TOPIC = "__cluster_metadata"


class LogManager:
    """The data directories of one broker and the logs in them."""

    def __init__(self, directories: Sequence[DataDirectory], cluster_id: str, disk: Disk) -> None:
        self.cluster_id = cluster_id
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._data_directories = {data.path: data for data in directories}
        self._counts = {data.path: 0 for data in directories}
        self._disk = disk
        self._doomed: list[tuple[int, Path]] = []
        # One at a time, or an older offset might replace a newer one that was acknowledged.
        self._checkpointing = threading.Lock()

    @property
    def directories(self) -> list[Path]:
        """The data directories, in the order of ``log.dirs``."""
        return list(self._data_directories)

    @classmethod
    def open(
        cls,
        directories: Sequence[Path],
        *,
        node_id: int,
        now_ms: int,
        default_config: LogConfig | None = None,
        disk: Disk | None = None,
    ) -> "LogManager":
        """Open data directories and every log in them; LogDirectoryError says what is wrong.

        ``default_config`` holds until a partition's own is known.
        """
        disk = disk or Disk()
        config = default_config or LogConfig()
        opened: list[DataDirectory] = []
        try:
            cluster_id: str | None = None
            for path in directories:
                opened.append(DataDirectory(path.absolute(), disk))
                cluster_id = opened[-1].identify(node_id, cluster_id).cluster_id
            manager = cls(opened, cluster_id or "", disk)
            for data in opened:
                manager._open_logs(data, config, now_ms)
                data.begin()
        except BaseException:
            for data in opened:
                data.close(clean=False)
            raise
        return manager

    def _open_logs(self, data: DataDirectory, config: LogConfig, now_ms: int) -> None:
        found = [path for path in sorted(data.path.iterdir()) if path.is_dir()]
        if not data.was_clean and any(_topic_partition(path) for path in found):
            log.warning("%s was not closed cleanly; checking its logs", data.path)
        for path in found:
            if path.name.endswith(DELETE_SUFFIX):
                self._disk.remove_tree(path)
                continue
            key = _topic_partition(path)
            if key is None:
                continue
            if key in self.logs:
                raise LogDirectoryError(f"{path} and {self.logs[key].directory} hold the same log")
            try:
                self.logs[key] = open_log(
                    path,
                    *key,
                    config,
                    disk=self._disk,
                    now_ms=now_ms,
                    clean=data.was_clean,
                    recovery_point=data.recovery_points.get(key, 0),
                    log_start_offset=data.log_start_offsets.get(key, 0),
                )
                self._counts[data.path] += 1
            except (OSError, ValueError) as error:
                raise LogDirectoryError(f"cannot open the log in {path}: {error}") from error

    def get_or_create(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """The log of a partition, with these settings; a new one where there is none.

        A directory of the same name that belongs to another topic id is a leftover of a topic that
        was deleted; it is put out of the way. Raises OSError.
        """
        key = (topic, partition)
        found = self.logs.get(key)
        if found is not None and found.topic_id == NO_TOPIC_ID:
            write_topic_id(found.directory, topic_id, self._disk)
            found.topic_id = topic_id
        elif found is not None and found.topic_id != topic_id:
            log.warning("%s belongs to a topic that is gone; deleting it", found.directory)
            self.delete(topic, partition, now_ms)
            found = None
        if found is None:
            path = self._emptiest() / f"{topic}-{partition}"
            found = open_log(
                path,
                topic,
                partition,
                config,
                disk=self._disk,
                now_ms=now_ms,
                clean=True,
                topic_id=topic_id,
            )
            self._disk.sync_directory(path.parent)
            self.logs[key] = found
            self._counts[path.parent] += 1
        found.update_config(config)
        return found

    def _emptiest(self) -> Path:
        """The data directory with the fewest logs."""
        return min(self._counts, key=lambda path: self._counts[path])

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Put a log out of the way now; its files are removed later."""
        doomed = self.logs.pop((topic, partition))
        doomed.abandon()
        self._counts[doomed.directory.parent] -= 1
        suffix = f".{os.urandom(16).hex()}{DELETE_SUFFIX}"
        name = doomed.directory.name[: _MAX_DIRECTORY_NAME - len(suffix)] + suffix
        target = doomed.directory.with_name(name)
        self._disk.rename(doomed.directory, target)
        self._disk.sync_directory(target.parent)
        self._doomed.append((now_ms + doomed.config.file_delete_delay_ms, target))

    def housekeeping(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Retention, files whose time has come, silent producers. Waits for no disk."""
        for key, opened in list(self.logs.items()):
            try:
                watermark = high_watermarks.get(key, opened.log_end_offset)
                delete_old_segments(opened, now_ms, watermark, self._disk)
                remove_doomed(opened, now_ms, self._disk)
                opened.expire_producers(now_ms)
            except (OSError, KafkaError) as error:
                log.error("housekeeping of %s failed: %s", opened.name, error)
        due = [path for remove_ms, path in self._doomed if remove_ms <= now_ms]
        self._doomed = [item for item in self._doomed if item[0] > now_ms]
        for path in due:
            self._disk.remove_tree(path)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> bool:
        """Flush rolled segments and write the checkpoints; may be called in a thread.

        False where a disk refused something; the log says what.
        """
        with self._checkpointing:
            return self._checkpoint(high_watermarks)

    def _checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> bool:
        everything = dict(self.logs)
        all_done = True
        for opened in everything.values():
            try:
                opened.flush_rolled()
            except KafkaError as error:
                log.error("cannot flush %s: %s", opened.name, error)
                all_done = False
        for data in self._data_directories.values():
            logs = {k: v for k, v in everything.items() if v.directory.parent == data.path}
            try:
                _write_checkpoints(data, logs, high_watermarks)
            except OSError as error:
                log.error("cannot write the checkpoints in %s: %s", data.path, error)
                all_done = False
        return all_done

    def close(self, now_ms: int, *, clean: bool = True) -> None:
        """Close every log; ``clean``: flushed, checkpointed and marked as closed cleanly.

        There is no mark where a log is offline or can't be flushed: the next start looks closely.
        """
        if clean:
            for opened in self.logs.values():
                try:
                    opened.close(now_ms)
                    clean = clean and not opened.is_offline
                except (OSError, KafkaError) as error:
                    log.error("cannot close %s cleanly: %s", opened.name, error)
                    clean = False
        if clean:
            clean = self.checkpoint({})
        for data in self._data_directories.values():
            data.close(clean=clean)


def _write_checkpoints(
    data: DataDirectory,
    logs: Mapping[TopicPartition, PartitionLog],
    high_watermarks: Mapping[TopicPartition, int],
) -> None:
    """Write the checkpoints of the logs in one directory; OSError."""
    data.write_checkpoints(
        {key: opened.recovery_point for key, opened in logs.items()},
        {
            key: opened.log_start_offset
            for key, opened in logs.items()
            if opened.log_start_offset > opened.segments[0].base_offset
        },
        {key: high_watermarks.get(key, opened.log_end_offset) for key, opened in logs.items()},
    )


def _topic_partition(path: Path) -> TopicPartition | None:
    """The partition that a directory's name stands for, None for one that stands for none."""
    match = _PARTITION_DIRECTORY.fullmatch(path.name)
    if match is None or path.name.endswith(DELETE_SUFFIX) or match["topic"] == _CONTROLLERS_TOPIC:
        return None
    return match["topic"], int(match["partition"])
