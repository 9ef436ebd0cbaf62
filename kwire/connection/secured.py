"""One connection of a listener with TLS, with a login, or with both.

Rules:

- First comes the TLS handshake. Its steps are computed in a thread, because they take long.
- Until the client has logged in, only the requests of a login are served, and their size is
  bounded (``sasl.server.max.receive.size``).
- A login that fails ends the connection after the response. So does any other request.
- A client that hasn't finished the handshake and the login in time is disconnected
  (``unauthenticated``).
"""

import socket
import ssl
from contextlib import suppress
from typing import Any, cast

import trio

from kwire.broker.broker import Broker
from kwire.budget.work import Work
from kwire.connection.connection import Connection
from kwire.connection.disconnect_reasons import log_disconnect
from kwire.connection.inbox import Inbox
from kwire.connection.outbox import Outbox
from kwire.connection.poller import Poller
from kwire.connection.tls_buffers import TlsInbox, TlsOutbox
from kwire.connection.tls_socket import TlsSocket
from kwire.dispatch.failures import ConnectionClosed, LoginFailed
from kwire.dispatch.routes import Route
from kwire.dispatch.serving import Behind, Serving
from kwire.handlers.lib.context import ConnectionInfo
from kwire.protocol.frame import MIN_REQUEST_BYTES, RequestHeader
from kwire.security.listeners import ListenerSecurity
from kwire.security.login_lines import CERTIFICATE
from kwire.security.principal import ANONYMOUS, Principal
from kwire.security.tls import NoPrincipal, reason_of

SMALL_BYTES = 16 * 1024
"""A client that hasn't logged in counts as holding memory if its buffer is larger than this."""


