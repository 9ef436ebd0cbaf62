"""Connections whose clients have not logged in yet: their number, time and memory are limited.

Rules:

- A client has ``PATIENCE_S`` seconds for its TLS handshake and its login, however slowly it sends.
- At most ``MOST`` connections may be waiting for a login. If there are more, kwire closes the
  oldest of the address that has the most of them. So a machine that opens many connections harms
  itself first.
- Together, they may hold ``MOST_BYTES`` of incomplete requests. Beyond that, kwire closes the
  connection that holds the most.
"""

import logging
from collections import Counter
from typing import Protocol

log = logging.getLogger(__name__)

PATIENCE_S = 15.0
MOST = 1000
MOST_BYTES = 64 << 20


class UnauthenticatedConnection(Protocol):
    """A connection whose client has not logged in."""

    peer_host: str

    def abort_nowait(self) -> None:
        """End the connection at once."""


class UnauthenticatedConnections:
    """The connections of one server whose clients have not logged in; the oldest comes first."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._since_s: dict[UnauthenticatedConnection, float] = {}
        self._per_address: Counter[str] = Counter()
        self._held_bytes: dict[UnauthenticatedConnection, int] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    @property
    def held_bytes(self) -> int:
        """How much memory the requests of all these connections hold."""
        return sum(self._held_bytes.values())

    def add(self, connection: UnauthenticatedConnection, now_s: float) -> None:
        """Note a connection that has just been accepted; this may end another one."""
        if len(self._since_s) >= self.most:
            self._make_room()
        self._since_s[connection] = now_s
        self._per_address[connection.peer_host] += 1

    def discard(self, connection: UnauthenticatedConnection) -> None:
        """Forget a connection that has logged in or has ended; harmless if it was forgotten."""
        self._held_bytes.pop(connection, None)
        if self._since_s.pop(connection, None) is not None:
            self._per_address[connection.peer_host] -= 1
            if not self._per_address[connection.peer_host]:
                del self._per_address[connection.peer_host]

    def record_held_bytes(self, connection: UnauthenticatedConnection, size_bytes: int) -> None:
        """Note how much memory a connection's request holds; this may end a connection."""
        if connection not in self._since_s:
            return
        self._held_bytes[connection] = size_bytes
        if self.held_bytes > MOST_BYTES:
            self._end_connection(max(self._held_bytes, key=self._held_bytes.__getitem__))

    def end_overdue(self, now_s: float) -> None:
        """End the connections whose time is up."""
        while self._since_s:
            oldest, since_s = next(iter(self._since_s.items()))
            if now_s - since_s < PATIENCE_S:
                return
            log.info("closing the connection from %s: no login in time", oldest.peer_host)
            self._end_connection(oldest)

    def _make_room(self) -> None:
        address = self._per_address.most_common(1)[0][0]
        self._end_connection(next(one for one in self._since_s if one.peer_host == address))

    def _end_connection(self, connection: UnauthenticatedConnection) -> None:
        self.discard(connection)
        connection.abort_nowait()
