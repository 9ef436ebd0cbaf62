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
- Requests that have arrived in part are bounded in the same way, by ``kwire.arriving.max.bytes``: a
  client may announce a request of 100 MB and never end it, or have a thousand connections that each
  announce 1 MB. So are requests that have arrived and wait: for their turn to be decoded, for a
  thread that opens their batches, or behind a request whose response the client doesn't read.
  Buffers count as a whole, and only those of more than 16 KiB.
- A request of which no byte has come for ``HALF_S`` won't be ended any more: its connection ends.
- If many connections are counted, and too much is held, so many end that there is some room again:
  to find those that have rested longest takes milliseconds.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

log = logging.getLogger(__name__)

SETTING = "kwire.resting.max.bytes"
ARRIVING = "kwire.arriving.max.bytes"

HALF_S = 60.0
"""Clients give a request up after 30 s (``request.timeout.ms``), and close the connection then."""

MANY = 1000
ROOM_SHARE = 16
"""With more than ``MANY`` connections, one part in so many of the limit is made free at once."""


class _Held(NamedTuple):
    """The bytes of a connection, since when it holds any, and when it last had more or less.

    ``is_half`` says that they wait for the rest of a request.
    """

    size_bytes: int
    since_s: float
    changed_s: float
    is_half: bool


class Buffering(Protocol):
    """A connection whose bytes rest."""

    peer_host: str

    def abort_nowait(self) -> None:
        """End the connection at once."""


class BufferedBytesLimit:
    """The connections that hold bytes at rest: how many each, and since when.

    ``setting`` names their limit; ``what`` says in the log why the bytes are held.
    """

    def __init__(self, setting: str = SETTING, what: str = "rest for its client") -> None:
        self._setting = setting
        self._what = what
        self.max_bytes: Callable[[], int] = lambda: 1 << 62
        self.held_bytes = 0
        self._held: dict[Buffering, _Held] = {}  # the one that changed last is the last one

    def count_bytes(
        self, connection: Buffering, size_bytes: int, now_s: float, *, is_half: bool = False
    ) -> None:
        """Count the bytes with which a connection rests now; end others if there are too many.

        ``is_half`` says that they wait for the rest of a request.
        """
        before = self._held.pop(connection, None)
        since_s = now_s
        if before is not None:
            self.held_bytes -= before.size_bytes
            since_s = before.since_s
        self._held[connection] = _Held(size_bytes, since_s, now_s, is_half)
        self.held_bytes += size_bytes
        if self.held_bytes > self.max_bytes():
            self._make_room(now_s)

    def forget(self, connection: Buffering) -> None:
        """Note that a connection no longer holds bytes at rest."""
        held = self._held.pop(connection, None)
        if held is not None:
            self.held_bytes -= held.size_bytes

    def end_overdue(self, now_s: float) -> None:
        """End the connections on which the rest of a request doesn't come."""
        overdue = []
        for connection, held in self._held.items():
            if now_s - held.changed_s < HALF_S:
                break
            if held.is_half:
                overdue.append(connection)
        for connection in overdue:
            log.info("closing the connection from %s: half a request", connection.peer_host)
            self.forget(connection)
            connection.abort_nowait()

    def share(self, connections: int) -> int:
        """How many bytes each connection may keep so that all fit into the limit."""
        return self.max_bytes() // max(1, connections)

    def _make_room(self, now_s: float) -> None:
        most = self.max_bytes()
        goal = most - most // ROOM_SHARE if len(self._held) > MANY else most

        def cost(connection: Buffering) -> float:
            held = self._held[connection]
            return held.size_bytes * (now_s - held.since_s + 1.0)

        ended: list[tuple[Buffering, _Held]] = []
        for longest in sorted(self._held, key=cost, reverse=True):
            if self.held_bytes <= goal or len(self._held) <= 1:
                break
            ended.append((longest, self._held[longest]))
            self.forget(longest)
        if not ended:
            return
        first, held = ended[0]
        log.warning(
            "closing the connection from %s%s: %d bytes %s since %.1f s, and all"
            " connections together hold more than %s=%d",
            first.peer_host,
            f" and {len(ended) - 1} more" if len(ended) > 1 else "",
            held.size_bytes,
            self._what,
            now_s - held.since_s,
            self._setting,
            most,
        )
        for connection, _ in ended:
            connection.abort_nowait()
