"""The HTTP port, which begins before the logs are opened and ends after the broker.

So during a long start ``/healthz`` already answers, and ``/readyz`` says what the broker is doing.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from kwire.config.broker import BrokerConfig
from kwire.config.extras import needs
from kwire.web.cross_loop_calls import BrokerCalls, Observed
from kwire.web.port_thread import PortError, PortThread, bind, missing_of
from kwire.web.token import TokenError, admin_token

PACKAGES = ("h11", "jinja2", "prometheus_client", "starlette")


class HttpPort:
    """The HTTP port of one server.

    ``steady_ms`` is the broker's steady clock, which any thread may read. ``observed`` has what the
    server shows the port. ``token`` is the secret of administrators, None
    if nobody may change anything by HTTP. Raises PortError.
    """

    def __init__(self, config: BrokerConfig, steady_ms: Callable[[], int]) -> None:
        self.observed = Observed()
        self.own_registry = ""
        """The URL of the broker's own schema registry, for the page; set before ``open``."""
        self._steady_ms = steady_ms
        self._config = config
        try:
            self.token = admin_token(config)
        except TokenError as error:
            raise PortError(str(error)) from error
        address = config.http_address()
        assert address is not None
        if missing := missing_of(PACKAGES):
            raise PortError(f"HTTP (--http, kwire.http.listen) {needs('web', *missing)}")
        bound = bind(address, "HTTP", "--http HOST:PORT (kwire.http.listen)")
        self._thread = PortThread("HTTP port", bound)
        self._bound = bound
        self.address = self._thread.address

    @property
    def asks_who(self) -> bool:
        """Whether it asks who wants to read; it doesn't."""
        return False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve HTTP during the block."""
        async with trio.open_nursery() as nursery:
            broker_calls = BrokerCalls(self.observed, nursery, self._steady_ms)
            try:
                async with self._thread.open(lambda stop: self._serve(broker_calls, stop)):
                    yield
            finally:
                broker_calls.close()
                nursery.cancel_scope.cancel()

    async def _serve(self, broker_calls: BrokerCalls, stop: trio.Event) -> None:
        """The main task of the thread."""
        from kwire.web.app import application
        from kwire.web.connections import Connections
        from kwire.web.governor import Governor
        from kwire.web.page.sampler import Sampler
        from kwire.web.page.schemas import schemas_of

        trio.lowlevel.add_instrument(Governor())
        sampler = Sampler(broker_calls)
        hosts = self._config.strings("kwire.http.allowed.hosts")
        schemas = schemas_of(self._config, self.own_registry)
        app = application(broker_calls, sampler, self.token, schemas, hosts)
        most = self._config.integer("kwire.http.max.connections")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sampler.run)
            await Connections(app, self._bound, most).serve(stop)
            nursery.cancel_scope.cancel()
