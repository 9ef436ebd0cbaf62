"""One worker: a broker of a cluster whose store is the supervisor's.

Rules:

- The connection to the supervisor is the broker's session. When it ends, the supervisor was killed:
  the worker stops by itself, as cleanly as at SIGTERM.
- Ports and some locks are inherited (``template``, ``directory``).
"""

import logging
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import trio

from kwire.cluster_server import ClusterServer
from kwire.config.broker import BrokerConfig
from kwire.connection.own_wait import own_wait
from kwire.dispatch.routing import load_in_threads
from kwire.housekeeping import StorageLost
from kwire.log.loading import LoadingStopped
from kwire.log.manager import LogManager
from kwire.metadata.image import AMONG_WORKERS
from kwire.metadata.store import MetadataStore, StoreUnusable
from kwire.metadata.supervised.client import SupervisedStore
from kwire.server import StartError
from kwire.workers.directory import InheritedLocks
from kwire.workers.messages import Tell, Ways

log = logging.getLogger(__name__)


class WorkerServer(ClusterServer):
    """The server of one worker."""

    def __init__(
        self,
        config: BrokerConfig,
        bound: Sequence[socket.socket],
        connection: socket.socket,
        locks: Mapping[Path, int],
    ) -> None:
        super().__init__(config, disk=InheritedLocks(locks), own_wait=own_wait())
        self._bound = bound
        self._connection = connection
        self._is_serving = False

    async def _connect(self) -> MetadataStore:
        raw = trio.socket.from_stdlib_socket(self._connection)
        return SupervisedStore(trio.SocketStream(raw))

    async def _keep_store(self) -> None:
        try:
            await super()._keep_store()
        except StoreUnusable as error:
            self.stop()  # also ends the loading of logs
            if not self._is_serving:
                raise
            log.warning("stopping: %s", error)

    def _listen(self) -> None:
        self._sockets = list(zip(self.config.listeners(), self._bound, strict=True))
        self.addresses = [bound.getsockname()[:2] for bound in self._bound]

    def _endpoints(self) -> tuple[tuple[str, str, int], ...]:
        """The advertised endpoints, and this worker's own ports for the other workers."""
        wanted = self.config.inter_broker_name
        names = [listener.name for listener, _ in self._sockets]
        host, port = self.addresses[names.index(wanted) if wanted in names else 0]
        return (*super()._endpoints(), (AMONG_WORKERS, host, port))

    async def _bring_along(self, manager: LogManager) -> None:
        """Do nothing: the supervisor's store has the metadata of the directory."""

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        self._is_serving = True
        await super()._run(task_status)


class Worker:
    """The process of one worker."""

    def __init__(
        self,
        config: BrokerConfig,
        bound: Sequence[socket.socket],
        connection: socket.socket,
        locks: Mapping[Path, int],
    ) -> None:
        self._places = (config, bound, connection, locks)
        self._stop_began_s = 0.0

    def run(self, ways: Ways, tell: Tell) -> int:
        """Serve until the supervisor wants it to end, or has ended; returns the exit code."""
        failed: list[str] = []
        try:
            with load_in_threads():
                trio.run(self._serve, ways, tell)
        except* (StartError, StorageLost) as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            failed.append(str(error))
        except* LoadingStopped:
            log.info("stopped before the broker was ready")
        for why in failed:
            tell({"failed": why})
        return int(bool(failed))

    async def _serve(self, ways: Ways, tell: Tell) -> None:
        server = WorkerServer(*self._places)
        # Until the receiver is open SIGTERM is blocked; after its end one more does nothing.
        signal.signal(signal.SIGTERM, lambda *_: None)
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            async with trio.open_nursery() as nursery:
                ended = trio.Event()

                async def serve_to_the_end(task_status: trio.TaskStatus[None]) -> None:
                    await server.serve(task_status)
                    ended.set()

                await ways.start(nursery, serve_to_the_end, signals, server.stop)
                http = server.http
                tell(
                    {
                        "ready": server.addresses,
                        "http": http and http.address,
                        "token": http and http.token and http.token.is_new and http.token.text,
                        "cluster": server.broker.cluster_id,
                    }
                )
                nursery.start_soon(ways.settle)
                nursery.start_soon(self._stop_at, signals, server)
                await ended.wait()
                nursery.cancel_scope.cancel()
        took_s = trio.current_time() - self._stop_began_s if self._stop_began_s else 0.0
        ways.stopped(server.broker.log_manager.failures, took_s)

    async def _stop_at(self, signals: AsyncIterator[int], server: WorkerServer) -> None:
        async for _ in signals:
            self._stop_began_s = self._stop_began_s or trio.current_time()
            server.stop()
