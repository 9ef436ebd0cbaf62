"""Limits the number of connections: of the broker, of a listener, of an address.

Rules:

- A connection beyond ``max.connections``, ``listener.name.NAME.max.connections`` or
  ``max.connections.per.ip`` is closed at once. ``max.connections.per.ip.overrides`` has other
  limits for some addresses; names of hosts aren't looked up.
- The listener for brokers always has room: if the broker's limit is reached, the connection of
  another listener that was silent for the longest is closed instead.

Source: ConnectionQuotas of Kafka; KIP-402. In Kafka, a full listener accepts no connection until
another one ends.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address

from kwire.broker.broker import Broker
from kwire.connection.connection import Connection
from kwire.connection.poller import Poller

ALL, PER_ADDRESS = "max.connections", "max.connections.per.ip"
OVERRIDES = "max.connections.per.ip.overrides"
LOOK_S = 0.1
"""The shortest time between two checks of a full listener for connections that have ended."""


class ConnectionLimits:
    """The limits of one broker; ``add`` is called with each connection.

    ``own(listener, setting)`` is the limit that a listener has of its own, or None.
    """

    def __init__(
        self, broker: Broker, poller: Poller, own: Callable[[str, str], int | None]
    ) -> None:
        self._broker = broker
        self._poller = poller
        self._own = own
        self._among_brokers = broker.config.inter_broker_name
        self._of_listener: dict[str, set[Connection]] = {}
        self._look_due_s: defaultdict[str, float] = defaultdict(float)

    def refusal(self, listener: str, address: str) -> str | None:
        """The setting by which there is no room for a connection; None if there is room.

        This may close another connection.
        """
        if self._poller.per_address[address] >= self._limit_of(address):
            return PER_ADDRESS
        own = self._own(listener, ALL)
        if own is not None and self._is_full(listener, own):
            return f"listener.name.{listener.lower()}.{ALL}"
        if len(self._poller.connections) < self._broker.integer(ALL):
            return None
        if listener != self._among_brokers:
            return ALL
        self._make_room()
        return None

    def add(self, listener: str, connection: Connection) -> None:
        """Note a connection that has begun."""
        held = self._of_listener.get(listener)
        if held is None:
            return
        if self._own(listener, ALL) is None:
            del self._of_listener[listener]
        else:
            held.add(connection)

    def _limit_of(self, address: str) -> int:
        overrides = str(self._broker.setting(OVERRIDES) or "")
        limit = _parsed(overrides).get(address) if overrides else None
        return self._broker.integer(PER_ADDRESS) if limit is None else limit

    def _is_full(self, listener: str, limit: int) -> bool:
        held = self._of_listener.get(listener)
        if held is None:  # the limit is new: other connections may already exist
            held = self._of_listener[listener] = {
                one
                for one in self._poller.connections
                if isinstance(one, Connection) and one.info.listener == listener
            }
        if len(held) >= limit and self._poller.now_s >= self._look_due_s[listener]:
            self._look_due_s[listener] = self._poller.now_s + LOOK_S
            held.intersection_update(self._poller.connections)
        return len(held) >= limit

    def _make_room(self) -> None:
        """Close the connection of another listener that was silent for the longest."""
        others = [
            one
            for one in self._poller.connections
            if isinstance(one, Connection) and one.info.listener != self._among_brokers
        ]
        if others:
            min(others, key=lambda one: one.last_active_s).abort_nowait()


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, int]:
    """The limits by address, written as in ``10.0.0.7:100,10.0.0.8:10``."""
    found = {}
    for item in text.split(","):
        host, _, limit = item.strip().rpartition(":")
        try:
            found[str(ip_address(host))] = int(limit)
        except ValueError:
            continue  # the name of a host
    return found
