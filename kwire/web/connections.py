"""The connections of a port that speaks HTTP: HTTP/1.1 for an ASGI application, within limits.

Rules:

- There are at most ``max_connections``. For a new one beyond that, a connection of the
  address that has most of them is closed: the oldest one that waits for its client, be it for a
  part of a request or to read an answer, or else the oldest. So nobody can keep out the probes of
  ``/healthz``, not even from their own address: a probe is answered long before its connection is
  the oldest. (A reserve for probes doesn't help, because what a connection is for is known only
  after its request.) Addresses with one connection each keep it while kwire makes an answer; only
  then is a new connection refused.
- A client has ``IDLE_S`` for the handshake of TLS and for the head of its request, and ``SEND_S``
  to read a piece of an answer.
  A connection lasts ``LIFE_S`` at most; browsers and Prometheus then connect again.
- A head has at most ``HEAD_BYTES`` and ``HEAD_LINES``, for each line takes time. Whoever names a
  body's length and sends it in chunks as well, is refused: a proxy may believe the one, and take a
  part of the body for a request.
- The bodies and answers that the port keeps, because a client is slow, have ``MOST_KEPT_BYTES``
  together, beside the longest of them. Beyond that, a connection of the address of which most is
  kept is ended: the one for which something is kept longest. A few bytes ask for megabytes, and
  nobody has to read them.
- Of a body that comes in small chunks, ``CHUNKS_A_STEP`` are read before others have their turn.
- A connection is one task: it reads a request, runs the application, and sends the answer. Requests
  that a client sends ahead wait. If the client leaves during an answer, the answer is given up.
  All that ends a connection is looked at every ``LOOK_S``: a scope of trio with a deadline for each
  step, or a second task, would cost as much as the request. After a part of an answer nothing can
  follow but its rest, so an answer that is given up ends its connection.
- Clients speak HTTP/1.1 or 1.0, which h11 reads and writes. A wish for another protocol is passed
  over.
"""

import logging
import select
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import NoReturn, TypeAlias
from urllib.parse import unquote

import h11
import trio

from kwire.web.guard import App, Message, Scope

log = logging.getLogger(__name__)

IDLE_S = 5.0
SEND_S = 30.0
LIFE_S = 600.0
STOP_S = 1.0
LOOK_S = 0.25
REST_S = 1.0
"""How long a client may send the rest of a body after its answer."""
HEAD_BYTES = 16 * 1024
HEAD_LINES = 200
READ_BYTES = 64 * 1024
MOST_KEPT_BYTES = 32 << 20
CHUNKS_A_STEP = 16

TLS = "kwire.tls"
"""Where a scope of ASGI has the TLS of its client, which knows the certificate; None without."""

