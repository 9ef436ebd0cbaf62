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
        assert info.login is not None
        self._login = info.login
        self._max_request_bytes = max_request_bytes
        self._newcomers = poller.newcomers
        self._inbox.max_bytes = min(max_request_bytes, max_login_bytes)
        self._size_setting = "sasl.server.max.receive.size, before a login,"

    def _serve(self, frame: memoryview) -> None:
        login = self._login
        if not login.is_open or login.is_begun or login.expires_s <= self._poller.now_s:
            api_key = int.from_bytes(frame[:2], "big", signed=True)
            refusal = login.refusal(api_key, self._poller.now_s)
            if refusal is not None:
                raise ConnectionClosed(f"the client sends {refusal}")
        super()._serve(frame)

    def _take(self, served_by: Route, header: RequestHeader, response: Any) -> None:
        super()._take(served_by, header, response)
        login = self._login
        if login.has_news and self._waiting is None:
            login.has_news = False
            if login.failure is not None:
                raise ConnectionClosed(f"authentication failed: {login.failure}")
            self.info = self.info._replace(principal=login.principal)
            self._inbox.max_bytes = self._max_request_bytes
            self._size_setting = "socket.request.max.bytes"
            self._newcomers.discard(self)

    def _close(self) -> None:
        super()._close()
        self._newcomers.discard(self)
