"""The interval until a member's next heartbeat: short while its group is unsettled.

Rules:

- Members get their assignments in the answers to their heartbeats. After a change in the group,
  members get short intervals, so that the group settles quickly. The longer ago the last change,
  the longer the interval, up to the interval of the settings. So a group that never settles causes
  no more work than a settled group.
- The more members a group has, the longer is their shortest interval. So the heartbeats of a group
  stay below a fixed rate, whatever its size.
- Extra heartbeats come out of two budgets, the group's and the broker's. A group that changes all
  the time soon gets the interval of the settings like any other group.

Kafka always hands out the interval of the settings (5 s), so that a group there takes two or three
intervals to settle.
"""

SHORTEST_MS = 100
"""The shortest interval that a member gets."""

GROUP_RATE_PER_S = 200
"""The most heartbeats per second that a whole group is asked for."""

CALM_FACTOR = 3
"""The interval is the time since the last change, divided by this."""

_MEMBER_BURST = 40
_MEMBER_RATE_PER_S = 1.0
_BROKER_BURST = 4_000
_BROKER_RATE_PER_S = 1_000


class TokenBucket:
    """A token bucket: a burst at once, and a rate in the long run; both may differ at each call."""

    __slots__ = ("_since_ms", "_spent")

    def __init__(self) -> None:
        self._spent = 0.0
        self._since_ms = 0

    def take_token(self, burst: float, rate_per_s: float, now_ms: int) -> bool:
        """Take one token, if one is left."""
        passed_ms = max(0, now_ms - self._since_ms)
        self._since_ms = now_ms
        self._spent = max(0.0, self._spent - passed_ms * rate_per_s / 1000)
        if self._spent + 1 > burst:
            return False
        self._spent += 1
        return True


class BrokerHeartbeats:
    """The heartbeats of a broker: the extra heartbeats of all its groups."""

    def __init__(self) -> None:
        self._bucket = TokenBucket()

    def take_token(self, now_ms: int) -> bool:
        """Take one heartbeat, if one is left."""
        return self._bucket.take_token(_BROKER_BURST, _BROKER_RATE_PER_S, now_ms)


class HeartbeatInterval:
    """The interval that members of one group are given; it is short after a change."""

    __slots__ = ("_bucket", "_changed_ms")

    def __init__(self) -> None:
        self._bucket = TokenBucket()
        self._changed_ms: int | None = None

    def start_anew(self, now_ms: int) -> None:
        """Note that the group has changed."""
        self._changed_ms = now_ms

    def next_ms(
        self, members: int, configured_ms: int, broker: BrokerHeartbeats, now_ms: int
    ) -> int:
        """The interval until a member's next heartbeat; ``configured_ms`` is the settings' one."""
        if self._changed_ms is None:
            return configured_ms
        soon_ms = max(
            SHORTEST_MS,
            members * 1000 // GROUP_RATE_PER_S,
            (now_ms - self._changed_ms) // CALM_FACTOR,
        )
        if soon_ms >= configured_ms:
            return configured_ms
        burst, rate = members * _MEMBER_BURST, members * _MEMBER_RATE_PER_S
        if self._bucket.take_token(burst, rate, now_ms) and broker.take_token(now_ms):
            return soon_ms
        return configured_ms
