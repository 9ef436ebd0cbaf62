"""The quotas of each client on one broker: the quota that applies, and how much of it is used.

Rules:

- If several quotas match a client, the most specific one applies, for each key separately. The
  order is: user with client id, user with any client id, user, any user with client id, any user
  with any client id, any user, client id, any client id.
- All connections of a user share the user's quota, whatever client ids they name. If a quota names
  a client id, or any client id, the connections with one client id share it.
- A meter counts what all clients that share a quota have used. A meter that was not used for
  ``IDLE_MS`` is dropped. If a key has more than ``MOST`` meters, those with the oldest use are
  dropped; there are never twice as many as ``MOST``.
- A client chooses its client id, which may have 32 KB. For an id of more than ``LONGEST``
  characters, only a digest is stored.
- A new value of a quota applies at once, also to what its clients have used before.

Source: ClientQuotaManager, DefaultQuotaCallback of Kafka; KIP-13, KIP-55, KIP-124, KIP-599.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from kwire.metadata.quotas import (
    CLIENT_ID,
    FETCH_RATE,
    MUTATION_RATE,
    NONE,
    PRODUCE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotas,
    QuotaEntity,
)
from kwire.quotas.rates import MOST_MS, Bucket, Rate, Window

IDLE_MS = 3_600_000
"""Kafka's InactiveSensorExpirationTimeSeconds."""

MOST = 10_000
LONGEST = 256

Names = tuple[str, str]
"""A user and a client id; empty if the quota doesn't distinguish them."""


class RateMeter:
    """The rate of all clients that share a quota, and their limit. No wait is longer than
    ``most_ms``.
    """

    __slots__ = ("counter", "limit", "most_ms", "used_ms")

    def __init__(self, window: Window, limit: float, now_ms: int, most_ms: int = MOST_MS) -> None:
        self.counter = Rate(window, now_ms)
        self.limit = limit
        self.used_ms = now_ms
        self.most_ms = most_ms

    def use(self, value: float, now_ms: int) -> int:
        """Count a use; return how many ms the client has to wait."""
        self.used_ms = now_ms
        self.counter.record(value, now_ms)
        return min(self.counter.wait_ms(self.limit, now_ms), self.most_ms)

    @property
    def most_at_once(self) -> float:
        """The amount that the limit allows in all full windows.

        More at once would mean a long wait.
        """
        window = self.counter.window
        return self.limit * (window.samples - 1) * window.size_ms / 1000


