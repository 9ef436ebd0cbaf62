"""A listening socket, watched by the poller like a connection.

Rules:

- A client that connects is accepted within one turn of the poller. The poller then checks whether
  the first request has already arrived, so no other task has to be woken for that request.
- Many clients may connect at once, and a long turn would delay the clients that are connected. So
  one turn accepts a limited number of connections.
- A listener that has accepted too many connections in a time accepts none for a moment
  (``connection_rates``).
- If the process has no free descriptor (``ulimit -n``), the poller doesn't watch the listening
  socket for a moment. A warning says so, at most once in a while.
"""

import logging
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from kwire.connection.poller import Poller

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
PAUSE_S = 0.1
TELL_INTERVAL_S = 60.0


class Acceptor:
    """Passes every accepted socket, with its peer's address, to ``admit``.

    ``admit`` returns for how many seconds the listener has to accept no more connections.
    """

    def __init__(
        self, bound: socket.socket, admit: Callable[[socket.socket, Any], float], poller: Poller
    ) -> None:
        self._bound = bound
        self._admit = admit
        self._poller = poller
        self.used_s = 0.0  # so the poller serves it before expensive connections
        self._told_s = -math.inf
        self._is_watched = False
        self._is_closed = False

    def charge(self, spent_s: float) -> None:
        """Nobody pays for this."""

    def fileno(self) -> int:
        """The descriptor of the listening socket."""
        return self._bound.fileno()

    def start_accepting(self) -> None:
        """Start to accept connections."""
        if not self._is_closed:
            self._poller.watch(self)
            self._is_watched = True

    def close(self) -> None:
        """Accept no more connections."""
        self._is_closed = True
        self._stop_watching()

    def on_readable(self) -> None:
        """Accept the clients that have connected."""
        try:
            for _ in range(ACCEPTS_PER_TURN):
                if self._is_closed:
                    return
                pause_s = self._admit(*self._bound.accept())
                if pause_s:
                    self._pause(pause_s)
                    return
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            # No descriptor is free, or the peer caused a network error.
            now_s = trio.current_time()
            if now_s - self._told_s > TELL_INTERVAL_S:
                self._told_s = now_s
                log.warning("cannot accept a connection: %s", error)
            self._pause(PAUSE_S)

    def _pause(self, pause_s: float) -> None:
        """Accept no connections for a time."""
        self._stop_watching()
        self._poller.start_task(partial(self._begin_again, pause_s))

    async def _begin_again(self, pause_s: float) -> None:
        await trio.sleep(pause_s)
        self.start_accepting()

    def _stop_watching(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._poller.unwatch(self)
