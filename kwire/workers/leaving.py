"""The way back from etcd: moves a stopped cluster's metadata into the directory with its data.

Rules:

- The data directories are those of one broker, and of workers in the first of them (``worker.2``,
  …). They are locked meanwhile. A broker's data is here if all directories are here with which the
  broker has registered.
- The directories have to be the newest ones: a clean stop has left the epoch of the broker's last
  registration in them. After a kill, the machine must not have restarted since, because a power cut
  may have taken records.
- No broker has a session, and every partition has a replica here with all acknowledged records.
- The metadata is written beside its place, then deleted from etcd, then renamed. The deletion is
  one transaction that compares the revision and the sessions, so it fails if a broker has started.
  At no time can brokers start with either store. After a crash the command is given once more.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple, NoReturn
from uuid import uuid4

from kwire.broker.elsewhere import forget_store, noted_store
from kwire.clock import steady_clock_ms
from kwire.cluster_server import open_etcd
from kwire.config.broker import BrokerConfig
from kwire.config.metadata_store import EXAMPLE, SETTING, parse_store
from kwire.config.settings import ConfigError
from kwire.errors import KafkaError
from kwire.log.data_directory import WORKER_DIRECTORY
from kwire.log.disk import Disk
from kwire.log.meta_properties import read_meta_properties
from kwire.log.stop_marks import StopMarks
from kwire.metadata.changes import apply, snapshot
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.etcd.gateway import CALL_S, Unreachable
from kwire.metadata.fewer_brokers import ReplicasElsewhere, gather
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import RevisionConflict, StoreUnusable
from kwire.workers.directory import WorkersError, lock_directory

PENDING = f"{FILE_NAME}.leaving"
"""The name of the file while etcd may still have the metadata."""

SHOWN = 3
"""How many partitions an error names."""


class LeavingError(Exception):
    """The metadata can't be taken back; the text is one line that says why and what to do."""


class Left(NamedTuple):
    """The result: where the metadata is now and where it was, and how many workers it needs."""

    file: Path
    store: str
    cluster_id: str
    workers: int
    """1 stands for a single broker."""


class Home(NamedTuple):
    """A broker's data here: its cluster, the ids of its directories, and their content."""

    cluster_id: str
    directories: frozenset[str]
    names: frozenset[str]
    marks: tuple[StopMarks, ...]

    def is_whole(self, broker: BrokerImage) -> bool:
        """Whether all directories are here with which the broker has registered."""
        return self.directories.issuperset(broker.directories)

    def is_newest(self, broker: BrokerImage) -> bool:
        """Whether the directories have all records that the broker had when it ended."""
        return all(
            mark.broker_epoch == broker.epoch if mark.was_clean else mark.is_same_boot
            for mark in self.marks
        )


async def leave_store(config: BrokerConfig, random: Random) -> Left:
    """Take the metadata of a stopped cluster back from etcd; LeavingError."""
    directory, paths = config.metadata_directory(), _directories(config)
    address = str(config[SETTING] or noted_store(directory)) or _no_address(directory)
    try:
        with ExitStack() as locks:
            for path in dict.fromkeys([directory, *paths]):
                locks.callback(os.close, lock_directory(path))
            parsed = parse_store(address)
            name = str(uuid4())
            store = await open_etcd(config, parsed, name, random, steady_clock_ms, lambda: CALL_S)
            try:
                return await _leave_store(directory, paths, store, address)
            finally:
                await store.close()
    except (WorkersError, ReplicasElsewhere, StoreUnusable, ConfigError) as error:
        raise LeavingError(str(error)) from error
    except KafkaError as error:
        raise LeavingError(_what_failed(directory, error)) from error
    except (OSError, ValueError) as error:
        raise LeavingError(f"cannot use {directory}: {error}") from error


def _what_failed(directory: Path, error: KafkaError) -> str:
    """What to do when a call of etcd or a write to the disk has failed."""
    if not isinstance(error, Unreachable):
        return f"{error.message}; mend that and give the command again"
    if (directory / FILE_NAME).exists() and not noted_store(directory):
        return _already_left(directory)
    return (
        f"{error.message}; the metadata is taken from etcd, so etcd has to run: mend that and give "
        "the command again"
    )


def _already_left(directory: Path) -> str:
    return f"{directory} has its metadata already: go on with kwire serve, without {SETTING}"


def _no_address(directory: Path) -> NoReturn:
    """Raise LeavingError, because neither the directory nor the options name the store."""
    if (directory / FILE_NAME).exists():
        raise LeavingError(_already_left(directory))
    raise LeavingError(
        f"{directory} doesn't say which store its cluster has: add -o {SETTING}={EXAMPLE}"
    )


def _directories(config: BrokerConfig) -> list[Path]:
    """The data directories of the broker, then those of workers; LeavingError if one is missing."""
    paths = config.data_directories()
    for path in paths:
        if not path.is_dir():
            raise LeavingError(f"there is no directory {path}: name the broker's, --data-dir DIR")
    names = sorted(filter(WORKER_DIRECTORY.fullmatch, os.listdir(paths[0])))
    return paths + [paths[0] / name for name in names]