GetTls: TypeAlias = Callable[[], ssl.SSLContext]
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""Linux says that a client has left, though it has sent more; others when the socket is gone."""

_STATUSES = frozenset(HTTPStatus)
_GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


@lru_cache(256)
def _response(status: int, headers: Headers) -> h11.Response:
    """The head of an answer; most answers have one of few heads, which h11 checks once."""
    reason = HTTPStatus(status).phrase if status in _STATUSES else ""
    return h11.Response(status_code=status, headers=list(headers), reason=reason)


class _Connection:
    """A client's connection."""

    def __init__(
        self,
        accepted: trio.SocketStream,
        host: str,
        app: App,
        tls: GetTls | None,
        kept: "_Kept",
    ) -> None:
        self.host = host
        self.is_idle = True
        """Whether no request is being answered."""
        self.awaits_client = True
        """Whether the client has to send or to read something before anything happens."""
        self.kept_bytes = 0
        self.kept_since_s = 0.0
        self._kept = kept
        self._chunks = 0
        self.socket = accepted.socket
        self.life = trio.CancelScope()
        self._ends_s = trio.current_time() + LIFE_S
        self._wait_at_most(IDLE_S)
        self.scheme = "http" if tls is None else "https"
        self._app = app
        self._tls = tls
        self._accepted = accepted
        self._stream: trio.abc.Stream = accepted
        self.tls_of_client: trio.SSLStream[trio.SocketStream] | None = None
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    def end(self) -> None:
        """Close the connection now."""
        self.life.cancel()
        self.socket.close()

    def end_if_over(self, now_s: float) -> None:
        """End the connection if its client lets it wait too long, or has left its answer."""
        if now_s >= self._until_s or (not self.is_idle and self._has_left()):
            self.life.cancel()

    def _has_left(self) -> bool:
        if self.socket.fileno() < 0:  # it was ended meanwhile
            return True
        poll = select.poll()
        poll.register(self.socket.fileno(), _LEFT)
        return bool(poll.poll(0))

    async def serve(self, stopping: trio.Event) -> None:
        """Answer requests until the client leaves or its time is over; errors of the network."""
        with self.life:
            if self._tls is not None:
                secured = trio.SSLStream(
                    self._accepted, self._tls(), server_side=True, https_compatible=True
                )
                await secured.do_handshake()
                self._stream = self.tls_of_client = secured
            while not stopping.is_set() and await self._serve_one():
                pass
            self._wait_at_most(IDLE_S)
            await self._stream.aclose()

    def _wait_at_most(self, seconds: float) -> None:
        """End the connection unless what it waits for comes in time; ``end_if_over`` looks."""
        self._until_s = min(self._ends_s, trio.current_time() + seconds)

    async def _serve_one(self) -> bool:
        """Answer one request; False if there is no other one on this connection."""
        try:
            self._wait_at_most(IDLE_S)
            request = await self._next_event()
            if not isinstance(request, h11.Request):
                return False
            _check_request(request)
            self.is_idle = False
            self._wait_at_most(LIFE_S)
            try:
                answer = _Answer(self, request)
                await self._app(answer.scope, answer.receive, answer.send)
                answer.check_whole()
            finally:
                self.is_idle = True
                self._kept.forget(self)
            # The answer to a request whose body nobody wants would be lost if the connection ended
            # before the client has sent the body.
            self._wait_at_most(REST_S)
            while self._http.their_state is h11.SEND_BODY:
                await self._next_event()
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return False
            self._http.start_next_cycle()
            return True
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                close = ((b"content-length", b"0"), (b"connection", b"close"))
                status = error.error_status_hint
                await self.write(_response(status, close), h11.EndOfMessage())
            return False

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        """The next part of a request; h11.RemoteProtocolError, errors of the network."""
        self._check_lines()
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self.write(h11.InformationalResponse(status_code=100, headers=[]))
            self.awaits_client = True
            received = await self._stream.receive_some(READ_BYTES)
            self.awaits_client = False
            self._http.receive_data(bytes(received))
            self._check_lines()
        if isinstance(event, h11.Data):
            self._chunks += 1
            if not self._chunks % CHUNKS_A_STEP:
                await trio.lowlevel.checkpoint()
        return event  # type: ignore[return-value]

    def _check_lines(self) -> None:
        """Refuse a head with too many lines before h11 reads them; h11.RemoteProtocolError."""
        if self._http.their_state is h11.IDLE:
            head = self._http.trailing_data[0].partition(b"\n\r\n")[0]
            if head.count(b"\n") > HEAD_LINES:
                raise h11.RemoteProtocolError("too many headers", error_status_hint=431)

    async def next_body(self) -> bytes | None:
        """The next piece of the request's body, None at its end; a broken one ends the answer."""
        try:
            event = await self._next_event()
        except (h11.RemoteProtocolError, *_GONE):
            await self._give_up()
        if not isinstance(event, h11.Data):
            return None
        self._kept.add(self, len(event.data))
        return bytes(event.data)

    async def write(self, *events: h11.Event) -> None:
        """Send parts of an answer; it ends if the client doesn't read them in time."""
        parts = [
            part for one in events for part in self._http.send_with_data_passthrough(one) or ()
        ]
        size = sum(map(len, parts))
        if size <= READ_BYTES:  # it is cheaper to send them at once; longer ones aren't copied
            parts = [b"".join(parts)]
        self._wait_at_most(SEND_S)
        self._kept.add(self, size)
        self.awaits_client = True
        try:
            for part in parts:
                await self._stream.send_all(part)
        except _GONE:
            await self._give_up()
        except trio.Cancelled:
            self.life.cancel()
            raise
        self.awaits_client = False
        self._kept.give_back(self, size)
        self._wait_at_most(LIFE_S)

    async def _give_up(self) -> NoReturn:
        """End the connection from within the application, which is no bug in there."""
        self.life.cancel()
        await trio.lowlevel.checkpoint()
        raise AssertionError("the connection's life has ended")


