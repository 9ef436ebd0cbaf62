"""Decides how long a rebalance waits for members that the group doesn't know yet.

Rules:

- The first rebalance of an empty group waits ``group.initial.rebalance.delay.ms``. The wait is
  repeated while members join, up to the rebalance timeout, as in Kafka.
- If that delay is 0, the rebalance waits only for announced clients. A client asks for the
  coordinator of its group before it joins, and so announces itself. The wait ends when no client
  has been heard for ``QUIET_MS``, or a longer time while announced clients are missing. A client
  that is alone doesn't wait. Without this rule, the first client would rebalance alone, and would
  learn of the others with its next heartbeat: after 3 s.
- After that, the rebalance waits a moment for members that have just got an id to join with.
- A group that has rebalanced ``CALM_AFTER`` times within ``CALM_WITHIN_MS`` waits ``CALM_MS`` each
  time. So members that join, leave and resubscribe all the time don't keep the broker busy: their
  changes during the wait become one generation.
"""

from typing import Any

from kwire.coordinator.effects import Turn

QUIET_MS = 60
"""A group that is being formed counts as complete after this time without a sign of a client."""

MISSING_MS = 150
"""The same time while fewer clients have joined than were announced."""

MOSTLY_MISSING_MS = 250
"""The same time while fewer than half of the announced clients have joined."""

QUIET_AT_MOST_MS = 1_000
"""The longest time for which clients that keep coming delay the first ones."""

PENDING_JOIN_GRACE_MS = 250
"""How long the first generation waits for members that have just got an id."""

ANNOUNCED_FOR_MS = 2_000
"""How long after its question for the coordinator a client is expected to join."""

ANNOUNCED_AT_MOST = 256
"""How many announced clients are kept for a group, and for how many groups."""

CALM_AFTER = 20
CALM_WITHIN_MS = 10_000
CALM_MS = 500


class RebalanceDelay:
    """The delay of one rebalance; at ``deadline_ms`` the caller asks ``is_over`` again.

    ``extension_ms`` is the time by which a newcomer extends the wait when it ends. With None, each
    sign of a client starts the quiet time anew.
    """

    __slots__ = ("_awaits_pending", "_has_newcomer", "_last_ms", "deadline_ms", "extension_ms")

    def __init__(
        self, now_ms: int, first_ms: int, at_most_ms: int, extension_ms: int | None
    ) -> None:
        self.deadline_ms = now_ms + first_ms
        self.extension_ms = extension_ms
        self._last_ms = now_ms + at_most_ms
        self._has_newcomer = False
        self._awaits_pending = False

    def record_newcomer(self, now_ms: int, announced: int, known: int) -> None:
        """A client has joined or asked; of ``announced`` clients ``known`` have come."""
        self._has_newcomer = True
        if self.extension_ms is None and not self._awaits_pending:
            self.deadline_ms = min(now_ms + _quiet_ms(announced, known), self._last_ms)

    def is_over(self, now_ms: int, *, has_pending: bool) -> bool:
        """Whether the rebalance may complete; if not, the caller asks again at the deadline."""
        if now_ms < self.deadline_ms:
            return self._awaits_pending and not has_pending
        if self._awaits_pending:
            return True
        if self.extension_ms and self._has_newcomer and now_ms < self._last_ms:
            self._has_newcomer = False
            self.deadline_ms = min(now_ms + self.extension_ms, self._last_ms)
            assert now_ms < self.deadline_ms, (now_ms, self.deadline_ms)  # it waits once more
            return False
        if has_pending:
            self._awaits_pending = True
            self.deadline_ms = now_ms + PENDING_JOIN_GRACE_MS
            return False
        return True


def _quiet_ms(announced: int, known: int) -> int:
    """The quiet time to wait; ``announced`` counts connections, and some clients use two.

    So two connections may belong to one client. It shouldn't wait long if no other client comes.
    """
    if announced <= 1:
        return 0
    if announced <= max(known, 2):
        return QUIET_MS
    return MOSTLY_MISSING_MS if announced > 2 * known else MISSING_MS


def initial_delay(turn: Turn, rebalance_timeout_ms: int, announced: int) -> RebalanceDelay:
    """The wait of an empty group's first rebalance, with this many announced connections."""
    delay_ms = min(turn.settings.initial_rebalance_delay_ms, rebalance_timeout_ms)
    if delay_ms > 0:
        return RebalanceDelay(turn.now_ms, delay_ms, rebalance_timeout_ms, delay_ms)
    quiet_ms = _quiet_ms(announced, 1)
    return RebalanceDelay(turn.now_ms, quiet_ms, QUIET_AT_MOST_MS if quiet_ms else 0, None)


class RebalanceRate:
    """A group's recent rebalances, which show a group that never settles."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: list[int] = []

    def delay_if_busy(self, now_ms: int) -> RebalanceDelay | None:
        """Count a rebalance that begins; return its delay if the group is too busy."""
        times = self._times
        is_busy = len(times) == CALM_AFTER and now_ms - times[0] < CALM_WITHIN_MS
        times.append(now_ms)
        del times[:-CALM_AFTER]
        return RebalanceDelay(now_ms, CALM_MS, CALM_MS, 0) if is_busy else None


class AnnouncedClients:
    """The clients that have asked for a group's coordinator, and may be about to join."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[str, dict[int, int]] = {}

    def record_lookup(self, group_id: str, connection_id: int, now_ms: int) -> None:
        """Remember that a connection has asked for the coordinator of a group."""
        asked = self._asked.pop(group_id, {})
        asked.pop(connection_id, None)
        _make_room(asked)
        _make_room(self._asked)
        asked[connection_id] = now_ms
        self._asked[group_id] = asked
        assert max(len(asked), len(self._asked)) <= ANNOUNCED_AT_MOST, group_id

    def count_connections(self, group_id: str, now_ms: int) -> int:
        """How many connections have asked within the last ``ANNOUNCED_FOR_MS``."""
        asked = self._asked.get(group_id, {})
        return sum(now_ms - at_ms < ANNOUNCED_FOR_MS for at_ms in asked.values())


def _make_room(remembered: dict[Any, Any]) -> None:
    """Drop the oldest entry if there are ``ANNOUNCED_AT_MOST``."""
    if len(remembered) >= ANNOUNCED_AT_MOST:
        del remembered[next(iter(remembered))]
