"""A running kwire server: listeners, connections, housekeeping, and a stop that loses nothing.

Rules:

- Every task is started here and ends with the nursery here.
- Start: data directories, metadata, logs, listeners. Then the server is ready.
- Stop: new connections are refused, requests in progress are finished, logs are flushed and closed,
  and the mark of a clean shutdown is written.
"""

import logging
import socket
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.broker.replica.replica_inventory import known_directories, open_entries
from kwire.budget.buffered_bytes_limit import ARRIVING
from kwire.budget.buffered_bytes_limit import SETTING as RESTING
from kwire.budget.large import SETTING as LARGE
from kwire.budget.thread_pool import ThreadPool
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig, Listener
from kwire.connection.admission import Admission
from kwire.connection.own_wait import OwnWait
from kwire.connection.poller import Poller
from kwire.dispatch.routing import OpenFrame, loads_in_threads, open_frame
from kwire.errors import KafkaError
from kwire.housekeeping import Housekeeping
from kwire.log.data_directory import LogDirectoryError
from kwire.log.directory_health import LOCK_FILE
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import NOTHING_KNOWN, LogManager
from kwire.log.open_files import descriptors_for_logs
from kwire.metadata.changes import BrokerRegistered, Change, ClusterNamed
from kwire.metadata.embedded import FILE_NAME, ROOM_BYTES, EmbeddedStore, lacks_room
from kwire.metadata.features import check_features, initial_features, own_features
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import MetadataStore, StoreFull, StoreUnusable

if TYPE_CHECKING:
    from kwire.broker.kafka_import import KafkaImport
    from kwire.registry.port import RegistryPort
    from kwire.security.listeners import ListenerSecurity
    from kwire.web.port import HttpPort

log = logging.getLogger(__name__)

KAFKA_METADATA = "__cluster_metadata-0"
"""The directory in which Apache Kafka keeps the metadata that kwire keeps in its store."""

STOP_GRACE_S = 1.0
"""How long requests in progress may continue after the stop has begun."""


class StartError(Exception):
    """kwire can't start; the text is one line that says why and what to do."""


