"""The connections of the HTTP port: hypercorn speaks HTTP on them, this module limits them.

Rules:

- There are at most ``kwire.http.max.connections``. For a new one beyond that, a connection of the
  address that has most of them is closed: the oldest one on which no request is being answered, or
  else the oldest. So nobody can keep out the probes of ``/healthz``, not even from their own
  address: a probe is answered long before its connection is the oldest. (A reserve for probes
  doesn't help, because what a connection is for is known only after its request.) Addresses with
  one connection each keep it while they are answered; only then is a new connection refused.
- A client has ``IDLE_S`` for the head of its request, and ``SEND_S`` to read a piece of an answer.
  A connection lasts ``LIFE_S`` at most; browsers and Prometheus then connect again.
- A head has at most ``HEAD_BYTES``.
- Clients speak HTTP/1.1. hypercorn also speaks HTTP/2 without TLS, which no browser uses, and then
  waits for the first request without a limit. So a client's request for HTTP/2 is ignored.

hypercorn itself limits neither the connections nor the time for which a client may read nothing, so
this module accepts connections and gives hypercorn their streams.
"""

import logging
import socket
import ssl
from collections import Counter
from typing import TYPE_CHECKING

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from kwire.web.guard import App

if TYPE_CHECKING:
    import h11

log = logging.getLogger(__name__)

IDLE_S = 5.0
SEND_S = 30.0
LIFE_S = 600.0
STOP_S = 1.0
HEAD_BYTES = 16 * 1024


class _Stream:
    """A connection for hypercorn, which ends if its client doesn't read."""

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.host = host
        self.is_idle = True
        """Whether no request is being answered."""
        self.socket = stream.socket
        self.receive_some = stream.receive_some
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose
        self.life = trio.CancelScope()
        self._send_all = stream.send_all

    def end(self) -> None:
        """Close the connection now, though hypercorn can't be cancelled in a send."""
        self.life.cancel()
        self.socket.close()

    async def send_all(self, data: bytes) -> None:
        """Send bytes. If the client doesn't read them in time, the connection ends."""
        try:
            with trio.fail_after(SEND_S):
                await self._send_all(data)
        except (trio.TooSlowError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.life.cancel()  # because hypercorn may wait forever for its pipelined requests
            raise trio.BrokenResourceError("the client doesn't read") from error


class _TlsStream(_Stream):
    """A connection with TLS; hypercorn begins with the handshake."""

    def __init__(self, stream: trio.SocketStream, host: str, tls: ssl.SSLContext) -> None:
        super().__init__(stream, host)
        secured = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        self.transport_stream = stream
        self.do_handshake = secured.do_handshake
        self.receive_some = secured.receive_some  # type: ignore[assignment]
        self.aclose = secured.aclose
        del self.send_eof  # TLS has no half-closed connections, which hypercorn knows
        self._send_all = secured.send_all

    def selected_alpn_protocol(self) -> str:
        """The protocol: TLS's negotiation is not used."""
        return "http/1.1"


class _Http1(H11Protocol):
    """hypercorn's HTTP/1.1, which never changes to HTTP/2."""

    async def _check_protocol(self, event: "h11.Request") -> None:
        """Stay with HTTP/1.1.

        In this method, hypercorn would change to HTTP/2 if a request asks for it.
        """


class _Server(TCPServer):
    """One connection of hypercorn's that speaks HTTP/1.1 only."""

    async def protocol_send(self, event: Event) -> None:
        """Carry out what the protocol wants; it says here when a request begins and ends."""
        if isinstance(event, Updated):
            stream: _Stream = self.stream  # type: ignore[assignment]
            stream.is_idle = event.idle
        await super().protocol_send(event)

    async def _read_data(self) -> None:
        """Read requests until the client has left or its time is over."""
        wrapper: ProtocolWrapper = self.protocol
        wrapper.protocol = _Http1(
            wrapper.app,
            wrapper.config,
            wrapper.context,
            wrapper.task_group,
            wrapper.state,
            wrapper.ssl,
            wrapper.client,
            wrapper.server,
            wrapper.send,
        )
        await super()._read_data()


class Connections:
    """Serves ``app`` on a bound socket; the caller runs ``serve`` in the thread of the port.

    With ``tls`` it serves HTTPS.
    """

    def __init__(
        self,
        app: App,
        bound: socket.socket,
        max_connections: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]
        self._bound = bound
        self._tls = tls
        self._max_connections = max_connections
        self._config = _config()
        self._context = WorkerContext(None)
        self._streams: dict[_Stream, None] = {}  # the oldest one first
        self._all_gone = trio.Event()

    async def serve(self, stop: trio.Event) -> None:
        """Serve until ``stop`` is set."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._bound))
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(self._accept, listener, handlers)
                await stop.wait()
                self._all_gone = trio.Event()
                if not self._streams:
                    self._all_gone.set()
                accepting.cancel_scope.cancel()
            await self._context.terminated.set()  # ends the connections that are idle
            with trio.move_on_after(STOP_S):
                await self._all_gone.wait()
            for stream in list(self._streams):
                stream.end()
            handlers.cancel_scope.cancel()

    async def _accept(self, listener: trio.SocketListener, handlers: trio.Nursery) -> None:
        await trio.serve_listeners(self._handle, [listener], handler_nursery=handlers)

    async def _handle(self, accepted: trio.SocketStream) -> None:
        try:
            host = str(accepted.socket.getpeername()[0])
        except OSError:  # the client has left
            host = ""
        tls = self._tls
        stream = _Stream(accepted, host) if tls is None else _TlsStream(accepted, host, tls)
        if len(self._streams) >= self._max_connections and not self._make_room():
            await stream.aclose()
            return
        self._streams[stream] = None
        try:
            stream.life.deadline = trio.current_time() + LIFE_S
            state = ConnectionState({})
            with stream.life:
                await _Server(self._app, self._config, self._context, state, stream)  # type: ignore[arg-type]
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as ended:
            log.debug("an HTTP connection ended: %r", ended.exceptions[0])
        except* Exception as bug:
            log.error("bug in an HTTP connection", exc_info=bug)
        finally:
            self._streams.pop(stream, None)
            if not self._streams:
                self._all_gone.set()
            stream.socket.close()

    def _make_room(self) -> bool:
        """End a connection of an address that has most of them; False if none may end."""
        counts = Counter(stream.host for stream in self._streams)
        most = max(counts.values())
        crowded = [stream for stream in self._streams if counts[stream.host] == most]
        ended = next((stream for stream in crowded if stream.is_idle), None)
        if ended is None and most > 1:
            ended = crowded[0]
        if ended is None:
            return False
        del self._streams[ended]
        ended.end()
        return True


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("kwire.web.hypercorn")
    config.include_server_header = False
    config.keep_alive_timeout = IDLE_S
    config.h11_max_incomplete_size = HEAD_BYTES
    config.websocket_max_message_size = HEAD_BYTES
    return config
