"""The client quotas in force on this broker, and who waits because of them.

Rules:

- A broker has this only while the cluster has quotas of users or client ids. Without any, a request
  costs one look at an attribute.
- Each broker counts what it serves itself, so a quota of a cluster counts once for each broker.
- A client that waits holds no task. Its connection isn't read until its time is over, the last
  quota is removed, or the broker stops.

Source: QuotaFactory.QuotaManagers of Kafka; KIP-13, KIP-219.
"""

from typing import TYPE_CHECKING, Protocol

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.quotas import IP, ClientQuotas
from kwire.quotas.clients import BucketMeter, Clients, OwnQuotas
from kwire.quotas.rates import Window
from kwire.security.principal import Principal

if TYPE_CHECKING:
    from kwire.broker.broker import Broker


class Pausing(Protocol):
    """The end of a client's wait."""

    def set(self) -> None:
        """End it."""


class Quotas:
    """What clients of one broker have used, and what they may.

    - ``pauses``: the waits of clients that are on.
    - ``throttled``: how many requests had to be followed by a wait, by the kind of quota.
    - ``throttled_ms``: how long these waits were together.
    """

    def __init__(self, broker: "Broker") -> None:
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
        self.throttled = broker.tally.throttled
        self.throttled_ms = broker.tally.throttled_ms

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

        Returns how many ms it has to wait, and whether it gets them all the same. It does if it has
        used nothing: a batch may be larger than all that the quota ever allows at once.
        """
        meter = self.of(principal, client_id).fetch
        if meter is None:
            return 0, True
        now_ms = self.steady_ms()
        is_first = meter.counter.measure(now_ms)[0] <= 0
        wait_ms = meter.use(size_bytes, now_ms)
        if wait_ms and not is_first:
            meter.counter.record(-size_bytes, now_ms)
            return wait_ms, False
        return wait_ms, True

    def note(self, kind: str, wait_ms: int) -> None:
        """Note that a client has to wait."""
        self.throttled[kind] += 1
        self.throttled_ms[kind] += wait_ms

    def end_pauses(self) -> None:
        """Let all clients go on."""
        for pause in list(self.pauses):
            pause.set()


def followed(quotas: Quotas | None, broker: "Broker", wanted: ClientQuotas) -> Quotas | None:
    """What ``broker.quotas`` is when the cluster has these quotas, which are others than before."""
    if all(entity[0][0] == IP for entity in wanted):
        if quotas is not None:
            quotas.end_pauses()
        return None
    quotas = quotas or Quotas(broker)
    quotas.clients.change(wanted)
    return quotas


class Mutations:
    """The partitions that one request creates or deletes, counted for its client's quota.

    A strict one refuses what goes beyond (KIP-599); otherwise the client only has to wait.
    """

    def __init__(self, quotas: Quotas, meter: BucketMeter, *, is_strict: bool) -> None:
        self._quotas = quotas
        self._meter = meter
        self._is_strict = is_strict
        self._taken = 0
        self._is_beyond = False

    def begin(self) -> None:
        """Begin to decide, or again: what the former decision has taken is given back."""
        self._meter.take(-self._taken, self._quotas.steady_ms())
        self._taken = 0
        self._is_beyond = False

    def take(self, partitions: int) -> None:
        """Count partitions; KafkaError (THROTTLING_QUOTA_EXCEEDED)."""
        now_ms = self._quotas.steady_ms()
        if self._is_strict and self._meter.wait_ms(now_ms):
            self._is_beyond = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        self._meter.take(partitions, now_ms)
        self._taken += partitions

    def wait_ms(self) -> int:
        """How long the client has to wait: a strict request only if something was refused."""
        if self._is_strict and not self._is_beyond:
            return 0
        return self._meter.wait_ms(self._quotas.steady_ms())


def mutations_of(
    broker: "Broker", principal: Principal, client_id: str | None, *, is_strict: bool
) -> Mutations | None:
    """What counts the partitions of a request; None for a client without such a quota."""
    quotas = broker.quotas
    meter = None if quotas is None else quotas.of(principal, client_id).mutation
    if quotas is None or meter is None:
        return None
    return Mutations(quotas, meter, is_strict=is_strict)
