"""Accepted sockets become connections, unless there are too many.

A listener with a login or TLS has another class of connections (``secured``). So other listeners
have no cost for it.
"""

import logging
import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kwire.broker.broker import Broker
from kwire.config.broker import Listener
from kwire.connection.acceptor import Acceptor
from kwire.connection.connection import Connection
from kwire.connection.disconnect_reasons import log_disconnect
from kwire.connection.liveness import is_gone
from kwire.connection.poller import Poller
from kwire.handlers.lib.context import ConnectionInfo, Software
from kwire.metadata.image import ConfigResourceType

if TYPE_CHECKING:
    from kwire.connection.connection_limits import ConnectionLimits
    from kwire.connection.connection_rates import ConnectionRates
    from kwire.security.listeners import ListenerSecurity

log = logging.getLogger(__name__)

RATE, LIMIT, UNLIMITED = "max.connection.creation.rate", "max.connections", 2**31 - 1

PREFIX = "listener.name."
"""The beginning of the names of one listener's settings."""

MAPPED = "::ffff:"
"""The beginning of an IPv4 client's address in IPv6."""


class ListenerLimits:
    """The limits that listeners have of their own, from the file or from dynamic configs.

    The settings are read again when a dynamic config of the broker has changed.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._read_at: object = None
        self._limits: dict[tuple[str, str], int] = {}
        self.kinds: frozenset[str] = frozenset()
        """Which of ``RATE`` and ``LIMIT`` any listener has."""

    def of(self, listener: str, kind: str) -> int | None:
        """The limit of a listener; None if it has none of its own."""
        self.refresh_limits()
        return self._limits.get((listener, kind))

    def refresh_limits(self) -> None:
        """Read the settings, if they may have changed."""
        broker = self._broker
        if self._read_at is broker.settings:
            return
        self._read_at = broker.settings
        dynamic = dict(broker.image.config(ConfigResourceType.BROKER, ""))
        dynamic.update(broker.image.config(ConfigResourceType.BROKER, str(broker.node_id)))
        self._limits = {}
        for name in (*broker.config.prefixed, *dynamic):
            listener, _, kind = name.removeprefix(PREFIX).partition(".")
            if name.startswith(PREFIX) and kind in (RATE, LIMIT):
                settings = broker.config.of_listener(listener.upper(), dynamic)
                self._limits[listener.upper(), kind] = settings.integer(kind)
        self.kinds = frozenset(kind for _, kind in self._limits)


class Admission:
    """Admits the clients of one server; ``security`` has the listeners that aren't PLAINTEXT."""

    def __init__(
        self, broker: Broker, poller: Poller, security: "Mapping[str, ListenerSecurity]"
    ) -> None:
        self._broker = broker
        self._poller = poller
        self._security = security
        self._next_connection_id = 0
        self._own = ListenerLimits(broker)
        self._rates: ConnectionRates | None = None
        self._limits: ConnectionLimits | None = None

    def accept(self, listener: Listener, bound: socket.socket) -> Acceptor:
        """Accept connections on a listener."""
        acceptor = Acceptor(bound, partial(self._admit, listener), self._poller)
        acceptor.start_accepting()
        return acceptor

    def _admit(self, listener: Listener, accepted: socket.socket, peer: tuple[str, int]) -> float:
        """Start serving a connection, unless there are too many or it is already closed.

        Returns for how many seconds the listener has to accept no more.
        """
        # An IPv6 listener sees IPv4 clients as ::ffff:10.0.0.7; ACLs and limits say 10.0.0.7.
        address = peer[0].removeprefix(MAPPED)
        wait_ms = 0
        if self._broker.image.client_quotas or self._has_rates:
            wait_ms, is_for_address = self._rates_of_today().count(listener.name, address)
            if is_for_address:
                self._rates_of_today().hold(accepted, wait_ms)
                return 0.0
        try:
            self._serve_accepted(listener, accepted, address, peer[1])
        except OSError as error:
            log.info("a connection from %s ended at once: %s", address, error)
            accepted.close()
        except Exception as error:  # no client may end the broker
            log_disconnect(error, self._broker, address)
            accepted.close()
        return wait_ms / 1000

    @property
    def _has_rates(self) -> bool:
        """Whether settings limit the rate of new connections."""
        if self._broker.integer(RATE) < UNLIMITED:
            return True
        self._own.refresh_limits()
        return RATE in self._own.kinds

    def _rates_of_today(self) -> "ConnectionRates":
        if self._rates is None:
            from kwire.connection.connection_rates import ConnectionRates

            self._rates = ConnectionRates(self._broker, self._poller, self._own.of)
        return self._rates

    def _limits_of_today(self) -> "ConnectionLimits | None":
        """The limits of connections; None if no setting limits them."""
        if self._limits is not None:
            return self._limits
        broker = self._broker
        self._own.refresh_limits()
        is_limited = (
            broker.integer(LIMIT) < UNLIMITED
            or broker.integer(f"{LIMIT}.per.ip") < UNLIMITED
            or broker.setting(f"{LIMIT}.per.ip.overrides")
            or LIMIT in self._own.kinds
        )
        if is_limited:
            from kwire.connection.connection_limits import ConnectionLimits

            self._limits = ConnectionLimits(broker, self._poller, self._own.of)
        return self._limits

    def _serve_accepted(
        self, listener: Listener, accepted: socket.socket, address: str, port: int
    ) -> None:
        limits = self._limits_of_today()
        name = None if limits is None else limits.refusal(listener.name, address)
        if name is not None:
            self._broker.counters.refused += 1
            log.warning("refusing a connection from %s: %s is reached", address, name)
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A small buffer stays in the processor's cache: large fetches get more than twice as fast.
        send_buffer_bytes = self._broker.integer("socket.send.buffer.bytes")
        if send_buffer_bytes != -1:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        local = accepted.getsockname()
        self._next_connection_id += 1
        self._broker.counters.accepted += 1
        info = ConnectionInfo(
            self._next_connection_id,
            listener.name,
            local[0],
            local[1],
            address,
            port,
            is_gone=partial(is_gone, accepted),
            software=Software(),
        )
        max_bytes = self._broker.integer("socket.request.max.bytes")
        security = self._security.get(listener.name)
        if security is None:
            plain = Connection(accepted, info, self._broker, self._poller, max_bytes)
            self._poller.add(plain)
            if limits is not None:
                limits.add(listener.name, plain)
            return
        from kwire.connection.secured import SecuredConnection

        info = info._replace(login=security.login())
        how = self._poller, security, max_bytes
        connection = SecuredConnection(accepted, info, self._broker, *how)
        self._poller.add(connection)
        if limits is not None:
            limits.add(listener.name, connection)
        self._poller.unauthenticated.add(connection, self._poller.now_s)
