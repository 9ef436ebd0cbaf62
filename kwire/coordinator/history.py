"""What has happened to groups lately, and why: for people who ask.

Rules: the last ``EVENTS_KEPT`` events of a group are kept, of the ``GROUPS_KEPT`` groups that had
one most recently, also of groups that are gone. A restart forgets them; the log of the broker has
every one.
"""

from collections import deque
from typing import NamedTuple

EVENTS_KEPT = 32
GROUPS_KEPT = 1_000
MAX_TEXT_LENGTH = 400


class Event(NamedTuple):
    """Something that happened to a group; the time is in ms since the epoch."""

    at_ms: int
    text: str


class Histories:
    """The events of groups."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, deque[Event]] = {}

    def add(self, group_id: str, event: Event) -> None:
        """Something has happened to a group."""
        events = self._groups.pop(group_id, None)
        if events is None:
            events = deque(maxlen=EVENTS_KEPT)
            if len(self._groups) >= GROUPS_KEPT:
                del self._groups[next(iter(self._groups))]
        if len(event.text) > MAX_TEXT_LENGTH:
            event = event._replace(text=event.text[:MAX_TEXT_LENGTH])
        events.append(event)
        self._groups[group_id] = events

    def of(self, group_id: str) -> list[Event]:
        """The events of a group, the oldest first."""
        return list(self._groups.get(group_id, ()))
