"""One connection of a listener with a login.

Rules:

- Until the client has logged in, only the requests of a login are served, and their size is
  bounded (``sasl.server.max.receive.size``).
- A login that fails ends the connection after the response. So does any other request.
- A client that doesn't log in in time is disconnected (``newcomers``).
"""

import socket
from typing import Any

from kwire.broker.broker import Broker
from kwire.connection.connection import Connection
from kwire.connection.ends import ConnectionClosed
from kwire.connection.poller import Poller
from kwire.connection.serving import Serving
from kwire.connection.stopwatch import Stopwatch
from kwire.connection.waiting import Waiting
from kwire.handlers import Route
from kwire.handlers.context import ConnectionInfo
from kwire.protocol.frame import RequestHeader
from kwire.security.listeners import ListenerSecurity


class SecuredConnection(Connection):
    """A connection whose client has to log in; ``info`` has its login."""

    def __init__(
        self,
        sock: socket.socket,
        info: ConnectionInfo,
        broker: Broker,
        poller: Poller,
        security: ListenerSecurity,
        max_request_bytes: int,
        max_login_bytes: int,
    ) -> None:
        super().__init__(sock, info, broker, poller, max_request_bytes)
        self._max_request_bytes = max_request_bytes
        self._newcomers = poller.newcomers
        self._inbox.max_bytes = min(max_request_bytes, max_login_bytes)
        self._size_setting = "sasl.server.max.receive.size, before a login,"
        self._serving = SecuredServing(self, info, broker, poller, (self._outbox, self._work))

    def logged_in(self, info: ConnectionInfo) -> None:
        """The client has logged in: ``info`` has its principal."""
        self.info = info
        self._inbox.max_bytes = self._max_request_bytes
        self._size_setting = "socket.request.max.bytes"
        self._newcomers.discard(self)

    def _close(self) -> None:
        super()._close()
        self._newcomers.discard(self)


class SecuredServing(Serving):
    """Serves the requests of a client that has to log in before."""

    __slots__ = ("_connection", "_login")

    def __init__(
        self,
        connection: SecuredConnection,
        info: ConnectionInfo,
        broker: Broker,
        poller: Poller,
        parts: tuple[Any, Any],
    ) -> None:
        """``parts`` are the connection's outbox and its work."""
        super().__init__(info, broker, poller, *parts)
        assert info.login is not None
        self._connection = connection
        self._login = info.login

    def serve(self, frame: memoryview) -> None:
        """Serve one request, unless it has to wait for a login; ConnectionClosed."""
        login = self._login
        if not login.is_open or login.is_begun or login.expires_s <= self._poller.now_s:
            api_key = int.from_bytes(frame[:2], "big", signed=True)
            refusal = login.refusal(api_key, self._poller.now_s)
            if refusal is not None:
                raise ConnectionClosed(f"the client sends {refusal}")
        super().serve(frame)

    def serve_plain(self, frame: memoryview) -> bytes | tuple[Waiting, Stopwatch | None] | None:
        """Serve a request behind another; None while its login is to be looked at."""
        login = self._login
        if not login.is_open or login.is_begun or login.expires_s <= self._poller.now_s:
            return None
        return super().serve_plain(frame)

    def _take(self, served_by: Route, header: RequestHeader, response: Any) -> None:
        super()._take(served_by, header, response)
        login = self._login
        if login.has_news and self.waiting is None:
            login.has_news = False
            if login.failure is not None:
                raise ConnectionClosed(f"authentication failed: {login.failure}")
            self._info = self._info._replace(principal=login.principal)
            self._connection.logged_in(self._info)
