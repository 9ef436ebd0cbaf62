"""Limits the bytes that rest in memory until their clients read them, or until a change.

A connection rests with the part of its responses that the client doesn't read, or with a large
request that waits for a change, such as a fetch from 200,000 partitions. Each connection has a
limit of its own. This module limits all of them together, by ``kwire.resting.max.bytes``.

Rules:

- If all connections together hold more than the limit, the connection whose bytes have rested
  longest ends: the product of its bytes and its seconds, plus one second, is the largest. A client
  that reads a large response quickly has few seconds, and a slow client usually has few bytes.
- Connections end until the others fit into the limit, or only one connection is left. The log names
  the setting.
- Slices of files don't count, because they are not in memory.
- Large requests that have arrived in part are bounded in the same way, by
  ``kwire.arriving.max.bytes``: a client may announce a request of 100 MB and never end it. So are
  large requests that have arrived and wait: for their turn to be decoded, or for a thread that
  opens their batches.
"""

import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

SETTING = "kwire.resting.max.bytes"
ARRIVING = "kwire.arriving.max.bytes"


class Resting(Protocol):
    """A connection whose bytes rest."""

    peer_host: str

    def abort_nowait(self) -> None:
        """End the connection at once."""


class RestingBytes:
    """The connections that hold bytes at rest: how many each, and since when.

    ``setting`` names their limit; ``what`` says in the log why the bytes are held.
    """

    def __init__(self, setting: str = SETTING, what: str = "rest for its client") -> None:
        self._setting = setting
        self._what = what
        self.max_bytes: Callable[[], int] = lambda: 1 << 62
        self.held_bytes = 0
        self._held: dict[Resting, tuple[int, float]] = {}

    def rest(self, connection: Resting, size_bytes: int, now_s: float) -> None:
        """Count the bytes with which a connection rests now; end others if there are too many."""
        before = self._held.get(connection)
        since_s = now_s
        if before is not None:
            self.held_bytes -= before[0]
            since_s = before[1]
        self._held[connection] = size_bytes, since_s
        self.held_bytes += size_bytes
        if self.held_bytes > self.max_bytes():
            self._make_room(now_s)

    def forget(self, connection: Resting) -> None:
        """Note that a connection no longer holds bytes at rest."""
        held = self._held.pop(connection, None)
        if held is not None:
            self.held_bytes -= held[0]

    def share(self, connections: int) -> int:
        """How many bytes each connection may keep so that all fit into the limit."""
        return self.max_bytes() // max(1, connections)

    def _make_room(self, now_s: float) -> None:
        most = self.max_bytes()
        while self.held_bytes > most and len(self._held) > 1:

            def cost(connection: Resting) -> float:
                size_bytes, since_s = self._held[connection]
                return size_bytes * (now_s - since_s + 1.0)

            longest = max(self._held, key=cost)
            size_bytes, since_s = self._held[longest]
            self.forget(longest)
            log.warning(
                "closing the connection from %s: %d bytes %s since %.1f s, and all"
                " connections together hold more than %s=%d",
                longest.peer_host,
                size_bytes,
                self._what,
                now_s - since_s,
                self._setting,
                most,
            )
            longest.abort_nowait()
