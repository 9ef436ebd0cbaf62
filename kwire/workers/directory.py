"""The data directory of the command: its locks, and the metadata that all workers share.

Rules:

- The supervisor locks the first data directory and the metadata's directory. All processes that it
  starts inherit the locks. So a directory is free when the last of these processes has ended, also
  after the supervisor was killed.
- Workers whose supervisor was killed end within moments: a start waits that long for a lock.
- The supervisor alone opens the metadata. It gives a new cluster its id.
- A directory with topics but without metadata needs one start without ``--workers``, which takes
  the topics over.
"""

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from kwire.broker.elsewhere import kept_elsewhere
from kwire.config.broker import BrokerConfig
from kwire.errors import KafkaError
from kwire.log.directory_health import LOCK_FILE
from kwire.log.disk import Disk
from kwire.log.meta_properties import random_id, read_meta_properties
from kwire.metadata.changes import Change, ClusterNamed, apply
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore, lacks_room
from kwire.metadata.features import initial_features
from kwire.metadata.fewer_brokers import ReplicasElsewhere, begin_together
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import StoreFull, StoreUnusable
from kwire.server import no_room

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long a start waits for a lock."""

LONG_PATIENCE_S = 180.0
"""How long, if workers are known to stop, which takes the time that the disk needs."""

LOOK_EVERY_S = 0.02

_PARTITION = re.compile(r".+-\d+")


class WorkersError(Exception):
    """The workers can't start or go on; the text is one line that says why and what to do."""


class InheritedLocks(Disk):
    """The disk of a worker, which has inherited some locks from its supervisor."""

    def __init__(self, locks: Mapping[Path, int]) -> None:
        self._locks = locks

    def lock(self, path: Path) -> int:
        """Lock a file until it is closed; BlockingIOError if another process has the lock."""
        held = self._locks.get(path)
        return super().lock(path) if held is None else os.dup(held)


def lock_directories(config: BrokerConfig, patience_s: float = PATIENCE_S) -> dict[Path, int]:
    """Lock the directories that belong to all workers; WorkersError."""
    directories = dict.fromkeys([config.data_directories()[0], config.metadata_directory()])
    return {path / LOCK_FILE: lock_directory(path, patience_s) for path in directories}


def lock_directory(directory: Path, patience_s: float = PATIENCE_S) -> int:
    """Lock a directory, which is made if it is missing; WorkersError."""
    disk = Disk()
    deadline_s = time.monotonic() + patience_s
    is_told = False
    try:
        disk.make_directory(directory)
        while True:
            try:
                return disk.lock(directory / LOCK_FILE)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise
            if not is_told:
                log.warning("waiting for a process that still uses %s", directory)
                is_told = True
            time.sleep(LOOK_EVERY_S)
    except BlockingIOError as error:
        raise WorkersError(
            f"the data directory {directory} is in use by another process; "
            "stop that process, or choose another directory with --data-dir DIR (log.dirs)"
        ) from error
    except OSError as error:
        raise WorkersError(f"cannot use {directory}: {error.strerror or error}") from error


async def open_metadata(config: BrokerConfig, count: int) -> EmbeddedStore:
    """Open the metadata for so many workers before any of them runs; WorkersError."""
    directory = config.metadata_directory()
    is_new = not (directory / FILE_NAME).exists()
    if is_new:
        _check_new(config)
    try:
        store = EmbeddedStore.open(directory / FILE_NAME)
        Disk().sync_directory(directory)  # or a power loss could remove a new file
    except StoreFull as error:
        raise WorkersError(str(no_room(directory, str(error)))) from error
    except StoreUnusable as error:
        raise WorkersError(str(error)) from error
    try:
        image = await store.read()
        _check_takeover(config, image)
        changes = _changes(config, image, count)
        if changes:
            await store.commit(image.revision, changes)
    except KafkaError as error:
        await store.close()
        if lacks_room(directory):
            raise WorkersError(str(no_room(directory, error.message))) from error
        raise WorkersError(f"cannot use metadata.log.dir {directory}: {error.message}") from error
    except WorkersError:
        await store.close()
        raise
    return store


def _check_new(config: BrokerConfig) -> None:
    """Raise WorkersError if the directories have topics but no metadata."""
    if (why := kept_elsewhere(config.metadata_directory())) is not None:
        raise WorkersError(why)
    for directory in config.data_directories():
        if directory.is_dir() and any(map(_PARTITION.fullmatch, os.listdir(directory))):
            raise WorkersError(
                f"{directory} has partitions but no {FILE_NAME}: start kwire once without "
                "--workers, which takes them over, then with it"
            )


def _check_takeover(config: BrokerConfig, image: MetadataImage) -> None:
    """Raise WorkersError if Apache Kafka has used the directories since kwire took them over."""
    if image.kafka_metadata_end_offset < 0:
        return
    from kwire.broker.kafka_import import KafkaImportError, check_unchanged

    try:
        check_unchanged(image, config.all_directories())
    except KafkaImportError as error:
        raise WorkersError(str(error)) from error


def _changes(config: BrokerConfig, image: MetadataImage, count: int) -> list[Change]:
    """The changes of metadata that are needed before the workers start."""
    changes: list[Change] = []
    if not image.cluster_id:
        changes += [ClusterNamed(_known_cluster_id(config) or random_id()), *initial_features()]
        image = apply(image, changes, image.revision)
    first = config.integer("node.id")
    try:
        return changes + begin_together(image, range(first, first + count))
    except ReplicasElsewhere as error:
        raise WorkersError(str(error)) from error


def _known_cluster_id(config: BrokerConfig) -> str | None:
    for directory in config.data_directories():
        try:
            meta = read_meta_properties(directory, Disk())
        except (OSError, ValueError):
            continue  # the worker that opens the directory says what is wrong
        if meta is not None:
            return meta.cluster_id
    return None
