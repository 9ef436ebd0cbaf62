"""Deletions of many logs, noted in their data directory until they are done.

Rules:

- The directory of a deleted log gets a new name at once (``kwire.log.manager``). For thousands of
  logs that takes seconds, and the broker may be stopped or killed meanwhile. Without a note, the
  next start would find logs that the metadata doesn't know, and put them aside as strays.
- ``kwire-deletions`` is written before the first of these logs is deleted, and removed after the
  last one. A stop before it is written leaves strays.
- The next start deletes the noted logs that are left, unless the metadata has their partition:
  then it is older than the note, as from a backup, and the log is kept. Topic ids decide, so the
  log of a new topic of the same name is kept, too. A broken note is ignored and removed.

Format: a checkpoint (``kwire.log.checkpoints``) with the entries ``topic_id partition``, the id as
Kafka prints it.
"""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from kwire.log.checkpoints import (
    DELETIONS,
    TopicPartition,
    read_lines,
    tell_broken,
    write_lines,
)
from kwire.log.data_directory import DataDirectory
from kwire.log.disk import Disk
from kwire.log.loading import DELETE_SUFFIX
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import NO_TOPIC_ID
from kwire.log.stray_partitions import path_with_suffix
from kwire.protocol.types import uuid_from_str, uuid_to_str

log = logging.getLogger(__name__)


def note_deletions(manager: LogManager, doomed: Mapping[TopicPartition, bytes]) -> None:
    """Note these logs, and no others, as those to delete. Waits for the disk.

    ``doomed`` has the topic id of each: a new topic's log may have the name by now.
    """
    of_directory: dict[Path, list[tuple[str, int]]] = {}
    for key, topic_id in doomed.items():
        found = manager.logs.get(key)
        if found is not None and found.topic_id == topic_id:
            entry = uuid_to_str(topic_id), found.partition
            of_directory.setdefault(found.directory.parent, []).append(entry)
    for data in manager.data_directories:
        if data.is_online:
            _write(data, of_directory.get(data.path, []), manager.disk)


def _write(data: DataDirectory, entries: list[tuple[str, int]], disk: Disk) -> None:
    try:
        if entries:
            write_lines(data.path / DELETIONS, entries, disk)
        elif DELETIONS in disk.names(data.path):
            disk.remove(data.path / DELETIONS)
    except OSError as error:
        data.health.refused("cannot note which logs are being deleted", error)


def finish_deletions(
    manager: LogManager, own: Callable[[], Mapping[TopicPartition, bytes]], steady_ms: int
) -> None:
    """Delete what an earlier process has noted and left, when the broker starts.

    ``own`` returns the topic ids of the partitions that the metadata gives to this broker.
    """
    online = [data for data in manager.data_directories if data.is_online]
    noted_in = {data: _noted(data, manager.disk) for data in online}
    wanted = own() if any(noted_in.values()) else {}
    for data, noted in noted_in.items():
        if noted is None:
            continue
        left = [
            one
            for one in [*manager.logs.values(), *manager.rivals]
            if (one.topic_id, one.partition) in noted
            and one.directory.parent == data.path
            and wanted.get((one.topic, one.partition)) != one.topic_id
        ]
        try:
            _delete(manager, data, left, steady_ms)
        except OSError as error:  # the note stays for the next start
            data.health.refused(f"cannot delete logs in {data.path}", error)
        else:
            _write(data, [], manager.disk)


def _delete(
    manager: LogManager, data: DataDirectory, doomed: list[PartitionLog], steady_ms: int
) -> None:
    """Rename the logs' directories, and wait for the disk once; OSError."""
    if not doomed:
        return
    log.info("%s: deleting %d logs, as decided before the start", data.path, len(doomed))
    for one in doomed:
        target = path_with_suffix(one.directory, os.urandom(16).hex(), DELETE_SUFFIX)
        manager.disk.rename(one.directory, target)
        manager.doomed.append((steady_ms + one.config.file_delete_delay_ms, target))
        manager.counts[data.path] -= 1
        one.abandon()
        key = one.topic, one.partition
        if manager.logs.get(key) is not one:
            manager.rivals.remove(one)
            continue
        del manager.logs[key]
        # A new topic's log in another directory has the name to itself now.
        heir = next((one for one in manager.rivals if (one.topic, one.partition) == key), None)
        if heir is not None:
            manager.rivals.remove(heir)
            manager.logs[key] = heir
    manager.disk.sync_directory(data.path)


def _noted(data: DataDirectory, disk: Disk) -> set[tuple[bytes, int]] | None:
    """Topic id and partition of each noted log; empty if the file is missing or broken.

    None if the disk refuses to read the file; the next start may read it.
    """
    try:
        entries = read_lines(data.path / DELETIONS, disk)
        noted = {(uuid_from_str(topic_id), int(partition)) for topic_id, partition in entries}
        return {one for one in noted if one[0] != NO_TOPIC_ID}
    except ValueError:
        tell_broken(data.path / DELETIONS)
        return set()
    except OSError as error:
        data.health.refused(f"cannot read {data.path / DELETIONS}", error)
        return None
