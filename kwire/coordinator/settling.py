"""How long a rebalance waits for more members than it knows of.

Rules:

- The first rebalance of an empty group waits ``group.initial.rebalance.delay.ms``, again and again
  while members come, up to the rebalance timeout, as Kafka's does.
- Where that delay is 0 it waits only if others are announced: a client asks for the coordinator of
  its group before it joins, so that clients which start together are known to come. Then it waits
  until nothing has been heard for ``QUIET_MS``, or longer while some are still missing. A client
  that is alone waits for nobody. Without this, whoever is first rebalances alone, and learns of
  the others with its next heartbeat: 3 s.
- After that it waits a moment for those who have been given an id and are about to join with it.
- A group that has rebalanced ``CALM_AFTER`` times within ``CALM_WITHIN_MS`` waits ``CALM_MS`` each
  time, so that members which come, go and change their minds all the time don't keep the broker
  busy: what they want meanwhile becomes one generation.
"""

from typing import Any

from kwire.coordinator.effects import Turn

QUIET_MS = 60
"""How long nothing is heard before a group that is being formed counts as complete."""

MISSING_MS = 150
"""The same while fewer have come than have asked."""

MOSTLY_MISSING_MS = 250
"""The same while fewer have come than half of those."""

QUIET_AT_MOST_MS = 1_000
"""How long clients that keep coming hold up those who came first."""

PENDING_JOIN_GRACE_MS = 250
"""How long the first generation waits for members that have just been given an id."""

ANNOUNCED_FOR_MS = 2_000
"""How long after its question for the coordinator a client is expected to join."""

ANNOUNCED_AT_MOST = 256
"""How many clients that asked are remembered of a group, and of how many groups."""

CALM_AFTER = 20
CALM_WITHIN_MS = 10_000
CALM_MS = 500


class Settling:
    """One rebalance that waits for others; ``deadline_ms`` is when ``is_over`` says more.

    ``extension_ms`` is by how much a newcomer prolongs it, at the end of the present wait; None
    where each sign of life starts the quiet time anew.
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

    def note_newcomer(self, now_ms: int, announced: int, known: int) -> None:
        """Somebody has come or asked; so many have asked, and so many of those are known."""
        self._has_newcomer = True
        if self.extension_ms is None and not self._awaits_pending:
            self.deadline_ms = min(now_ms + _quiet_ms(announced, known), self._last_ms)

    def is_over(self, now_ms: int, *, has_pending: bool) -> bool:
        """Whether the rebalance may complete; otherwise it is to be asked again by the deadline."""
        if now_ms < self.deadline_ms:
            return self._awaits_pending and not has_pending
        if self._awaits_pending:
            return True
        if self.extension_ms and self._has_newcomer and now_ms < self._last_ms:
            self._has_newcomer = False
            self.deadline_ms = min(now_ms + self.extension_ms, self._last_ms)
            return False
        if has_pending:
            self._awaits_pending = True
            self.deadline_ms = now_ms + PENDING_JOIN_GRACE_MS
            return False
        return True


def _quiet_ms(announced: int, known: int) -> int:
    """How long it has to be quiet; ``announced`` counts connections, of which some clients use two.

    So two may be one client, which doesn't have to wait long for nobody.
    """
    if announced <= 1:
        return 0
    if announced <= max(known, 2):
        return QUIET_MS
    return MOSTLY_MISSING_MS if announced > 2 * known else MISSING_MS


def first_rebalance(turn: Turn, rebalance_timeout_ms: int, announced: int) -> Settling:
    """What the first rebalance of an empty group waits for: so many have asked to join it."""
    delay_ms = min(turn.settings.initial_rebalance_delay_ms, rebalance_timeout_ms)
    if delay_ms > 0:
        return Settling(turn.now_ms, delay_ms, rebalance_timeout_ms, delay_ms)
    quiet_ms = _quiet_ms(announced, 1)
    return Settling(turn.now_ms, quiet_ms, QUIET_AT_MOST_MS if quiet_ms else 0, None)


class Pace:
    """When a group has rebalanced lately, to tell one that never comes to rest."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: list[int] = []

    def note_rebalance(self, now_ms: int) -> Settling | None:
        """A rebalance begins: what it has to wait for, if the group is too busy."""
        times = self._times
        is_busy = len(times) == CALM_AFTER and now_ms - times[0] < CALM_WITHIN_MS
        times.append(now_ms)
        del times[:-CALM_AFTER]
        return Settling(now_ms, CALM_MS, CALM_MS, 0) if is_busy else None


class Announcements:
    """Which clients have asked for the coordinator of a group, and may be about to join it."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[str, dict[int, int]] = {}

    def note(self, group_id: str, connection_id: int, now_ms: int) -> None:
        """A connection asked for the coordinator of a group."""
        asked = self._asked.pop(group_id, {})
        asked.pop(connection_id, None)
        _make_room(asked)
        _make_room(self._asked)
        asked[connection_id] = now_ms
        self._asked[group_id] = asked

    def count(self, group_id: str, now_ms: int) -> int:
        """How many connections asked a moment ago."""
        asked = self._asked.get(group_id, {})
        return sum(now_ms - at_ms < ANNOUNCED_FOR_MS for at_ms in asked.values())


def _make_room(remembered: dict[Any, Any]) -> None:
    """Forget the oldest entry when there are enough."""
    if len(remembered) >= ANNOUNCED_AT_MOST:
        del remembered[next(iter(remembered))]
