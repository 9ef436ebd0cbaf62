"""Limits the rate of new connections: to the broker, to each listener, and from each address.

Rules:

- If clients connect faster than the rate of the broker or of a listener, the listener accepts no
  more connections until the rate is kept again, at most for one window. Meanwhile clients wait in
  the queue of the kernel.
- If an address exceeds its rate, kwire serves nothing on its new connection, and closes it after
  the same time. So a client that connects again at once doesn't connect more often. At most
  ``MOST_HELD`` connections are kept in this way; others are closed at once.
- The rate of the broker doesn't count for the listener that brokers use among themselves, if
  clients have a listener of their own.
- The number of addresses that are counted is bounded like that of clients
  (``kwire.quotas.clients``).

Source: ConnectionQuotas of Kafka's SocketServer; KIP-612.
"""

import socket
from collections.abc import Callable
from heapq import heappop, heappush

import trio

from kwire.broker.broker import Broker
from kwire.connection.poller import Poller
from kwire.metadata.quotas import CONNECTION_RATE, IP, NONE
from kwire.quotas.clients import IDLE_MS, MOST, RateMeter
from kwire.quotas.rates import Window

SETTING = "max.connection.creation.rate"
UNLIMITED = 2**31 - 1
MOST_HELD = 1000

BY_ADDRESS, BY_LISTENER = "connection_of_address", "connection"


class ConnectionRates:
    """Counts the connections of one server.

    ``own(listener, setting)`` is a listener's own rate, or None.
    """

    def __init__(
        self, broker: Broker, poller: Poller, own: Callable[[str, str], int | None]
    ) -> None:
        self._broker = broker
        self._poller = poller
        self._own = own
        integer = broker.integer
        size_ms = integer("quota.window.size.seconds") * 1000
        self._window = Window(integer("quota.window.num"), size_ms)
        self._broker_wide: RateMeter | None = None
        self._listeners: dict[str, RateMeter] = {}
        self._addresses: dict[str, RateMeter] = {}
        self._held: list[tuple[float, int, socket.socket]] = []
        self._held_so_far = 0
        several = len(broker.config.listeners()) > 1
        self._among_brokers = broker.config.inter_broker_name if several else None

    def count(self, listener: str, address: str) -> tuple[int, bool]:
        """Count a new connection: (for how many ms to wait, whether this is for its address)."""
        now_ms = self._broker.clock.steady_ms()
        wait_ms = self._count_listener(listener, now_ms)
        own_ms = self._count_address(address, now_ms)
        if own_ms:
            self._take_back(listener, now_ms)
            return self._noted(BY_ADDRESS, own_ms), True
        return (self._noted(BY_LISTENER, wait_ms) if wait_ms else 0), False

    def hold(self, accepted: socket.socket, wait_ms: int) -> None:
        """Close a connection after this time, and serve it nothing until then."""
        if len(self._held) >= MOST_HELD:
            accepted.close()
            return
        until_s = trio.current_time() + wait_ms / 1000
        self._held_so_far += 1
        heappush(self._held, (until_s, self._held_so_far, accepted))
        if len(self._held) == 1:
            self._poller.start_task(self._close_held)

    async def _close_held(self) -> None:
        try:
            while self._held:
                await trio.sleep_until(self._held[0][0])
                heappop(self._held)[2].close()
        finally:
            while self._held:
                heappop(self._held)[2].close()

    def _noted(self, kind: str, wait_ms: int) -> int:
        self._broker.counters.throttled[kind] += 1
        self._broker.counters.throttled_ms[kind] += wait_ms
        return wait_ms

    def _meter(self, limit: int, now_ms: int) -> RateMeter:
        return RateMeter(self._window, limit, now_ms, self._window.size_ms)

    def _count_listener(self, listener: str, now_ms: int) -> int:
        wait_ms = 0
        limit = self._broker.integer(SETTING)
        if limit < UNLIMITED and listener != self._among_brokers:
            if self._broker_wide is None:
                self._broker_wide = self._meter(limit, now_ms)
            self._broker_wide.limit = limit
            wait_ms = self._broker_wide.use(1, now_ms)
        own = self._limit_of(listener)
        if own < UNLIMITED:
            meter = self._listeners.setdefault(listener, self._meter(own, now_ms))
            meter.limit = own
            wait_ms = max(wait_ms, meter.use(1, now_ms))
        return wait_ms

    def _limit_of(self, listener: str) -> int:
        """The rate of a listener: its own setting, or else the broker's."""
        own = self._own(listener, SETTING)
        return self._broker.integer(SETTING) if own is None else own

    def _count_address(self, address: str, now_ms: int) -> int:
        quotas = self._broker.image.client_quotas
        limit = quotas.get(((IP, address),), NONE).get(CONNECTION_RATE)
        if limit is None:
            limit = quotas.get(((IP, None),), NONE).get(CONNECTION_RATE)
        if limit is None:
            return 0
        meter = self._addresses.pop(address, None)
        if meter is None:
            self._make_room(now_ms)
            meter = self._meter(0, now_ms)
        self._addresses[address] = meter  # those used longest ago come first
        meter.limit = limit
        wait_ms = meter.use(1, now_ms)
        if wait_ms:
            meter.use(-1, now_ms)
        return wait_ms

    def _make_room(self, now_ms: int) -> None:
        while self._addresses:
            oldest = next(iter(self._addresses))
            is_idle = now_ms - self._addresses[oldest].used_ms >= IDLE_MS
            if not is_idle and len(self._addresses) < MOST:
                return
            del self._addresses[oldest]

    def _take_back(self, listener: str, now_ms: int) -> None:
        """Take back the count of a connection that isn't served."""
        meters = self._listeners.get(listener), self._broker_wide
        for meter in meters[: 1 if listener == self._among_brokers else 2]:
            if meter is not None:
                meter.use(-1, now_ms)
