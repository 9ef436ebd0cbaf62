"""The thread of the HTTP port, which begins before the logs are opened and ends after the broker.

So during a long start ``/healthz`` already answers, and ``/readyz`` says what the broker is doing.
"""

import importlib.util
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from kwire.config.broker import BrokerConfig
from kwire.config.extras import needs
from kwire.web.cross_loop_calls import BrokerCalls, Observed
from kwire.web.token import TokenError, admin_token

log = logging.getLogger(__name__)

PACKAGES = ("hypercorn", "jinja2", "prometheus_client", "starlette")
BACKLOG = 64
STOP_S = 5.0


class HttpPortError(Exception):
    """The HTTP port can't be opened; the text is one line that says why and what to do."""


class HttpPort:
    """The HTTP port of one server.

    ``steady_ms`` is the broker's steady clock, which any thread may read. ``observed`` has what the
    server shows the port. ``token`` is the secret of administrators, None
    if nobody may change anything by HTTP.
    """

    def __init__(self, config: BrokerConfig, steady_ms: Callable[[], int]) -> None:
        self.observed = Observed()
        self._steady_ms = steady_ms
        self._config = config
        try:
            self.token = admin_token(config)
        except TokenError as error:
            raise HttpPortError(str(error)) from error
        self._bound = _bind(config)
        host, port = self._bound.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self._lock = threading.Lock()
        self._stop: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_stopping = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve HTTP during the block."""
        ended = trio.Event()
        async with trio.open_nursery() as nursery:
            broker_calls = BrokerCalls(self.observed, nursery, self._steady_ms)
            token = trio.lowlevel.current_trio_token()

            def run() -> None:
                try:
                    trio.run(self._serve, broker_calls)
                except BaseException:
                    log.exception("the HTTP port has ended; the broker goes on without it")
                finally:
                    self._bound.close()
                    _call_soon(token, ended)

            threading.Thread(target=run, name="kwire-http", daemon=True).start()
            try:
                yield
            finally:
                self._ask_to_stop()
                with trio.move_on_after(STOP_S, shield=True):
                    await ended.wait()
                broker_calls.close()
                nursery.cancel_scope.cancel()

    async def _serve(self, broker_calls: BrokerCalls) -> None:
        """The main task of the thread."""
        from kwire.web.app import application
        from kwire.web.connections import Connections
        from kwire.web.governor import Governor
        from kwire.web.page.sampler import Sampler
        from kwire.web.page.schemas import schemas_of

        with self._lock:
            stop, self._token = trio.Event(), trio.lowlevel.current_trio_token()
            self._stop = stop
            if self._is_stopping:
                return
        trio.lowlevel.add_instrument(Governor())
        sampler = Sampler(broker_calls)
        hosts = self._config.strings("kwire.http.allowed.hosts")
        schemas = schemas_of(self._config)
        app = application(broker_calls, sampler, self.token, schemas, hosts)
        most = self._config.integer("kwire.http.max.connections")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sampler.run)
            await Connections(app, self._bound, most).serve(stop)
            nursery.cancel_scope.cancel()

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


def _bind(config: BrokerConfig) -> socket.socket:
    """The listening socket; HttpPortError if a package is missing or the address is taken."""
    address = config.http_address()
    assert address is not None
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise HttpPortError(f"HTTP (--http, kwire.http.listen) {needs('web', *missing)}")
    host, port = address
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setblocking(False)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise HttpPortError(
            f"cannot listen on {host or '*'}:{port} for HTTP: {error.strerror or error}; "
            f"choose another address with --http HOST:PORT (kwire.http.listen)"
        ) from error
    return bound
