"""How soon a member is to be heard again: soon while its group is unsettled.

Rules:

- Members learn what they have to do from the answers to their heartbeats. While something changes
  in the group they are asked to come soon, so that the group settles in moments; the longer nothing
  has changed, the rarer, until it is as the settings say. So a group that never settles is no more
  work than one that has.
- The more members, the longer the shortest interval: a group sends so many heartbeats a second at
  most, whatever its size.
- Extra heartbeats come out of two budgets, of the group and of the broker. One that changes all the
  time soon gets the interval of the settings like any other.

Kafka always hands out the interval of the settings (5 s), so that a group there takes two or three
of these to settle.
"""

SHORTEST_MS = 100
"""No member is asked to come sooner."""

GROUP_RATE_PER_S = 200
"""How many heartbeats a second a whole group is asked for at most."""

CALM_FACTOR = 3
"""A heartbeat is asked for after a third of the time since something changed."""

_MEMBER_BURST = 40
_MEMBER_RATE_PER_S = 1.0
_BROKER_BURST = 4_000
_BROKER_RATE_PER_S = 1_000


class Budget:
    """So many at once, and so many a second in the long run; both may be others each time."""

    __slots__ = ("_since_ms", "_spent")

    def __init__(self) -> None:
        self._spent = 0.0
        self._since_ms = 0

    def take(self, burst: float, rate_per_s: float, now_ms: int) -> bool:
        """Take one, if one is left."""
        passed_ms = max(0, now_ms - self._since_ms)
        self._since_ms = now_ms
        self._spent = max(0.0, self._spent - passed_ms * rate_per_s / 1000)
        if self._spent + 1 > burst:
            return False
        self._spent += 1
        return True


class BrokerBudget:
    """The extra heartbeats of all groups of a broker."""

    def __init__(self) -> None:
        self._budget = Budget()

    def take(self, now_ms: int) -> bool:
        """Take one, if one is left."""
        return self._budget.take(_BROKER_BURST, _BROKER_RATE_PER_S, now_ms)


class Pace:
    """The pace of one group."""

    __slots__ = ("_budget", "_changed_ms")

    def __init__(self) -> None:
        self._budget = Budget()
        self._changed_ms: int | None = None

    def has_changed(self, now_ms: int) -> None:
        """Something happened to the group."""
        self._changed_ms = now_ms

    def interval_ms(self, members: int, settled_ms: int, broker: BrokerBudget, now_ms: int) -> int:
        """When a member is to come again; ``settled_ms`` is what the settings say."""
        if self._changed_ms is None:
            return settled_ms
        soon_ms = max(
            SHORTEST_MS,
            members * 1000 // GROUP_RATE_PER_S,
            (now_ms - self._changed_ms) // CALM_FACTOR,
        )
        if soon_ms >= settled_ms:
            return settled_ms
        burst, rate = members * _MEMBER_BURST, members * _MEMBER_RATE_PER_S
        if self._budget.take(burst, rate, now_ms) and broker.take(now_ms):
            return soon_ms
        return settled_ms
