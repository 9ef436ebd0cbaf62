"""HTTP/1.1 as etcd's gateway needs it: POST, with the answer as a whole or as a stream of lines.

Rules:

- h11 speaks the protocol, trio moves the bytes. Head and body of a request are sent in one piece,
  because two pieces would wake etcd twice.
- A connection carries one request at a time and is kept for the next request. Before a kept
  connection is used again, the client checks whether etcd has closed it.
- A call that fails or is cancelled closes its connection.

A general HTTP client, like httpx, would cost several megabytes for each broker and milliseconds for
each commit.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
import trio

if TYPE_CHECKING:
    import ssl

CONNECT_S, ANSWER_S = 1.0, 2.0
"""The longest waits for a connection, and for more bytes of an answer."""

_RECEIVE_BYTES = 64 << 10
_HEAD_BYTES = 64 << 10

Headers = Sequence[tuple[str, str]]


class HttpError(Exception):
    """No answer, or one that isn't HTTP."""


class NotConnected(HttpError):
    """There is no connection, so nothing was sent."""


class NotHttp(HttpError):
    """The answer isn't HTTP."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    content: bytes


class _Connection:
    """A connection to an endpoint; errors are HttpError."""

    def __init__(self, stream: trio.abc.Stream, socket: trio.socket.SocketType) -> None:
        self.stream = stream
        self._socket = socket
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)

    @property
    def is_alive(self) -> bool:
        """Whether etcd has neither closed the connection nor sent bytes without a request."""
        return not self._socket.is_readable()

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete, and a further request may follow."""
        return {self._http.our_state, self._http.their_state} == {h11.DONE}

    async def send(self, target: str, headers: Headers, content: bytes) -> None:
        """Send a request; an earlier answer has to be complete."""
        http = self._http
        if self.is_complete:
            http.start_next_cycle()
        head = [*headers, ("Content-Length", str(len(content)))]
        events = (
            h11.Request(method="POST", target=target, headers=head),
            h11.Data(data=content),
            h11.EndOfMessage(),
        )
        message = b"".join(http.send(event) or b"" for event in events)
        try:
            with trio.fail_after(ANSWER_S):
                await self.stream.send_all(message)
        except trio.BrokenResourceError as error:
            raise HttpError("the connection was lost") from error
        except trio.TooSlowError as error:
            raise HttpError(f"it takes no request within {ANSWER_S:g} s") from error

    async def status(self) -> int:
        """The status of the answer."""
        while True:
            event = await self._next_event(ANSWER_S)
            if isinstance(event, h11.Response):
                return event.status_code

    async def piece(self, within_s: float) -> bytes | None:
        """The next piece of the answer's body; None at its end."""
        event = await self._next_event(within_s)
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _next_event(self, within_s: float) -> Any:
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                with trio.fail_after(within_s):
                    self._http.receive_data(bytes(await self.stream.receive_some(_RECEIVE_BYTES)))
        except h11.RemoteProtocolError as error:
            _, is_closed = self._http.trailing_data
            if is_closed:
                is_tls = isinstance(self.stream, trio.SSLStream)
                hint = "" if is_tls else "; if etcd speaks TLS, write etcds:// instead of etcd://"
                raise HttpError(f"the connection was closed{hint}") from error
            raise NotHttp(f"it doesn't speak HTTP: {error}") from error
        except trio.BrokenResourceError as error:
            raise HttpError("the connection was lost") from error
        except trio.TooSlowError as error:
            raise HttpError(f"no answer within {within_s:g} s") from error


class Lines:
    """The lines of an answer that may go on forever."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rest = bytearray()
        self._at = 0

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> bytes:
        while True:
            end = self._rest.find(b"\n", self._at)
            if end >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                self._at = 0
                return line
            self._at = len(self._rest)
            piece = await self._connection.piece(float("inf"))
            if piece is None:
                raise StopAsyncIteration
            self._rest += piece


class Stream(NamedTuple):
    """An answer that comes in lines; ``content`` is the whole answer if it is an error."""

    status: int
    content: bytes
    lines: Lines


class HttpClient:
    """Connections to endpoints (``host:port``), with TLS if there is a ``new_context``."""

    def __init__(self, new_context: "Callable[[], ssl.SSLContext] | None") -> None:
        self._new_context = new_context
        self._kept: dict[str, list[_Connection]] = {}

    async def post(self, endpoint: str, target: str, headers: Headers, content: bytes) -> Answer:
        """The answer to a request; HttpError, NotConnected."""
        connection = await self._connection(endpoint)
        try:
            await connection.send(target, headers, content)
            status, whole = await connection.status(), await _whole(connection)
            if connection.is_complete:
                self._kept.setdefault(endpoint, []).append(connection)
        finally:
            if not connection.is_complete:
                await trio.aclose_forcefully(connection.stream)
        return Answer(status, whole)

    @asynccontextmanager
    async def stream(
        self, endpoint: str, target: str, headers: Headers, content: bytes
    ) -> AsyncIterator[Stream]:
        """The stream that answers a request; HttpError, NotConnected."""
        connection = await self._connection(endpoint)
        try:
            await connection.send(target, headers, content)
            status = await connection.status()
            whole = b"" if status == 200 else await _whole(connection)
            yield Stream(status, whole, Lines(connection))
        finally:
            await trio.aclose_forcefully(connection.stream)

    async def drop(self, endpoint: str) -> None:
        """Close the kept connections to an endpoint."""
        kept = self._kept.pop(endpoint, [])
        while kept:
            await trio.aclose_forcefully(kept.pop().stream)

    async def close(self) -> None:
        """Close all kept connections."""
        for endpoint in list(self._kept):
            await self.drop(endpoint)

    async def _connection(self, endpoint: str) -> _Connection:
        """A connection that was kept, or a new one."""
        kept = self._kept.get(endpoint)
        while kept:
            connection = kept.pop()
            if connection.is_alive:
                return connection
            await trio.aclose_forcefully(connection.stream)
        try:
            with trio.fail_after(CONNECT_S):
                return await self._connect(endpoint)
        except trio.TooSlowError as error:
            raise NotConnected(f"no connection within {CONNECT_S:g} s") from error
        except (OSError, UnicodeError) as error:
            raise NotConnected(str(error)) from error

    async def _connect(self, endpoint: str) -> _Connection:
        host, _, port = endpoint.rpartition(":")
        host = host.strip("[]")
        plain = await trio.open_tcp_stream(host, int(port))
        if self._new_context is None:
            return _Connection(plain, plain.socket)
        context = self._new_context()
        secure = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
        try:
            await secure.do_handshake()
        except BaseException as error:
            await trio.aclose_forcefully(plain)
            if isinstance(error, trio.BrokenResourceError):
                raise NotConnected(
                    f"the TLS handshake failed: {error.__cause__}; if etcd speaks no TLS, write "
                    "etcd:// instead of etcds://"
                ) from error
            raise
        return _Connection(secure, plain.socket)


async def _whole(connection: _Connection) -> bytes:
    """The body of an answer."""
    whole = bytearray()
    while (piece := await connection.piece(ANSWER_S)) is not None:
        whole += piece
    return bytes(whole)
