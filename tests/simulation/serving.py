"""A broker of a simulated cluster: the real one, behind doors of the simulation.

Rules:

- ``SimulatedServer`` is ``ClusterServer`` with another network, store, clock and disk. Its start,
  its membership, its housekeeping and its stop are those of a real broker.
- Of three brokers, one has no poller and no fast paths (``WithoutSockets``): its requests come as
  frames and go to the handlers of the real routes. The others have all that, over sockets of their
  own (``OverSockets``). So a leader and its followers meet in all four combinations.
"""

# Private attributes: its connections, store and clock are others, and a server takes no such thing.

import os
import select
import socket
from collections.abc import Callable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import trio

from kwire.broker.broker import Broker
from kwire.broker.peers import Peers
from kwire.budget.work import Turns, Work
from kwire.clock import Clock
from kwire.cluster_server import ClusterServer
from kwire.config.broker import BrokerConfig, Listener
from kwire.dispatch.failures import ConnectionClosed
from kwire.dispatch.pending_request import COME_LATER, Waiting, held
from kwire.dispatch.routes import Route
from kwire.dispatch.routing import open_frame, unknown_api_versions
from kwire.errors import KafkaError
from kwire.handlers.lib.context import ConnectionInfo, RequestContext, Software
from kwire.housekeeping import Housekeeping
from kwire.log.disk import Disk
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.server import Server
from kwire.testing.simulated_etcd import SimulatedGateway, simulated_store
from tests.simulation.network import Network, SimulatedStream
from tests.simulation.sockets import Door, Sockets
from tests.simulation.virtual_time import Waiter, virtual_clock

ELEMENTS = 1 << 20
RECEIVE_BYTES = 1 << 20


class WithoutSockets(Server):
    """A server whose connections are streams of a simulated network."""

    network: Network
    began: Callable[[Broker], None]

    def _listen(self) -> None:
        node_id = self.config.integer("node.id")
        for listener in self.config.listeners():
            self._sockets.append((listener, SimpleNamespace(close=self._stop_listening)))
            self.addresses.append((listener.host, listener.port))
            accept = partial(self._accept_stream, listener)
            self.network.listen(node_id, self, listener.host, listener.port, accept)
        self._next_connection_id = 0
        self._waiting: list[tuple[Listener, SimulatedStream]] = []
        self._connections: trio.Nursery | None = None

    def _stop_listening(self) -> None:
        self.network.close_listeners(self)

    def _accept_stream(self, listener: Listener, stream: SimulatedStream) -> None:
        """Serve a connection, or keep it until the server is ready, as a backlog does."""
        if self._connections is None:
            self._waiting.append((listener, stream))
        else:
            self._connections.start_soon(self._serve_stream, listener, stream)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as background:
            opener = self.network.opener(self.config.integer("node.id"))
            self.broker.peers = Peers(self.broker, opener)
            self.began(self.broker)
            self.broker.start_tasks(background)
            nobody = SimpleNamespace(end_overdue=lambda now_s: None)
            poller = SimpleNamespace(connections=(), unauthenticated=nobody, arriving=nobody)
            background.start_soon(Housekeeping(self.broker, poller).run)
            async with trio.open_nursery() as connections:
                self._connections = connections
                for listener, stream in self._waiting:
                    self._accept_stream(listener, stream)
                task_status.started()
                await self._stop.wait()
                await self._finish_requests(connections.cancel_scope)
                connections.cancel_scope.cancel()
            background.cancel_scope.cancel()

    async def _finish_requests(self, connections: trio.CancelScope) -> None:
        self._stop_listening()
        self.broker.stop()
        self._turns.close()

    async def _serve_stream(self, listener: Listener, stream: SimulatedStream) -> None:
        self._next_connection_id += 1
        info = ConnectionInfo(
            self._next_connection_id,
            listener.name,
            listener.host,
            listener.port,
            str(stream.other),
            1,
            software=Software(),
        )
        work, buffer = Work(self._turns, lambda: False), bytearray()
        try:
            while (frame := await _receive_frame(stream, buffer)) is not None:
                answer = await self._answer(info, work, frame)
                if answer:
                    await stream.send_all(answer)
        except (ConnectionClosed, KafkaError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the connection ends
        finally:
            stream.close()

    async def _answer(self, info: ConnectionInfo, work: Work, frame: bytes) -> bytes:
        """What a real connection does with a frame, without the fast paths."""
        broker, flusher = self.broker, self.broker.flusher
        self._turns.begin_pass()
        header, served_by, position = open_frame(memoryview(frame))
        context = RequestContext(broker, info, header.api_version, header.client_id, work)
        if served_by is None:
            served_by, response = unknown_api_versions(context)
            return _encode(served_by, response, header.correlation_id)
        work.begin_request()
        request, _ = served_by.decode(memoryview(frame), position, ELEMENTS)
        flusher.forget()
        response = held(served_by.handle(request, context), flusher)
        while type(response) in COME_LATER:
            waiting = Waiting(served_by, header, response)
            if waiting.change is not None:
                await _wait_for(waiting.change)
                response = waiting.go_on(flusher)
            else:
                response = await waiting.work(flusher)
        work.end_request()
        return b"" if response is None else _encode(served_by, response, header.correlation_id)

    @property
    def _turns(self) -> Turns:
        if not hasattr(self, "_own_turns"):
            self._own_turns = Turns()
        return self._own_turns


class OverSockets(Server):
    """A server with a poller and all fast paths, whose sockets lead to a simulated network."""

    network: Network
    sockets: Sockets
    began: Callable[[Broker], None]

    def _listen(self) -> None:
        node_id = self.config.integer("node.id")
        for listener in self.config.listeners():
            door = Door(partial(self.network.close_listeners, self))
            self._sockets.append((listener, cast("socket.socket", door)))
            at = listener.host, listener.port
            self.addresses.append(at)
            self.network.listen(node_id, self, *at, door.ring, self.sockets.make_stream)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        opener = self.sockets.opener(self.network, self.config.integer("node.id"))
        self.broker.peers = Peers(self.broker, opener)
        self.began(self.broker)
        await super()._run(task_status)

    async def _compact(self) -> None:
        """Compaction measures real time."""


class SimulatedServer(ClusterServer):
    """One broker of a simulated cluster."""

    sockets: Sockets
    began: Callable[[Broker], None]

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        random: Random,
        gateway: SimulatedGateway,
        network: Network,
    ) -> None:
        super().__init__(config, clock, disk, random=random)
        self.network = network
        self._gateway = gateway
        self._open_stream = network.opener(config.integer("node.id"))

    @property
    def incarnation(self) -> str:
        """The name of this process."""
        return self._incarnation

    @property
    def membership(self) -> Any:
        """The membership of this broker; set when it registers."""
        return getattr(self, "_membership", None)

    async def _connect(self) -> EtcdStore:
        writer = f"{self.config.integer('node.id')}:{self._incarnation}"
        every_ms = self.config.integer("broker.heartbeat.interval.ms")
        return simulated_store(
            self._gateway,
            writer,
            self._random,
            every_ms,
            self._clock.steady_ms,
            lambda: self._call_s,
        )