class BucketMeter:
    """The token bucket of all clients that share a quota, and their limit."""

    __slots__ = ("counter", "limit", "used_ms")

    def __init__(self, window: Window, limit: float, now_ms: int) -> None:
        self.counter = Bucket(window, limit, now_ms)
        self.limit = limit
        self.used_ms = now_ms

    def take_tokens(self, tokens: float, now_ms: int) -> None:
        """Take tokens, or give them back."""
        self.used_ms = now_ms
        self.counter.take_tokens(tokens, self.limit, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """How long to wait until the bucket gives tokens again."""
        return self.counter.wait_ms(self.limit, now_ms)


class OwnQuotas(NamedTuple):
    """The meters that apply to one client; None for a key without a quota."""

    produce: RateMeter | None
    fetch: RateMeter | None
    request: RateMeter | None
    mutation: BucketMeter | None


_Meter = TypeVar("_Meter", bound=RateMeter | BucketMeter)


class Meters(Generic[_Meter]):
    """The meters of one key, by the names that share each. The meter with the oldest use comes
    first.
    """

    def __init__(self, key: str, make: Callable[[float, int], _Meter]) -> None:
        self._key = key
        self._make: Callable[[float, int], _Meter] = make
        self.known: OrderedDict[Names, _Meter] = OrderedDict()

    def of(self, quotas: ClientQuotas, user: str, client_id: str, now_ms: int) -> _Meter | None:
        """The meter of a client, with its present limit; None without a quota."""
        found = limit_of(quotas, self._key, user, client_id)
        if found is None:
            return None
        names, limit = _kept(found[0]), found[1]
        meter = self.known.get(names)
        if meter is None:
            meter = self.known[names] = self._make(limit, now_ms)
        else:
            self.known.move_to_end(names)
        meter.limit = limit
        return meter

    def forget(self, now_ms: int) -> None:
        """Forget idle meters, and if there are too many, the tenth of them used longest ago."""
        if len(self.known) > MOST:
            in_order = sorted(self.known, key=lambda names: self.known[names].used_ms)
            for names in in_order[: len(in_order) - MOST + MOST // 10]:
                del self.known[names]
        idle = [names for names, one in self.known.items() if now_ms - one.used_ms >= IDLE_MS]
        for names in idle:
            del self.known[names]


class Clients:
    """The quotas of all clients of one broker."""

    def __init__(self, window: Window, mutation_window: Window) -> None:
        def percentage(limit: float, now_ms: int) -> RateMeter:
            return RateMeter(window, limit, now_ms, window.size_ms)

        def rate(limit: float, now_ms: int) -> RateMeter:
            return RateMeter(window, limit, now_ms)

        self._quotas: ClientQuotas = {}
        self._produce = Meters(PRODUCE_RATE, rate)
        self._fetch = Meters(FETCH_RATE, rate)
        self._request = Meters(REQUEST_PERCENTAGE, percentage)
        self._mutation = Meters(
            MUTATION_RATE, lambda limit, now_ms: BucketMeter(mutation_window, limit, now_ms)
        )
        self._known: dict[Names, OwnQuotas] = {}
        self._swept_ms = 0

    def change(self, quotas: ClientQuotas) -> None:
        """Take new quotas."""
        self._quotas = quotas
        self._known.clear()

    @property
    def names(self) -> set[Names]:
        """Whose quotas or meters are kept; long names are shortened."""
        meters = (self._produce, self._fetch, self._request, self._mutation)
        return set(self._known).union(*(kept.known for kept in meters))

    def of(self, user: str, client_id: str, now_ms: int) -> OwnQuotas:
        """The quotas of a client; called for each request."""
        own = self._known.get((user, client_id))
        if own is None or now_ms - self._swept_ms >= IDLE_MS // 10:
            own = self._find(user, client_id, now_ms)
        return own

    def _find(self, user: str, client_id: str, now_ms: int) -> OwnQuotas:
        if len(self._known) >= MOST or now_ms - self._swept_ms >= IDLE_MS // 10:
            self._known.clear()
            self._swept_ms = now_ms
            for meters in (self._produce, self._fetch, self._request, self._mutation):
                meters.forget(now_ms)
        asked = self._quotas, user, client_id, now_ms
        own = self._known[_kept((user, client_id))] = OwnQuotas(
            self._produce.of(*asked),
            self._fetch.of(*asked),
            self._request.of(*asked),
            self._mutation.of(*asked),
        )
        return own


def _kept(names: Names) -> Names:
    """The names under which a meter is stored."""
    user, client_id = names
    if len(client_id) <= LONGEST:
        return names
    import hashlib

    return user, hashlib.sha256(client_id.encode()).hexdigest()


def limit_of(
    quotas: ClientQuotas, key: str, user: str, client_id: str
) -> tuple[Names, float] | None:
    """The quota that applies to a client: the names that share it, and its value; or None."""
    both, only_user, only_client = (user, client_id), (user, ""), ("", client_id)
    for entity, names in (
        (((CLIENT_ID, client_id), (USER, user)), both),
        (((CLIENT_ID, None), (USER, user)), both),
        (((USER, user),), only_user),
        (((CLIENT_ID, client_id), (USER, None)), both),
        (((CLIENT_ID, None), (USER, None)), both),
        (((USER, None),), only_user),
        (((CLIENT_ID, client_id),), only_client),
        (((CLIENT_ID, None),), only_client),
    ):
        limit = _value(quotas, entity, key)
        if limit is not None:
            return names, limit
    return None


def _value(quotas: ClientQuotas, entity: QuotaEntity, key: str) -> float | None:
    values: Mapping[str, float] = quotas.get(entity, NONE)
    return values.get(key)
