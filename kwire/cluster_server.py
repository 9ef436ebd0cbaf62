"""A kwire server in a cluster: its metadata is in a store that all brokers share.

Rules:

- Start: connect to the store, read or create the cluster's id, open the data directories, listen,
  register. After that it works like any other server.
- An etcd that isn't there yet, or that goes away at any moment of the start, is waited for,
  ``PATIENCE_S`` for each call. What waiting can't mend, such as a wrong password, ends the start at
  once.
- Stop: the broker hands over its partitions, and ends its session. Then it stops like any other
  server.
- A new store gets the metadata that a former single broker has left in the directory.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from kwire.broker.elsewhere import MOVED, note_store, why_not_new
from kwire.broker.membership import Membership
from kwire.broker.peers import Peers
from kwire.broker.replica.replica_inventory import (
    known_directories,
    lock_names,
    log_copied_partitions,
    log_lost_partitions,
    make_new_logs,
    may_lack_records,
    open_entries,
    replicas_of,
)
from kwire.client.peer import OpenStream, open_tcp
from kwire.config.broker import BrokerConfig
from kwire.config.metadata_store import SETTING, EtcdAddress
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.meta_properties import random_id, read_meta_properties
from kwire.metadata.changes import Change, ClusterNamed, ConfigChanged, snapshot
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.etcd.gateway import CALL_S
from kwire.metadata.features import initial_features, own_features
from kwire.metadata.image import BrokerImage, ConfigResourceType, MetadataImage
from kwire.metadata.replication_configs import CLUSTER_WIDE
from kwire.metadata.store import Member, MetadataStore, RevisionConflict, StoreUnusable
from kwire.server import KAFKA_METADATA, Server, StartError

if TYPE_CHECKING:
    from kwire.metadata.etcd.etcd_store import EtcdStore

PATIENCE_S = 15.0
"""How long the start waits for etcd, so that brokers and etcd can be started in any order."""


class ClusterServer(Server):
    """One broker of a cluster."""

    _store: MetadataStore
    _membership: Membership
    _open_stream: OpenStream = staticmethod(open_tcp)
    _open_to_brokers: OpenStream | None = None

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        self._incarnation = str(UUID(int=self._random.getrandbits(128), version=4))
        self._store_tasks = trio.CancelScope()
        self._store_kept = trio.Event()
        self._call_s = PATIENCE_S
        try:
            self._store = await self._connect()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep_store)
                    self._cluster_id = await self._name_cluster()
                    await super()._serve(task_status)
                    nursery.cancel_scope.cancel()
            finally:
                await self._store.close()
        except* StoreUnusable as group:
            raise StartError(str(_first(group))) from None
        except* KafkaError as group:
            error = _first(group)
            code = error.code if isinstance(error, KafkaError) else None
            is_silent = code is ErrorCode.REQUEST_TIMED_OUT
            remedy = "; start it, or correct kwire.metadata.store" if is_silent else ""
            raise StartError(f"cannot join the cluster: {error}{remedy}") from None

    async def preload(self) -> None:
        """Import, in a thread, the modules that a cluster's clients will need."""
        from kwire.dispatch.preloading import preload

        await self.broker.threads.loading.run(preload)

    async def _keep_store(self) -> None:
        try:
            with self._store_tasks:
                await self._store.run()
        finally:
            self._store_kept.set()

    def _secure(self) -> None:
        super()._secure()
        name = self.config.inter_broker_name or self.config.listeners()[0].name
        if self.config.security_protocol(name) == "PLAINTEXT":
            return
        from kwire.config.settings import ConfigError
        from kwire.security.among_brokers import opener

        try:
            self._open_stream = opener(name, self.config, self._own_configs)
        except ConfigError as error:
            raise StartError(str(error)) from error
        self._open_to_brokers = self._open_stream

    def _own_configs(self) -> Mapping[str, str]:
        """The dynamic configs of this broker; none before it has joined the cluster."""
        broker = getattr(self, "broker", None)
        if broker is None:
            return {}
        node_id = str(self.config["node.id"])
        return self.broker.image.config(ConfigResourceType.BROKER, node_id)

    async def _connect(self) -> MetadataStore:
        """The store that all brokers share; StoreUnusable, KafkaError."""
        address = self.config.metadata_store()
        assert address is not None
        return await open_etcd(
            self.config,
            address,
            self._incarnation,
            self._random,
            self._clock.steady_ms,
            lambda: self._call_s,
        )

    async def _name_cluster(self) -> str:
        """The cluster's id; a new cluster gets the id of this broker's directories, or a new id."""
        while True:
            image = await self._store.read()
            if image.cluster_id:
                return image.cluster_id
            await self._starting.run(self._check_new)
            name = await self._starting.run(self._known_cluster_id) or random_id()
            try:
                first = [ClusterNamed(name), *initial_features(), *self._topic_defaults()]
                await self._store.commit(0, first)
            except RevisionConflict:
                continue  # another broker has given the id

    def _check_new(self) -> None:
        """StartError if this broker must not begin a new cluster in the empty store."""
        address = self.config[SETTING]
        if address is None:
            return
        if (why := why_not_new(self.config.metadata_directory(), str(address))) is not None:
            raise StartError(why)

    def _topic_defaults(self) -> list[Change]:
        """The replication settings of this broker's file, for all brokers of a new cluster."""
        return [
            ConfigChanged(ConfigResourceType.BROKER, "", name, self.config.given[name])
            for name in CLUSTER_WIDE
            if name in self.config.given
        ]

    def _known_cluster_id(self) -> str | None:
        for directory in self.config.data_directories():
            meta = read_meta_properties(directory, self._disk)
            if meta is not None:
                return meta.cluster_id
        return None

    def _plan_takeover(self) -> None:
        if (self.config.metadata_directory() / MOVED).exists():
            return  # it was taken over before; ``_register`` checks whether Kafka has used it since
        if any((path / KAFKA_METADATA).exists() for path in self.config.all_directories()):
            raise StartError(
                f"the data directory is Apache Kafka's; start kwire once without {SETTING}, "
                "which takes the metadata over, then with it"
            )

    async def _open_store(self, manager: LogManager) -> MetadataStore:
        return self._store

    async def _register(self, store: MetadataStore, manager: LogManager) -> MetadataImage:
        await self._bring_along(manager)
        config, node_id = self.config, self.config.integer("node.id")
        image = await store.read()
        await self._starting.run(self._check_takeover, image)
        before = image.brokers.get(node_id)
        rack = config["broker.rack"]
        log_dirs = open_entries(manager, config.strings("log.dirs"))
        broker = BrokerImage(
            node_id,
            None if rack is None else str(rack),
            self._endpoints(),
            self._incarnation,
            features=own_features(),
            directories=known_directories(manager, before),
            is_cordoned=config.are_all_cordoned(log_dirs),
            log_dirs=log_dirs,
        )
        self._membership = Membership(
            store,
            Member(node_id, self._incarnation, lock_names(manager)),
            broker,
            self._clock,
            config.integer("broker.session.timeout.ms"),
            config.integer("broker.heartbeat.interval.ms"),
            self._open_stream,
        )
        image = await self._membership.join(
            image,
            replicas_of(manager),
            lambda before: may_lack_records(manager, before),
            lambda image: self._starting.run(
                make_new_logs, manager, image, node_id, LogConfig(), self._clock.now_ms()
            ),
        )
        log_lost_partitions(image, node_id)
        log_copied_partitions(manager, before, image, node_id)
        await self._starting.run(self._note_store)
        return image

    def _note_store(self) -> None:
        """Note the store's address in the data directory; StartError. Workers need no note."""
        address, directory = self.config[SETTING], self.config.metadata_directory()
        try:
            if address is not None:
                note_store(directory, str(address), self._disk)
        except OSError as error:
            raise StartError(f"cannot write to {directory}: {error}") from error

    def _endpoints(self) -> tuple[tuple[str, str, int], ...]:
        """The advertised addresses of this broker, or the bound ones without these."""
        advertised = {found.name: found for found in self.config.advertised_listeners()}
        return tuple(
            (listener.name, *(advertised[listener.name][1:] if listener.name in advertised else at))
            for (listener, _), at in zip(self._sockets, self.addresses, strict=True)
        )

    async def _bring_along(self, manager: LogManager) -> None:
        """Give a new cluster the metadata that this directory has from a former single broker.

        StartError if partitions would be put aside because the store doesn't know their topics.
        """
        path = self.config.metadata_directory() / FILE_NAME
        image = await self._store.read()
        known = await _metadata_in(path) if path.exists() else None
        if known is not None and not known.cluster_id:
            path.unlink()  # a single broker's start was refused before it began a cluster
            known = None
        if known is None:
            if manager.logs and not image.brokers:
                raise StartError(
                    f"{path.parent} has partitions, but neither it nor the metadata store knows "
                    "their topics; start the broker first whose data directory has the file "
                    f"{FILE_NAME}"
                )
            return
        if image.brokers:
            if self.config.integer("node.id") not in image.brokers:
                raise _begun_by_another()
            if not path.with_name(MOVED).exists():
                path.rename(path.with_name(MOVED))  # an earlier start ended just before this
            return
        if known.cluster_id != image.cluster_id:
            raise StartError(f"{path} belongs to cluster {known.cluster_id}; remove it")
        await self._starting.run(self._check_takeover, known)
        changes: list[Change] = snapshot(known)
        try:
            await self._store.commit(image.revision, changes)
        except RevisionConflict:
            raise _begun_by_another() from None
        path.rename(path.with_name(MOVED))

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        self._call_s = CALL_S  # from now on, requests wait for these calls
        async with trio.open_nursery() as nursery:
            if self._open_to_brokers is not None:
                self.broker.peers = Peers(self.broker, self._open_to_brokers)
            self.broker.lease = self._membership.lease
            self.broker.lease.on_change = self.broker.cut_off
            await self._starting.run(self.broker.log_manager.note_boot)
            nursery.start_soon(self._membership.run, self.broker)
            await super()._run(task_status)
            nursery.cancel_scope.cancel()
        self._store_tasks.cancel()
        await self._store_kept.wait()  # before the server closes the store

    async def _finish_requests(self, connections: trio.CancelScope) -> None:
        await self._membership.leave(self.broker)
        await super()._finish_requests(connections)