class SecuredServing(Serving):
    """The requests of a connection whose client has to log in."""

    __slots__ = ("_inbox", "_login", "_max_request_bytes")

    def __init__(
        self,
        info: ConnectionInfo,
        broker: Broker,
        poller: Poller,
        outbox: Outbox,
        work: Work,
        inbox: Inbox,
        max_request_bytes: int,
    ) -> None:
        super().__init__(info, broker, poller, outbox, work)
        assert info.login is not None
        self._login = info.login
        self._inbox = inbox
        self._max_request_bytes = max_request_bytes

    @property
    def info(self) -> ConnectionInfo:
        """The connection, with the client's principal once it has logged in."""
        return self._info

    def serve(self, frame: memoryview) -> None:
        """Serve one request, if the client may send it now; ConnectionClosed."""
        if self._has_to_log_in():
            api_key = int.from_bytes(frame[:2], "big", signed=True)
            refusal = self._login.refusal(api_key, self._poller.now_s)
            if refusal is not None:
                raise ConnectionClosed(f"the client sends {refusal}")
        super().serve(frame)

    def serve_behind(self, frame: memoryview) -> Behind | None:
        """As without a login; None if the client has to log in again first."""
        return None if self._has_to_log_in() else super().serve_behind(frame)

    def _has_to_log_in(self) -> bool:
        login = self._login
        return not login.is_open or login.is_begun or login.expires_s <= self._poller.now_s

    def _keep_response(self, served_by: Route, header: RequestHeader, response: Any) -> None:
        super()._keep_response(served_by, header, response)
        login = self._login
        if login.has_news and self.waiting is None:
            login.has_news = False
            if login.failure is not None:
                raise LoginFailed(f"authentication failed: {login.failure}")
            self._info = self._info._replace(principal=login.principal)
            assert self._broker.login_lines is not None
            self._broker.login_lines.log_login(self._info, login.mechanism)
            self._inbox.max_bytes = self._max_request_bytes


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
        self._shakes_hands = self._tls_socket is not None
        self._used_of_address_s = self._work.used_s
        if self._tls_socket is not None:
            sizes = MIN_REQUEST_BYTES, max_request_bytes
            self._tls_inbox = TlsInbox(poller.scratch, *sizes, self._tls_socket)
            self._inbox = self._tls_inbox
            self._outbox = TlsOutbox(self._tls_socket, broker.cold_reads)
        self._login_serving: SecuredServing | None = None
        how = info, broker, poller, self._outbox, self._work
        if info.login is None:
            self._serving = Serving(*how)
            return
        self._inbox.max_bytes = min(max_request_bytes, security.max_login_bytes)
        self._size_setting = "sasl.server.max.receive.size, before a login,"
        self._login_serving = SecuredServing(*how, self._inbox, max_request_bytes)
        self._serving = self._login_serving

    def on_readable(self) -> None:
        """Serve the requests that have arrived, or go on with the handshake."""
        if self._shakes_hands and self._scope is None and self._sock.fileno() >= 0:
            self._begin_handshake()
        else:
            super().on_readable()
            self._check_login()

    def send_gathered(self) -> None:
        """Send the responses that were gathered."""
        super().send_gathered()
        self._check_login()

    def _wait(self) -> None:
        super()._wait()
        self._check_login()

    def _check_login(self) -> None:
        """Note a login. Have more requests served if their bytes are here: the poller can't know.

        This is called whenever requests have been served.
        """
        serving = self._login_serving
        if serving is not None and serving.info is not self.info:
            self.info = serving.info
            self._pay_as(serving.info.principal)
            self._size_setting = "socket.request.max.bytes"
            self._poller.unauthenticated.discard(self)
        elif serving is not None and self._inbox.size_bytes > SMALL_BYTES:
            self._poller.unauthenticated.record_held_bytes(self, self._inbox.size_bytes)
        tls_socket = self._tls_socket
        if (
            tls_socket is not None
            and tls_socket.has_pending
            and self._scope is None
            and self._serving.waiting is None
            and not self._watch.is_sending
            and not self._outbox
            and tls_socket.fileno() >= 0
        ):
            self._poller.serve_again(self)

    def _pay_as(self, principal: Principal) -> None:
        """Count the connection's work for its user from now on, and no longer for its address."""
        payer = str(principal)
        if payer != self._payer:
            turns, work = self._poller.turns, self._work
            own_s = max(work.used_s - self._used_of_address_s, 0.0)
            turns.begin_as(work, payer, own_s)
            self._payer = payer

    def _begin_handshake(self) -> None:
        assert self._tls_socket is not None
        self.last_active_s = self._poller.now_s
        try:
            data = self._tls_socket.receive_handshake()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        if self._tls_socket.handshake_bytes > SMALL_BYTES:
            self._poller.unauthenticated.record_held_bytes(self, self._tls_socket.handshake_bytes)
            if self._tls_socket.fileno() < 0:
                return
        if not self._tls_socket.has_record:
            return
        if self._tls_socket.is_last:
            self._shake_last(self._tls_socket)
            return
        self._watch.end(self)
        self._scope = trio.CancelScope()
        self._poller.start_task(self._shake_hands)

    def _shake_last(self, tls_socket: TlsSocket) -> None:
        """End the handshake with a message of the client that is quick to take."""
        try:
            try:
                is_done = tls_socket.shake_hands()
            except ssl.SSLError as refused:
                raise _failed(refused) from refused
            finally:
                tls_socket.send_handshake()
            if is_done:
                self._end_handshake(tls_socket)
        except Exception as error:
            log_disconnect(error, self._broker, self.info.peer)
            self._close()
            return
        self._check_login()

    async def _shake_hands(self) -> None:
        """The task of a handshake's step, while the socket isn't watched."""
        assert self._tls_socket is not None
        assert self._scope is not None
        try:
            with self._scope:
                is_done = await self._continue_handshake(self._tls_socket)
                if self._scope.cancel_called:
                    return
                self._scope = None
                if is_done:
                    self._end_handshake(self._tls_socket)
                self._wait()
        except Exception as error:
            log_disconnect(error, self._broker, self.info.peer)
            self._close()
        finally:
            if self._scope is not None:
                self._close()

    async def _continue_handshake(self, tls_socket: TlsSocket) -> bool:
        try:
            return await self._broker.threads.handshakes.run(tls_socket.shake_hands)
        except ssl.SSLError as error:
            raise _failed(error) from error
        finally:
            tls_socket.send_handshake()

    def _end_handshake(self, tls_socket: TlsSocket) -> None:
        """Go on with requests; ConnectionClosed for a client without a name."""
        assert self._tls is not None
        self._shakes_hands = False
        if self._login_serving is not None:
            return
        try:
            principal = self._tls.principal(tls_socket.tls)
        except NoPrincipal as error:
            raise LoginFailed(f"authentication failed: {error}") from error
        self.info = self.info._replace(principal=principal)
        if principal != ANONYMOUS:
            assert self._broker.login_lines is not None
            self._broker.login_lines.log_login(self.info, CERTIFICATE)
            self._pay_as(principal)
        how = self._broker, self._poller, self._outbox, self._work
        self._serving = Serving(self.info, *how)
        self._poller.unauthenticated.discard(self)

    def _receive(self) -> None:
        if self._tls_socket is None:
            super()._receive()
            return
        if self._tls_inbox.has_frame:
            return
        count = None
        with suppress(BlockingIOError):
            count = self._tls_inbox.receive_all()
        if count == 0:
            raise ConnectionClosed
        if self._tls_inbox.is_counted:
            self._count_arriving()

    def _close(self) -> None:
        super()._close()
        self._poller.unauthenticated.discard(self)


def _failed(error: ssl.SSLError) -> LoginFailed:
    return LoginFailed(f"the TLS handshake failed: {reason_of(error)}")