class PlainServer(SimulatedServer, WithoutSockets):
    """One that serves and follows without fast paths."""


class FastServer(SimulatedServer, OverSockets):
    """One with a poller, whose followers fetch by links."""


def server_of(node_id: int) -> type[SimulatedServer]:
    """The kind of a broker: with all others, this gives each kind of leader each kind of follower.

    Sockets that a virtual clock can look at are those of Linux.
    """
    return FastServer if node_id % 3 and hasattr(select, "epoll") else PlainServer


class _Sleeper:
    """Wakes a task when a change has happened, or its time is up."""

    def __init__(self) -> None:
        self.waiter = Waiter()

    def wake(self, size: int) -> None:
        """The change has happened."""
        self.waiter.wake()

    def hasten(self, change: Any) -> None:
        """Its time is up sooner."""
        virtual_clock().wake_at(change.deadline_s, self.waiter)


async def _wait_for(change: Any) -> None:
    sleeper = _Sleeper()
    change.sleeper = sleeper
    if change.is_set:
        return
    virtual_clock().wake_at(change.deadline_s, sleeper.waiter)
    await sleeper.waiter.wait()
    if not change.is_set:
        change.time_is_up()


async def _receive_frame(stream: SimulatedStream, buffer: bytearray) -> bytes | None:
    """The next frame without its size; ``buffer`` has what arrived behind the one before."""
    while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4]):
        received = await stream.receive_some(RECEIVE_BYTES)
        if not received:
            return None
        buffer += received
    end = 4 + int.from_bytes(buffer[:4])
    frame = bytes(buffer[4:end])
    del buffer[:end]
    return frame


def _encode(served_by: Route, response: Any, correlation_id: int) -> bytes:
    out = bytearray(4) + correlation_id.to_bytes(4)
    if served_by.response_header_version:
        out.append(0)
    slices: list[Any] = []
    served_by.encode(response, out, slices)
    whole, start = bytearray(), 0
    for position, part in slices:
        whole += out[start:position]
        try:
            whole += os.pread(part.fd, part.size_bytes, part.position)
        except OSError as error:  # the process was killed, and its files are closed
            raise ConnectionClosed("a file is closed") from error
        start = position
    whole += out[start:]
    whole[:4] = (len(whole) - 4).to_bytes(4)
    return bytes(whole)