async def open_etcd(
    config: BrokerConfig,
    address: EtcdAddress,
    incarnation: str,
    random: Random,
    steady_ms: Callable[[], int],
    call_s: Callable[[], float],
) -> "EtcdStore":
    """The store of one process on etcd, which may take ``call_s`` to be there, and to answer.

    StoreUnusable, KafkaError.
    """
    from kwire.metadata.etcd.etcd_store import EtcdStore
    from kwire.metadata.etcd.gateway import Access

    names = (
        "kwire.metadata.store.username",
        "kwire.metadata.store.password",
        "kwire.metadata.store.tls.ca.file",
        "kwire.metadata.store.tls.certificate.file",
        "kwire.metadata.store.tls.key.file",
    )
    values = [config[name] for name in names]
    access = Access(*(None if value is None else str(value) for value in values))
    return await EtcdStore.open(
        address,
        access,
        f"{config.integer('node.id')}:{incarnation}",
        random=random,
        steady_ms=steady_ms,
        keep_every_ms=config.integer("broker.heartbeat.interval.ms"),
        call_s=call_s,
    )


async def _metadata_in(path: Path) -> MetadataImage:
    """The metadata of a broker that was alone; StoreUnusable."""
    alone = EmbeddedStore.open(path)
    try:
        return await alone.read()
    finally:
        await alone.close()


def _begun_by_another() -> StartError:
    return StartError("another broker has begun the cluster; give its store another prefix")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group of groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
