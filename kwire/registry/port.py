"""The port of the schema registry in a broker: a thread with an event loop of its own.

It opens with the broker's listeners and answers 503 until the broker serves. Web libraries are
imported in that thread, and only if the port is switched on (``kwire.registry.listen``).
"""

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from kwire.config.broker import BrokerConfig
from kwire.config.exposure import asks_who
from kwire.config.extras import command, needs
from kwire.metadata.image import MetadataImage
from kwire.web.cross_loop_calls import BrokerCalls, NotServing, Observed
from kwire.web.port_thread import PortError, PortThread, bind, missing_of

if TYPE_CHECKING:
    from kwire.registry.logins import Logins
    from kwire.registry.topic_journal import TopicJournal
    from kwire.web.guard import App

log = logging.getLogger(__name__)

PACKAGES = ("h11",)
OF_TYPES = {"JSON Schema": ("jsonschema_rs", "referencing"), "Protobuf": ("grpc_tools",)}
"""The modules without which the registry refuses schemas of a type; Avro needs none."""
OPTION = "--registry HOST:PORT (kwire.registry.listen)"


class RegistryPort:
    """The registry of one server; ``observed`` has what the server shows it. Raises PortError."""

    def __init__(
        self,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        self.observed = Observed()
        self._now_ms, self._steady_ms = now_ms, steady_ms
        self._config = config
        address = config.registry_address()
        assert address is not None
        if missing := missing_of(PACKAGES):
            raise PortError(f"the schema registry {needs('registry', *missing)}")
        for name, modules in OF_TYPES.items():
            if missing_of(modules):
                log.warning(
                    "the schema registry has no %s: to have it, %s", name, command("registry")
                )
        self._logins = self._logins_of(config)
        self._bound = bind(address, "the schema registry", OPTION)
        self._thread = PortThread("schema registry", self._bound)
        self._journal: TopicJournal | None = None
        self.address = self._thread.address

    def problem(self) -> str:
        """What is wrong with the registry, in one line; empty if nothing is."""
        return "" if self._journal is None else self._journal.problem

    def _logins_of(self, config: BrokerConfig) -> "Logins | None":
        if not config["kwire.registry.security.listener"]:
            return None
        from kwire.registry.logins import Logins

        return Logins(config, self._image, self._now_ms, self._steady_ms)

    @property
    def asks_who(self) -> bool:
        """Whether clients have to authenticate."""
        return self._logins is not None and asks_who(self._config, self._logins.listener.name)

    @property
    def is_tls(self) -> bool:
        """Whether it speaks HTTPS."""
        return self._logins is not None and self._logins.listener.settings.is_tls

    @property
    def url(self) -> str:
        """Its URL for programs of this machine."""
        host, port = self.address
        scheme = "https" if self.is_tls else "http"
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve the registry during the block."""
        async with trio.open_nursery() as nursery:
            # Reads, the wait for new records, and questions to the authorizer: one of each at a
            # time, so that none waits for another.
            calls = [BrokerCalls(self.observed, nursery, self._steady_ms) for _ in range(3)]
            try:
                async with self._thread.open(lambda stop: self._serve(calls, stop)):
                    yield
            finally:
                for one in calls:
                    one.close()
                nursery.cancel_scope.cancel()

    def _image(self) -> MetadataImage | None:
        """The broker's metadata, which any thread may read; None before it serves."""
        try:
            return self.observed.broker.image
        except NotServing:
            return None

    def _tls(self) -> ssl.SSLContext:
        assert self._logins is not None
        tls = self._logins.listener.tls(self._steady_ms() / 1000)
        assert tls is not None
        return tls.context

    async def _serve(self, broker_calls: list[BrokerCalls], stop: trio.Event) -> None:
        """The main task of the thread."""
        from kwire.registry.app import MAX_BODY_BYTES, RegistryApp
        from kwire.registry.registry import Registry
        from kwire.registry.rights import Rights
        from kwire.registry.topic_journal import TopicJournal
        from kwire.web.connections import Connections
        from kwire.web.guard import Guard

        calls, following, asking = broker_calls
        journal = self._journal = TopicJournal(calls, following)
        hosts = self._config.strings("kwire.registry.allowed.hosts")
        rights = Rights(asking if self._config.authorizer() is not None else None)
        app = Guard(
            RegistryApp(Registry(journal), rights),
            hosts,
            max_body_bytes=MAX_BODY_BYTES,
            hosts_setting="kwire.registry.allowed.hosts",
        )
        served: App = app
        if self._logins is not None:
            served = self._logins.guarded(app)
        most = self._config.integer("kwire.registry.max.connections")
        tls = self._tls if self.is_tls else None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.run)
            await Connections(served, self._bound, most, tls).serve(stop)
            nursery.cancel_scope.cancel()
