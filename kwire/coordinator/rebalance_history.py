"""The latest events of groups and their reasons, for ``kwire groups explain``.

Rules: the history keeps the last ``EVENTS_KEPT`` events of a group, for the ``GROUPS_KEPT`` groups
with the most recent events, even if these groups are gone. A restart clears the history; the
broker's log has every event.
"""

from collections import deque
from typing import NamedTuple

EVENTS_KEPT = 32
GROUPS_KEPT = 1_000
MAX_TEXT_LENGTH = 400


class GroupEvent(NamedTuple):
    """An event of a group; the time is in ms since the epoch.

    An event of a share group's records names the topic, which not everybody may see.
    """

    at_ms: int
    text: str
    topic: str = ""


class RebalanceHistory:
    """The events of groups."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, deque[GroupEvent]] = {}

    def add_event(self, group_id: str, event: GroupEvent) -> None:
        """Add an event of a group."""
        events = self._groups.pop(group_id, None)
        if events is None:
            events = deque(maxlen=EVENTS_KEPT)
            if len(self._groups) >= GROUPS_KEPT:
                del self._groups[next(iter(self._groups))]
        if len(event.text) > MAX_TEXT_LENGTH:
            event = event._replace(text=event.text[:MAX_TEXT_LENGTH])
        events.append(event)
        self._groups[group_id] = events

    def events_of(self, group_id: str) -> list[GroupEvent]:
        """The events of a group, the oldest first."""
        return list(self._groups.get(group_id, ()))