class Server:
    """One kwire server: a broker and its listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        disk: Disk | None = None,
        own_wait: OwnWait | None = None,
        open_frame: OpenFrame = open_frame,
        random: Random | None = None,
    ) -> None:
        self.config = config
        self._random = random or Random()
        self._own_wait = own_wait
        self._open_frame = open_frame
        self._disk = disk or Disk()
        self.addresses: list[tuple[str, int]] = []
        self.http: HttpPort | None = None
        self.registry: RegistryPort | None = None
        self.broker: Broker
        self.housekeeping: Housekeeping
        self._clock = clock or Clock()
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._security: dict[str, ListenerSecurity] = {}
        self._stop = trio.Event()
        self._metadata_lock = -1
        self._kafka_import: KafkaImport | None = None
        self._starting = ThreadPool(1)
        self._is_takeover_planned = False
        self._cluster_id: str | None = None

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until ``stop`` is called; ``task_status.started`` is called when it is ready.

        Raises StartError, and StorageLost when the last data directory has failed. Once the server
        is ready, ``addresses`` holds the addresses on which it listens.
        """
        async with AsyncExitStack() as ports:
            if self.config.http_address() or self.config.registry_address():
                await self._open_ports(ports)
            await self._serve(task_status)

    @property
    def ports(self) -> "list[HttpPort | RegistryPort]":
        """The ports that speak HTTP."""
        return [port for port in (self.http, self.registry) if port is not None]

    async def _open_ports(self, ports: AsyncExitStack) -> None:
        """Open the ports that speak HTTP, each in a thread of its own; StartError."""
        from kwire.config.settings import ConfigError
        from kwire.web.port_thread import PortError

        try:
            if self.config.registry_address():
                from kwire.registry.port import RegistryPort

                self.registry = RegistryPort(self.config, self._clock.now_ms, self._clock.steady_ms)
                await ports.enter_async_context(self.registry.open())
            if self.config.http_address():
                from kwire.web.port import HttpPort

                self.http = HttpPort(self.config, self._clock.steady_ms)
                if self.registry:
                    if not self.config["kwire.registry.security.listener"]:
                        self.http.own_registry = self.registry.url  # the page has no login for it
                    self.http.observed.problems.append(self.registry.problem)
                await ports.enter_async_context(self.http.open())
        except (PortError, ConfigError) as error:
            raise StartError(str(error)) from error

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        began_s = perf_counter()
        self._secure()
        if not (self.config.metadata_directory() / FILE_NAME).exists():
            await self._starting.run(self._plan_takeover)
        logs_began_s = perf_counter()
        manager = await self._starting.run(self._open_logs)
        logs_s = perf_counter() - logs_began_s
        clean, known, is_refused = False, NOTHING_KNOWN, True
        try:
            store = await self._open_store(manager)
            try:
                clean = True  # no record is written before the broker serves requests
                self._listen()
                image = await self._register(store, manager)
                is_refused = False
                if self.config["kwire.scram.first.users"] is not None:
                    image = await self._add_first_users(store, image)
                self.broker = Broker(
                    self.config, manager, store, image, clock=self._clock, random=self._random
                )
                self.broker.put_strays_aside()
                self.broker.counters.start_logs_s = logs_s
                self.broker.counters.start_s = perf_counter() - began_s
                await trio.lowlevel.checkpoint_if_cancelled()
                clean = False
                await self._run(task_status)
                clean, known = True, self.broker.at_stop()
            finally:
                await store.close()
                for _, listening in self._sockets:
                    listening.close()
        finally:
            if self._metadata_lock >= 0:
                self._disk.close(self._metadata_lock)
            for data in manager.data_directories if is_refused else ():
                if not manager.counts[data.path]:
                    data.give_back()
            # Without the mark of a clean shutdown the next start recovers the logs.
            manager.close(self._clock.now_ms(), clean=clean, known=known)

    async def preload(self) -> None:
        """Import modules for clients, once the server is ready; a single broker imports none."""

    def stop(self) -> None:
        """Ask the server to end; ``serve`` returns when it has ended.

        While logs are loaded ``serve`` raises LoadingStopped; cancel it to end any other wait.
        """
        self._stop.set()

    def _plan_takeover(self) -> None:
        """Look for the data of Apache Kafka or a cluster; StartError if they can't be used."""
        is_planned, self._is_takeover_planned = self._is_takeover_planned, True
        directories = self.config.all_directories()
        if is_planned or not any(map(self._has_files, directories)):
            return
        from kwire.broker.elsewhere import kept_elsewhere
        from kwire.broker.kafka_import import KafkaImportError, plan_import

        if (why := kept_elsewhere(self.config.metadata_directory())) is not None:
            raise StartError(why)
        try:
            self._kafka_import = plan_import(directories, self.config.integer("node.id"))
        except KafkaImportError as error:
            raise StartError(str(error)) from error

    def _has_files(self, directory: Path) -> bool:
        try:
            return bool(self._disk.names(directory))
        except OSError:
            return False  # the code that opens the directory reports the error

    def _check_takeover(self, image: MetadataImage) -> None:
        """StartError if Kafka has used the directories since: kwire doesn't know its changes."""
        directories = self.config.all_directories()
        if not any((path / KAFKA_METADATA).exists() for path in directories):
            return
        from kwire.broker.kafka_import import KafkaImportError, check_unchanged

        try:
            check_unchanged(image, directories)
        except KafkaImportError as error:
            raise StartError(str(error)) from error

    def _open_logs(self) -> LogManager:
        self._disk.max_open_files = descriptors_for_logs()
        try:
            return LogManager.open(
                self.config.data_directories(),
                disk=self._disk,
                node_id=self.config.integer("node.id"),
                now_ms=self._clock.now_ms(),
                default_config=LogConfig.from_broker(self.config),
                recovery_threads=self.config.integer("num.recovery.threads.per.data.dir"),
                cluster_id=self._cluster_id,
                is_stopped=self._stop.is_set,
            )
        except LogDirectoryError as error:
            raise StartError(str(error)) from error

    async def _open_store(self, manager: LogManager) -> MetadataStore:
        """Open the metadata database, in ``metadata.log.dir`` or the first of ``log.dirs``."""
        directory = self.config.metadata_directory()
        try:
            failure = manager.failures.get(directory)
            if failure is not None:
                raise StoreUnusable(f"the metadata is in {directory}, which is offline: {failure}")
            if directory not in manager.directories:
                self._disk.make_directory(directory)
                self._metadata_lock = self._disk.lock(directory / LOCK_FILE)
            store = EmbeddedStore.open(directory / FILE_NAME, is_durable=self._disk.is_durable)
            self._disk.sync_directory(directory)  # or a power loss could remove a new file
            return store
        except StoreFull as error:
            raise no_room(directory, str(error)) from error
        except StoreUnusable as error:
            raise StartError(str(error)) from error
        except BlockingIOError as error:
            raise StartError(
                f"metadata.log.dir {directory} is in use by another process"
            ) from error
        except OSError as error:
            raise StartError(f"cannot use metadata.log.dir {directory}: {error}") from error

    def _secure(self) -> None:
        """Load keys, certificates and logins of the listeners that aren't PLAINTEXT; StartError."""
        if not self.config.secured_listeners:
            return
        from kwire.config.settings import ConfigError
        from kwire.security.listeners import secured_listeners

        try:
            self._security = secured_listeners(
                self.config, lambda: self.broker.image, self._clock.steady_ms
            )
        except ConfigError as error:
            raise StartError(str(error)) from error

    def _listen(self) -> None:
        """Bind every listener; StartError names the one that fails."""
        for listener in self.config.listeners():
            self._sockets.append((listener, bind(listener, self.config)))
        self.addresses = [bound.getsockname()[:2] for _, bound in self._sockets]

    async def _register(self, store: MetadataStore, manager: LogManager) -> MetadataImage:
        """Give a new cluster its id, and store this broker's addresses."""
        image = await store.read()
        changes: list[Change] = []
        if image.cluster_id:
            await self._starting.run(self._check_takeover, image)
        else:
            await self._starting.run(self._plan_takeover)
            changes += [ClusterNamed(manager.cluster_id), *initial_features()]
        if not image.cluster_id and self._kafka_import is not None:
            log.warning("%s", self._kafka_import.summary)
            changes += self._kafka_import.changes
        node_id, rack = self.config.integer("node.id"), self.config["broker.rack"]
        endpoints = tuple(
            (listener.name, host, port)
            for (listener, _), (host, port) in zip(self._sockets, self.addresses, strict=True)
        )
        log_dirs = open_entries(manager, self.config.strings("log.dirs"))
        broker = BrokerImage(
            node_id,
            None if rack is None else str(rack),
            endpoints,
            directories=known_directories(manager, None),
            is_cordoned=self.config.are_all_cordoned(log_dirs),
            log_dirs=log_dirs,
        )
        try:
            check_features(image, broker._replace(features=own_features()))
        except KafkaError as error:
            raise StartError(error.message) from error
        if any(known.incarnation for known in image.brokers.values()):
            changes += self._leave_cluster(image, broker)
        elif image.brokers.get(node_id) != broker:
            changes.append(BrokerRegistered(broker))
        try:
            if changes:
                await store.commit(image.revision, changes)
        except KafkaError as error:
            directory = self.config.metadata_directory()
            if lacks_room(directory):
                raise no_room(directory, error.message) from error
            raise StartError(f"cannot use metadata.log.dir {directory}: {error.message}") from error
        return await store.read()

    async def _add_first_users(self, store: MetadataStore, image: MetadataImage) -> MetadataImage:
        """Create the users of ``kwire.scram.first.users`` if there are no others; StartError."""
        from kwire.config.settings import ConfigError
        from kwire.security.first_users import add_first_users

        try:
            return await add_first_users(self.config, store, image)
        except (ConfigError, KafkaError) as error:
            raise StartError(str(error)) from error

    def _leave_cluster(self, image: MetadataImage, broker: BrokerImage) -> list[Change]:
        """The changes that turn this former worker into a single broker; StartError."""
        from kwire.metadata.fewer_brokers import ReplicasElsewhere, be_alone

        try:
            return be_alone(image, broker)
        except ReplicasElsewhere as error:
            raise StartError(str(error)) from error

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as background:
            broker = self.broker
            broker.start_tasks(background)
            if self.config["delegation.token.secret.key"]:
                from kwire.broker.token_expiry import remove_expired_tokens

                background.start_soon(remove_expired_tokens, broker)
            async with trio.open_nursery() as connections:
                self.poller = Poller(connections, self._own_wait, broker.counters, self._open_frame)
                self.poller.buffered.max_bytes = partial(broker.integer, RESTING)
                self.poller.arriving.max_bytes = partial(broker.integer, ARRIVING)
                self.poller.turns.large.max_bytes = partial(broker.integer, LARGE)
                self.poller.lease = broker.lease
                broker.do_afterwards = self.poller.do_afterwards
                broker.watcher = self.poller
                connections.start_soon(self.poller.run)
                admission = Admission(broker, self.poller, self._security)
                acceptors = [admission.accept(*listening) for listening in self._sockets]
                self.housekeeping = Housekeeping(broker, self.poller)
                background.start_soon(self.housekeeping.run)
                background.start_soon(self.housekeeping.keep_house_forever)
                background.start_soon(self.housekeeping.retain_forever)
                background.start_soon(self._compact)
                for port in self.ports:
                    port.observed.serves(broker, self.poller)
                task_status.started()
                await self._stop.wait()
                for port in self.ports:
                    port.observed.stops()
                for acceptor in acceptors:
                    acceptor.close()
                await self._finish_requests(connections.cancel_scope)
                connections.cancel_scope.cancel()
            background.cancel_scope.cancel()

    async def _compact(self) -> None:
        """Run compaction as soon as a log needs it."""
        await self.broker.compacts.wait()
        if loads_in_threads():  # or the event loop would import it for a group
            await self.broker.threads.loading.run(import_module, "kwire.broker.compaction")
        from kwire.broker.compaction import Compaction

        self.broker.compaction = Compaction(self.broker)
        await self.broker.compaction.run()

    async def _finish_requests(self, connections: trio.CancelScope) -> None:
        """End every connection after its current request, at the latest after ``STOP_GRACE_S``.

        Requests that go on in slices or wait for a thread are given up at once: no client was
        promised anything.
        """
        self.broker.stop()
        self.poller.turns.close()
        connections.deadline = trio.current_time() + STOP_GRACE_S
        for connection in self.poller.connections:
            connection.close_nowait()
        for partition in self.broker.partitions():
            partition.wake()
        await self.poller.wait_all_gone()


def bind(listener: Listener, config: BrokerConfig) -> socket.socket:
    """The listening socket; StartError if the address can't be used."""
    bound = socket.socket(socket.AF_INET6 if ":" in listener.host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)
    receive_buffer_bytes = config.integer("socket.receive.buffer.bytes")
    if receive_buffer_bytes != -1:  # before the handshake, which tells the client about the buffer
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    try:
        bound.bind((listener.host, listener.port))
        bound.listen(config.integer("socket.listen.backlog.size"))
    except OSError as error:
        bound.close()
        raise StartError(
            f"cannot listen on {listener.host or '*'}:{listener.port}: "
            f"{error.strerror or error}; choose another with --listen HOST:PORT"
        ) from error
    return bound


def no_room(directory: Path, what: str) -> StartError:
    """The error for a start that needs more room on the disk; the start has changed nothing."""
    return StartError(
        f"there is no room in {directory}: {what}; make at least {ROOM_BYTES >> 20} MB free and "
        "start again, nothing that was acknowledged is lost"
    )
