"""A listening socket, watched by the poller like a connection.

Rules:

- Who connects is let in within a turn of the poller, which then looks whether the first request
  has come already: no other task has to be woken for it.
- Many may connect at once, and each turn of the others is long for who waits: so many are let in
  at a time.
- When there is no room (``ulimit -n``) it is not watched for a moment, and that is told now and
  then.
"""

import logging
import math
import socket
from collections.abc import Callable
from typing import Any

import trio

from kwire.connection.poller import Poller

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
PAUSE_S = 0.1
TELL_INTERVAL_S = 60.0


class Acceptor:
    """Gives every socket that is accepted, and its peer's address, to ``admit``."""

    def __init__(
        self, bound: socket.socket, admit: Callable[[socket.socket, Any], None], poller: Poller
    ) -> None:
        self._bound = bound
        self._admit = admit
        self._poller = poller
        self._told_s = -math.inf
        self._is_watched = False
        self._is_closed = False

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._bound.fileno()

    def begin(self) -> None:
        """Accept from now on."""
        if not self._is_closed:
            self._poller.watch(self)
            self._is_watched = True

    def close(self) -> None:
        """Accept nobody any more."""
        self._is_closed = True
        self._stop_watching()

    def on_readable(self) -> None:
        """Let in who has connected."""
        try:
            for _ in range(ACCEPTS_PER_TURN):
                if self._is_closed:
                    return
                self._admit(*self._bound.accept())
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            # Out of descriptors, or a network error that the peer left behind.
            now_s = trio.current_time()
            if now_s - self._told_s > TELL_INTERVAL_S:
                self._told_s = now_s
                log.warning("cannot accept a connection: %s", error)
            self._stop_watching()
            self._poller.start_task(self._begin_again)

    async def _begin_again(self) -> None:
        await trio.sleep(PAUSE_S)
        self.begin()

    def _stop_watching(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._poller.unwatch(self)