async def _leave_store(directory: Path, paths: list[Path], store: EtcdStore, address: str) -> Left:
    file, pending = directory / FILE_NAME, directory / PENDING
    homes = _homes(paths)
    if not homes:
        raise LeavingError(f"{paths[0]} is no broker's data directory: it has no meta.properties")
    first = next(iter(homes))
    cluster_id = homes[first].cluster_id
    image = await store.read()
    if image.cluster_id == cluster_id and first in image.brokers:
        image = await _gathered(store, image, homes, first)
        await _write(pending, image)
        try:
            await store.delete_cluster(image.revision)
        except RevisionConflict:
            raise LeavingError("a broker has started meanwhile: stop it and try again") from None
    elif noted_store(directory) not in ("", address) or not (pending.exists() or file.exists()):
        raise LeavingError(
            f"{address} has no metadata of cluster {cluster_id}, to which {paths[0]} belongs: if "
            f"kwire leave-store was used with another directory, serve that one, which has "
            f"{FILE_NAME}; otherwise name the right store with -o {SETTING}={EXAMPLE}, or restore "
            "etcd"
        )
    if pending.exists():
        _remove(file)
        pending.replace(file)
    for path in dict.fromkeys([directory, *paths]):
        forget_store(path)
        Disk().sync_directory(path)
    return Left(file, address, cluster_id, await _workers(file, first))


def _homes(paths: list[Path]) -> dict[int, Home]:
    """The brokers with data here by node id, workers last; OSError, ValueError."""
    homes: dict[int, Home] = {}
    for path in paths:
        meta = read_meta_properties(path, Disk())
        if meta is None:
            continue
        before = homes.get(meta.node_id, Home(meta.cluster_id, frozenset(), frozenset(), ()))
        homes[meta.node_id] = Home(
            meta.cluster_id,
            before.directories | {meta.directory_id},
            before.names.union(os.listdir(path)),
            (*before.marks, StopMarks(path, Disk())),
        )
    return homes


async def _gathered(
    store: EtcdStore, image: MetadataImage, homes: Mapping[int, Home], first: int
) -> MetadataImage:
    """The image for the brokers whose data is here; LeavingError, ReplicasElsewhere."""
    if running := await store.members():
        raise LeavingError(
            f"node.id {', '.join(map(str, running))} still runs, or was killed just now: stop all "
            "brokers of the cluster, and try again"
        )
    known = {
        node: home
        for node, home in homes.items()
        if home.cluster_id == image.cluster_id and node in image.brokers
    }
    if not known[first].is_whole(image.brokers[first]):
        raise LeavingError(
            f"node.id {first} has registered with more data directories than these: name all of "
            "them, with --config FILE or -o log.dirs=DIR,DIR"
        )
    old = [node for node, home in known.items() if not home.is_newest(image.brokers[node])]
    if old:
        raise LeavingError(
            f"node.id {', '.join(map(str, old))} has used newer directories since, or lost power: "
            "start the cluster with its store and the newest ones, and stop it cleanly"
        )
    nodes = {node for node, home in known.items() if home.is_whole(image.brokers[node])}
    missing = _missing_logs(image, {node: homes[node] for node in nodes})
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise LeavingError(
            f"the data directories lack {', '.join(missing[:SHOWN])}{more}: start the cluster with "
            "its store once more, which says what to do"
        )
    return apply(image, gather(image, nodes), image.revision)


def _missing_logs(image: MetadataImage, homes: Mapping[int, Home]) -> list[str]:
    """The partitions without a log that should be here. One that never had a leader needs none."""
    return [
        f"{topic.name}-{index}"
        for topic in image.topics_by_name.values()
        for index, partition in enumerate(topic.partitions)
        for node in {*partition.isr, *partition.elr}
        if node in homes
        and partition.leader_epoch > 1
        and f"{topic.name}-{index}" not in homes[node].names
    ]


async def _write(path: Path, image: MetadataImage) -> None:
    """Write the file anew; StoreUnusable, KafkaError."""
    _remove(path)
    store = EmbeddedStore.open(path)
    try:
        await store.commit(0, snapshot(image))
    finally:
        await store.close()
    Disk().sync_directory(path.parent)


def _remove(path: Path) -> None:
    """Remove a file of metadata with its journals, which SQLite would take for the next one's."""
    for journal in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{journal}").unlink(missing_ok=True)


async def _workers(file: Path, first: int) -> int:
    """How many workers hold replicas, by the metadata in the file; StoreUnusable."""
    store = EmbeddedStore.open(file)
    image = await store.read()
    await store.close()
    nodes = {
        node
        for topic in image.topics_by_name.values()
        for partition in topic.partitions
        for node in partition.replicas
    }
    return max(nodes, default=first) - first + 1