def _check_request(request: h11.Request) -> None:
    """Refuse what h11 lets through; h11.RemoteProtocolError."""
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise h11.RemoteProtocolError("a body has a length and chunks")
    if not request.http_version.startswith(b"1."):
        raise h11.RemoteProtocolError("no HTTP/1", error_status_hint=505)


class _Answer:
    """One request, and what the application says to it."""

    def __init__(self, connection: _Connection, request: h11.Request) -> None:
        self._connection = connection
        self._is_head = request.method == b"HEAD"
        self._head: h11.Response | None = None
        self._has_ended = self._is_read = False
        raw_path, _, query = request.target.partition(b"?")
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("latin-1"),
            "method": request.method.decode("latin-1"),
            "scheme": connection.scheme,
            "path": _decoded(raw_path),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "client": (connection.host, 0),
            "server": None,
            TLS: connection.tls_of_client,
        }

    async def receive(self) -> Message:
        """ASGI: the next piece of the body."""
        if self._is_read:
            await trio.sleep_forever()  # until the client leaves, which cancels the answer
        piece = await self._connection.next_body()
        self._is_read = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(self, message: Message) -> None:
        """ASGI: the head or a piece of the answer. The head is sent with the first piece."""
        if message["type"] == "http.response.start":
            self._head = _response(message["status"], tuple(message["headers"]))
            return
        assert message["type"] == "http.response.body", message["type"]
        events: list[h11.Event] = []
        if self._head is not None:
            events.append(self._head)
            self._head = None
        if message.get("body") and not self._is_head:
            events.append(h11.Data(data=message["body"]))
        if not message.get("more_body"):
            events.append(h11.EndOfMessage())
            self._has_ended = True
        await self._connection.write(*events)

    def check_whole(self) -> None:
        """See to it that the application has answered."""
        if not self._has_ended:
            raise RuntimeError(f"no whole answer to {self.scope['method']} {self.scope['path']}")


def _decoded(raw_path: bytes) -> str:
    return unquote(raw_path.decode("latin-1")) if b"%" in raw_path else raw_path.decode("latin-1")


class _Kept:
    """The bytes of bodies and answers that a port keeps for its connections."""

    def __init__(self, connections: dict[_Connection, None]) -> None:
        self._connections = connections
        self._bytes = 0

    def add(self, connection: _Connection, count: int) -> None:
        """Keep so many bytes more for a connection; that may end it, or others."""
        if not connection.kept_bytes:
            connection.kept_since_s = trio.current_time()
        connection.kept_bytes += count
        self._bytes += count
        while self._bytes > MOST_KEPT_BYTES and self._bytes - self._longest > MOST_KEPT_BYTES:
            ended = self._longest_of_most()
            self.forget(ended)
            self._connections.pop(ended, None)
            ended.end()

    def give_back(self, connection: _Connection, count: int) -> None:
        """Keep so many bytes less, or none for a connection that was ended meanwhile."""
        count = min(count, connection.kept_bytes)
        connection.kept_bytes -= count
        self._bytes -= count
        assert self._bytes >= 0, "what is given back was kept"

    def forget(self, connection: _Connection) -> None:
        """Keep nothing of a connection."""
        self.give_back(connection, connection.kept_bytes)

    @property
    def _longest(self) -> int:
        return max((one.kept_bytes for one in self._connections), default=0)

    def _longest_of_most(self) -> _Connection:
        """The connection for which something is kept longest, of the address with most bytes."""
        counts: Counter[str] = Counter()
        for one in self._connections:
            counts[one.host] += one.kept_bytes
        [(host, _)] = counts.most_common(1)
        keeping = [one for one in self._connections if one.host == host and one.kept_bytes]
        return min(keeping, key=lambda one: one.kept_since_s)


