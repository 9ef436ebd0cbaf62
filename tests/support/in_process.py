"""A kwire server inside the test's own process, and a raw client for messages and bytes.

The server runs in a nursery of the test, on a free port of 127.0.0.1, or in a thread for the tests
of a file. If a handler raised an unexpected exception, the test fails when the server ends.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import trio

from kwire.broker.broker import Broker
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.log.disk import Disk
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request, Response
from kwire.server import Server
from kwire.testing.waiting import until
from tests.support.asking import Asks

_R = TypeVar("_R", bound=Response)
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class RunningServer(Asks):
    """A server that accepts connections, and its address.

    What a test asks of it (``server.topic("a")``) goes over a connection of its own, which is
    opened by the first question.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.host, self.port = server.addresses[0]
        self.asker: RawClient | None = None
        self._asking = trio.Lock()

    @property
    def broker(self) -> Broker:
        """The server's broker."""
        return self.server.broker

    async def connect(self) -> "RawClient":
        """A new connection to the server."""
        return RawClient(await trio.open_tcp_stream(self.host, self.port))

    async def request(self, request: Request, version: int, answer: type[_R], /) -> _R:
        """Send a request over the server's own connection; one at a time."""
        async with self._asking:
            # A connection whose question was given up isn't asked again.
            asker, self.asker = self.asker or await self.connect(), None
            found = await asker.request(request, version, answer)
            self.asker = asker
            return found

    async def hang_up(self) -> None:
        """Close the test's own connection, until the server has seen it; a question opens another.

        For tests that look at the server's connections.
        """
        if self.asker is not None:
            stream, self.asker = self.asker.stream, None
            port = stream.socket.getsockname()[1]
            await stream.aclose()
            connections = self.server.poller.connections
            await until(lambda: port not in {one.info.peer_port for one in connections})


class RawClient(Asks):
    """One connection; requests are numbered from 1."""

    def __init__(self, stream: trio.SocketStream, client_id: str | None = "raw") -> None:
        self.stream = stream
        self._client_id = client_id
        self._correlation_id = 0
        self._buffer = bytearray()

    async def send(self, request: Request, version: int) -> int:
        """Send a request; returns its correlation id."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self._client_id)
        await self.stream.send_all(bytes(frame))
        return self._correlation_id

    async def receive_frame(self) -> bytes | None:
        """The next response without its size, None if the connection is closed."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4]):
            received = await self._receive_some()
            if not received:
                return None
            self._buffer += received
        end = 4 + int.from_bytes(self._buffer[:4])
        frame = bytes(self._buffer[4:end])
        del self._buffer[:end]
        return frame

    async def _receive_some(self) -> bytes:
        try:
            return bytes(await self.stream.receive_some(65536))
        except trio.BrokenResourceError:
            return b""

    async def request(self, request: Request, version: int, answer: type[_R], /) -> _R:
        """Send a request and return its response, which must be of class ``answer``."""
        correlation_id = await self.send(request, version)
        frame = await self.receive_frame()
        assert frame is not None, "the connection was closed"
        response_class = message_classes(request.API_KEY)[1]
        assert response_class is answer
        found, position = decode_response_header(frame, response_class, version)
        assert found == correlation_id
        return decode(answer, version, memoryview(frame)[position:])

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection without sending anything more."""
        return await self.receive_frame() is None

    async def aclose(self) -> None:
        """Close the connection."""
        await self.stream.aclose()


@asynccontextmanager
async def running_server(
    data_dir: Path,
    settings: Mapping[str, str] | None = None,
    disk: Disk | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[RunningServer]:
    """A server that accepts connections; it is stopped cleanly at the end of the block."""
    properties = {"log.dirs": str(data_dir), "listeners": "PLAINTEXT://127.0.0.1:0"}
    server = Server(BrokerConfig.load(properties | dict(settings or {})), clock, disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        running = RunningServer(server)
        try:
            yield running
        finally:
            server.stop()
            if running.asker is not None:
                await running.asker.aclose()
    if server.broker.bugs:
        raise server.broker.bugs[0]


class ServerInThread:
    """A server whose event loop has a thread of its own, so that the tests of a file share it."""

    def __init__(self, running: RunningServer) -> None:
        self.running = running
        self._token = trio.lowlevel.current_trio_token()
        self._stopped = trio.Event()

    def call(self, function: Callable[[*_Ts], Awaitable[_T]], *args: *_Ts) -> _T:
        """What a coroutine function returns that is called in the server's event loop."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def stop(self) -> None:
        """End the server, and then the event loop."""
        trio.from_thread.run_sync(self._stopped.set, trio_token=self._token)

    async def until_stopped(self) -> None:
        """Wait for the call of ``stop``."""
        await self._stopped.wait()


@contextmanager
def server_in_thread(
    data_dir: Path, settings: Mapping[str, str] | None = None
) -> Iterator[ServerInThread]:
    """A server for tests that aren't coroutines; it is stopped cleanly at the end of the block."""
    begun: Future[ServerInThread] = Future()

    async def serve() -> None:
        async with running_server(data_dir, settings) as running:
            made = ServerInThread(running)
            begun.set_result(made)
            await made.until_stopped()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)

    with ThreadPoolExecutor(max_workers=1) as threads:
        ended = threads.submit(run)
        server = begun.result()
        try:
            yield server
        finally:
            server.stop()
            ended.result()
