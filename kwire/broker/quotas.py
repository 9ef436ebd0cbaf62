"""The client quotas that apply on this broker, and the clients that wait because of them.

Rules:

- A broker has this object only while the cluster has quotas for users or client ids. Without it, a
  request only reads one attribute.
- Each broker counts only its own requests. So a client that uses three brokers may use a quota
  three times.
- A client that waits occupies no task. The broker doesn't read from its connection until the time
  is over, the last quota is removed, or the broker stops.

Source: QuotaFactory.QuotaManagers of Kafka; KIP-13, KIP-219.
"""

from typing import Protocol

from kwire.broker.metrics_counters import MetricsCounters
from kwire.clock import Clock
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.quotas import IP, ClientQuotas
from kwire.quotas.clients import BucketMeter, Clients, OwnQuotas
from kwire.quotas.rates import Window
from kwire.security.principal import Principal


class Metered(Protocol):
    """The part of the broker that the quotas need."""

    clock: Clock
    counters: MetricsCounters

    def integer(self, name: str) -> int:
        """The effective value of a setting."""


class Pausing(Protocol):
    """The wait of one client."""

    def set(self) -> None:
        """End it."""


class Quotas:
    """The quotas of the clients of one broker, and how much of them is used.

    - ``pauses``: the clients' waits that have not ended.
    - ``throttled``: the number of requests after which a client had to wait, by the kind of quota.
    - ``throttled_ms``: the sum of these waits.
    """

    def __init__(self, broker: Metered) -> None:
        integer = broker.integer
        self.clients = Clients(
            Window(integer("quota.window.num"), integer("quota.window.size.seconds") * 1000),
            Window(
                integer("controller.quota.window.num"),
                integer("controller.quota.window.size.seconds") * 1000,
            ),
        )
        self.steady_ms = broker.clock.steady_ms
        self.pauses: set[Pausing] = set()
        self.throttled = broker.counters.throttled
        self.throttled_ms = broker.counters.throttled_ms

    def of(self, principal: Principal, client_id: str | None) -> OwnQuotas:
        """The quotas of a client."""
        return self.clients.of(principal.name, client_id or "", self.steady_ms())

    def most_fetched(self, principal: Principal, client_id: str | None, most_bytes: int) -> int:
        """How many bytes one fetch may have, if settings allow ``most_bytes``."""
        meter = self.of(principal, client_id).fetch
        return most_bytes if meter is None else int(min(most_bytes, meter.most_at_once))

    def fetched(
        self, principal: Principal, client_id: str | None, size_bytes: int
    ) -> tuple[int, bool]:
        """Count the records that a consumer would get.

        Returns the consumer's wait in ms, and whether it gets the records nevertheless. It does if
        it has used nothing yet: one batch may be larger than everything that the quota ever allows
        at once.
        """
        meter = self.of(principal, client_id).fetch
        if meter is None:
            return 0, True
        assert size_bytes >= 0, size_bytes
        now_ms = self.steady_ms()
        is_first = meter.counter.measure(now_ms)[0] <= 0
        wait_ms = meter.use(size_bytes, now_ms)
        if wait_ms and not is_first:
            meter.counter.record(-size_bytes, now_ms)
            return wait_ms, False
        return wait_ms, True

    def acquired(self, principal: Principal, client_id: str | None, size_bytes: int) -> int:
        """Count the records that a share consumer gets, and return its wait in ms.

        They are counted also if it has to wait, because it gets them all the same: their locks run.
        With 0 bytes: the wait of a consumer that should acquire nothing before it is over.
        """
        meter = self.of(principal, client_id).fetch
        assert size_bytes >= 0, size_bytes
        return 0 if meter is None else meter.use(size_bytes, self.steady_ms())

    def note(self, kind: str, wait_ms: int) -> None:
        """Note that a client has to wait."""
        self.throttled[kind] += 1
        self.throttled_ms[kind] += wait_ms

    def end_pauses(self) -> None:
        """Let all clients go on."""
        for pause in list(self.pauses):
            pause.set()


def followed(quotas: Quotas | None, broker: Metered, wanted: ClientQuotas) -> Quotas | None:
    """The new value of ``broker.quotas`` when the cluster's quotas have changed to these."""
    if all(entity[0][0] == IP for entity in wanted):
        if quotas is not None:
            quotas.end_pauses()
        return None
    quotas = quotas or Quotas(broker)
    quotas.clients.change(wanted)
    return quotas


class Mutations:
    """Counts the partitions that one request creates or deletes, against its client's quota.

    If the count is strict, partitions that exceed the quota are refused (KIP-599). Otherwise the
    client only has to wait.
    """

    def __init__(self, quotas: Quotas, meter: BucketMeter, *, is_strict: bool) -> None:
        self._quotas = quotas
        self._meter = meter
        self._is_strict = is_strict
        self._taken = 0
        self._is_beyond = False

    def start_decision(self) -> None:
        """Begin a decision, or begin it again: the count of the former try is taken back."""
        self._meter.take_tokens(-self._taken, self._quotas.steady_ms())
        self._taken = 0
        self._is_beyond = False

    def count_partitions(self, partitions: int) -> None:
        """Count partitions; KafkaError (THROTTLING_QUOTA_EXCEEDED)."""
        now_ms = self._quotas.steady_ms()
        if self._is_strict and self._meter.wait_ms(now_ms):
            self._is_beyond = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        assert partitions >= 0, partitions  # only ``start_decision`` gives tokens back
        self._meter.take_tokens(partitions, now_ms)
        self._taken += partitions

    def wait_ms(self) -> int:
        """How long the client has to wait; after a strict request only if it was refused."""
        if self._is_strict and not self._is_beyond:
            return 0
        return self._meter.wait_ms(self._quotas.steady_ms())


def mutations_of(
    quotas: Quotas | None, principal: Principal, client_id: str | None, *, is_strict: bool
) -> Mutations | None:
    """The counter for the partitions of a request; None for a client without such a quota."""
    meter = None if quotas is None else quotas.of(principal, client_id).mutation
    if quotas is None or meter is None:
        return None
    return Mutations(quotas, meter, is_strict=is_strict)
