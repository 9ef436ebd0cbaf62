"""A bound address that a thread with an event loop of its own serves, beside the broker's."""

import importlib.util
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

log = logging.getLogger(__name__)

BACKLOG = 64
STOP_S = 5.0


class PortError(Exception):
    """A port can't be opened; the text is one line that says why and what to do."""


class PortThread:
    """The thread of one port, which is named ``what`` in the log."""

    def __init__(self, what: str, bound: socket.socket) -> None:
        self._what = what
        self._bound = bound
        host, port = bound.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self._lock = threading.Lock()
        self._stop: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_stopping = False

    @asynccontextmanager
    async def open(self, serve: Callable[[trio.Event], Awaitable[None]]) -> AsyncIterator[None]:
        """Run ``serve`` in the thread during the block; it returns soon after the event is set."""
        ended, token = trio.Event(), trio.lowlevel.current_trio_token()

        def run() -> None:
            try:
                trio.run(self._run, serve)
            except BaseException:
                log.exception("the %s has ended; the broker goes on without it", self._what)
            finally:
                self._bound.close()
                _call_soon(token, ended)

        name = f"kwire-{self._what.lower().replace(' ', '-')}"
        threading.Thread(target=run, name=name, daemon=True).start()
        try:
            yield
        finally:
            self._ask_to_stop()
            with trio.move_on_after(STOP_S, shield=True):
                await ended.wait()

    async def _run(self, serve: Callable[[trio.Event], Awaitable[None]]) -> None:
        with self._lock:
            stop, self._token = trio.Event(), trio.lowlevel.current_trio_token()
            self._stop = stop
            if self._is_stopping:
                return
        await serve(stop)

    def _ask_to_stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            if self._token is not None and self._stop is not None:
                _call_soon(self._token, self._stop)


def _call_soon(token: trio.lowlevel.TrioToken, event: trio.Event) -> None:
    """Set an event of another loop, unless that loop has ended."""
    try:
        token.run_sync_soon(event.set)
    except trio.RunFinishedError:
        return


def missing_of(packages: tuple[str, ...]) -> list[str]:
    """Those packages that aren't installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def bind(address: tuple[str, int], what: str, option: str) -> socket.socket:
    """The listening socket; PortError, which names the ``option`` that has the address."""
    host, port = address
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise PortError(
            f"cannot listen on {host or '*'}:{port} for {what}: {error.strerror or error}; "
            f"choose another address with {option}"
        ) from error
    return bound
