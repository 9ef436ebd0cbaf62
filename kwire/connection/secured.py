"""One connection of a listener with TLS, with a login, or with both.

Rules:

- First comes the TLS handshake. Its steps are computed in a thread, because they take long.
- Until the client has logged in, only the requests of a login are served, and their size is
  bounded (``sasl.server.max.receive.size``).
- A login that fails ends the connection after the response. So does any other request.
- A client that doesn't come so far in time is disconnected (``newcomers``).
"""

import socket
import ssl
from typing import Any, cast

import trio

from kwire.broker.broker import Broker
from kwire.connection.connection import Connection
from kwire.connection.ends import ConnectionClosed, tell
from kwire.connection.inbox import READ_BYTES_PER_UNIT
from kwire.connection.poller import Poller
from kwire.connection.tls_buffers import TlsInbox, TlsOutbox
from kwire.connection.tls_socket import TlsSocket
from kwire.handlers import Route
from kwire.handlers.context import ConnectionInfo
from kwire.protocol.frame import MIN_REQUEST_BYTES, RequestHeader
from kwire.security.listeners import ListenerSecurity
from kwire.security.tls import NoPrincipal, reason_of


class SecuredConnection(Connection):
    """A connection that ``security`` protects; ``info`` has its login."""

    def __init__(
        self,
        sock: socket.socket,
        info: ConnectionInfo,
        broker: Broker,
        poller: Poller,
        security: ListenerSecurity,
        max_request_bytes: int,
    ) -> None:
        self._tls = security.tls(poller.now_s)
        self._tls_socket = None if self._tls is None else TlsSocket(sock, self._tls.context)
        served = sock if self._tls_socket is None else cast(socket.socket, self._tls_socket)
        super().__init__(served, info, broker, poller, max_request_bytes)
        self._login = info.login
        self._shakes_hands = self._tls_socket is not None
        self._max_request_bytes = max_request_bytes
        max_bytes = max_request_bytes
        if self._login is not None:
            max_bytes = min(max_bytes, security.max_login_bytes)
            self._size_setting = "sasl.server.max.receive.size, before a login,"
        if self._tls_socket is None:
            self._inbox.max_bytes = max_bytes
            return
        self._tls_inbox = TlsInbox(poller.scratch, MIN_REQUEST_BYTES, max_bytes, self._tls_socket)
        self._inbox = self._tls_inbox
        self._outbox = TlsOutbox(self._tls_socket, broker.cold_reads)

    def on_readable(self) -> None:
        """Serve the requests that have arrived, or go on with the handshake."""
        if self._shakes_hands and self._scope is None and self._sock.fileno() >= 0:
            self._begin_handshake()
        else:
            super().on_readable()
            self._read_on()

    def send_gathered(self) -> None:
        """Send the responses that were gathered."""
        super().send_gathered()
        self._read_on()

    def _wait(self) -> None:
        super()._wait()
        self._read_on()

    def _read_on(self) -> None:
        """Have the next requests served if their bytes were read before: the poller can't know."""
        tls_socket = self._tls_socket
        if (
            tls_socket is not None
            and tls_socket.has_pending
            and self._scope is None
            and self._waiting is None
            and not self._watch.is_sending
            and not self._outbox
            and tls_socket.fileno() >= 0
        ):
            self._poller.serve_soon(self)

    def _begin_handshake(self) -> None:
        assert self._tls_socket is not None
        self.last_active_s = self._poller.now_s
        try:
            is_open = self._tls_socket.receive_handshake()
        except BlockingIOError:
            return
        except OSError:
            is_open = False
        if not is_open:
            self._close()
            return
        self._watch.end(self)
        self._scope = trio.CancelScope()
        self._poller.start_task(self._shake_hands)

    async def _shake_hands(self) -> None:
        """The task of a handshake's step, while the socket isn't watched."""
        assert self._tls_socket is not None
        assert self._scope is not None
        try:
            with self._scope:
                is_done = await self._step(self._tls_socket)
                if self._scope.cancel_called:
                    return
                self._scope = None
                if is_done:
                    self._end_handshake(self._tls_socket)
                self._wait()
        except (ConnectionClosed, OSError) as error:
            tell(error, self._broker, self.info.peer)
            self._close()
        finally:
            if self._scope is not None:
                self._close()

    async def _step(self, tls_socket: TlsSocket) -> bool:
        try:
            return await self._broker.threads.handshakes.run(tls_socket.shake_hands)
        except ssl.SSLError as error:
            raise ConnectionClosed(f"the TLS handshake failed: {reason_of(error)}") from error
        finally:
            tls_socket.send_handshake()

    def _end_handshake(self, tls_socket: TlsSocket) -> None:
        """Go on with requests; ConnectionClosed for a client without a name."""
        assert self._tls is not None
        self._shakes_hands = False
        if self._login is not None:
            return
        try:
            principal = self._tls.principal(tls_socket.tls)
        except NoPrincipal as error:
            raise ConnectionClosed(f"authentication failed: {error}") from error
        self.info = self.info._replace(principal=principal)
        self._poller.newcomers.discard(self)

    def _receive(self) -> None:
        if self._tls_socket is None:
            super()._receive()
            return
        if self._tls_inbox.has_frame:
            return
        try:
            count = self._tls_inbox.receive_all()
        except BlockingIOError:
            return
        if not count:
            raise ConnectionClosed
        units = count // READ_BYTES_PER_UNIT
        self._work.used_units += units
        self._poller.turns.units_left -= units

    def _serve(self, frame: memoryview) -> None:
        login = self._login
        if login is not None and (
            not login.is_open or login.is_begun or login.expires_s <= self._poller.now_s
        ):
            api_key = int.from_bytes(frame[:2], "big", signed=True)
            refusal = login.refusal(api_key, self._poller.now_s)
            if refusal is not None:
                raise ConnectionClosed(f"the client sends {refusal}")
        super()._serve(frame)

    def _take(self, served_by: Route, header: RequestHeader, response: Any) -> None:
        super()._take(served_by, header, response)
        login = self._login
        if login is not None and login.has_news and self._waiting is None:
            login.has_news = False
            if login.failure is not None:
                raise ConnectionClosed(f"authentication failed: {login.failure}")
            self.info = self.info._replace(principal=login.principal)
            self._inbox.max_bytes = self._max_request_bytes
            self._size_setting = "socket.request.max.bytes"
            self._poller.newcomers.discard(self)

    def _close(self) -> None:
        super()._close()
        self._poller.newcomers.discard(self)