class Connections:
    """Serves ``app`` on a bound socket; the caller runs ``serve`` in the thread of the port.

    With ``tls`` it serves HTTPS; it is asked for each connection, as keys may be renewed.
    """

    def __init__(
        self,
        app: App,
        bound: socket.socket,
        max_connections: int,
        tls: GetTls | None = None,
    ) -> None:
        self._app = app
        self._bound = bound
        self._tls = tls
        self._max_connections = max_connections
        self._connections: dict[_Connection, None] = {}  # the oldest one first
        self._kept = _Kept(self._connections)
        self._begun = trio.Event()
        """Set when the first connection has begun since there was none."""
        self._stopping = trio.Event()
        self._all_gone = trio.Event()

    async def serve(self, stop: trio.Event) -> None:
        """Serve until ``stop`` is set."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._bound))
        async with trio.open_nursery() as handlers:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(self._accept, listener, handlers)
                accepting.start_soon(self._end_connections)
                await stop.wait()
                self._stopping.set()
                for connection in list(self._connections):
                    if connection.is_idle:
                        connection.end()
                if not self._connections:
                    self._all_gone.set()
                accepting.cancel_scope.cancel()
            with trio.move_on_after(STOP_S):
                await self._all_gone.wait()
            for connection in list(self._connections):
                connection.end()
            handlers.cancel_scope.cancel()

    async def _accept(self, listener: trio.SocketListener, handlers: trio.Nursery) -> None:
        await trio.serve_listeners(self._handle, [listener], handler_nursery=handlers)

    async def _end_connections(self) -> None:
        """Look now and then at what connections wait for."""
        while True:
            if not self._connections:
                await self._begun.wait()
            await trio.sleep(LOOK_S)
            now_s = trio.current_time()
            for connection in list(self._connections):
                connection.end_if_over(now_s)

    async def _handle(self, accepted: trio.SocketStream) -> None:
        try:
            host = str(accepted.socket.getpeername()[0])
        except OSError:  # the client has left
            host = ""
        if len(self._connections) >= self._max_connections and not self._make_room():
            await accepted.aclose()
            return
        connection = _Connection(accepted, host, self._app, self._tls, self._kept)
        self._connections[connection] = None
        self._begun.set()
        try:
            await connection.serve(self._stopping)
        except _GONE as ended:
            log.debug("an HTTP connection ended: %r", ended)
        except Exception as bug:
            log.error("bug in an HTTP connection", exc_info=bug)
        finally:
            self._kept.forget(connection)
            self._connections.pop(connection, None)
            if not self._connections:
                self._begun = trio.Event()
            if self._stopping.is_set() and not self._connections:
                self._all_gone.set()
            connection.socket.close()

    def _make_room(self) -> bool:
        """End a connection of an address that has most of them; False if none may end."""
        counts = Counter(one.host for one in self._connections)
        most = max(counts.values())
        crowded = [one for one in self._connections if counts[one.host] == most]
        ended = next((one for one in crowded if one.awaits_client), None)
        if ended is None and most > 1:
            ended = crowded[0]
        if ended is None:
            return False
        del self._connections[ended]
        ended.end()
        return True
