"""The deadlines of a consumer group: of its members, the next assignment, and long work.

Rules:

- Times aren't kept in records. After a restart every member has a whole session to send a request,
  and its whole rebalance timeout to give partitions back.
- A member that is away, or was removed, has no timers.

``SESSION``: a member has to send a request. ``REBALANCE``: it has to give partitions back. ``JOIN``
and ``SYNC``: a member of the classic protocol has to join again, or to ask for its assignment.
"""

import heapq
from enum import Enum
from typing import NamedTuple


class Timer(Enum):
    """A member's task with a deadline; the value is the reason for the removal of a late member."""

    SESSION = "its session has ended"
    REBALANCE = "it did not give its partitions back in time"
    JOIN = "it did not join again in time"
    SYNC = "it did not sync in time"


class Due(NamedTuple):
    """A timer that has run out; ``epoch`` is the member's when it was set, -1 for any epoch."""

    member_id: str
    timer: Timer
    epoch: int


class Assigning(NamedTuple):
    """An assignment that a job computes, for an epoch and its members.

    ``overtaken`` counts the assignments in a row before it during which the group has changed.
    """

    epoch: int
    member_ids: frozenset[str]
    overtaken: int


class GroupTimers:
    """The timers of one group; ``assignment_ms`` is the time of the next assignment.

    ``assigning`` is set while a job computes an assignment, ``is_matching`` while a job matches
    regular expressions.
    """

    __slots__ = ("_heap", "_queued", "_set", "assigning", "assignment_ms", "is_matching")

    def __init__(self) -> None:
        self._set: dict[tuple[str, Timer], tuple[int, int]] = {}
        # Of a timer's entries in the heap, the one in ``_queued`` counts. It is never too late.
        self._heap: list[tuple[int, str, str]] = []
        self._queued: dict[tuple[str, Timer], int] = {}
        self.assignment_ms: int | None = None
        self.assigning: Assigning | None = None
        self.is_matching = False

    def set(self, member_id: str, timer: Timer, deadline_ms: int, epoch: int = -1) -> None:
        """Start a timer, or start it anew."""
        key = (member_id, timer)
        self._set[key] = (deadline_ms, epoch)
        if key not in self._queued or deadline_ms < self._queued[key]:
            self._queue(key, deadline_ms)
        assert self._queued[key] <= deadline_ms, key  # or the heap would name it too late

    def _queue(self, key: tuple[str, Timer], deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key[0], key[1].name))

    def set_if_absent(self, member_id: str, timer: Timer, deadline_ms: int) -> None:
        """Start a timer unless it runs."""
        if (member_id, timer) not in self._set:
            self.set(member_id, timer, deadline_ms)

    def cancel(self, member_id: str, *timers: Timer) -> None:
        """Stop timers of a member; all timers if none is named."""
        for timer in timers or tuple(Timer):
            self._set.pop((member_id, timer), None)

    def deadline_ms(self, member_id: str, timer: Timer) -> int | None:
        """The deadline of a timer; None if it doesn't run."""
        known = self._set.get((member_id, timer))
        return None if known is None else known[0]

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of the group."""
        first = self._first()
        if self.assignment_ms is None or (first is not None and first <= self.assignment_ms):
            return first
        return self.assignment_ms

    def _first(self) -> int | None:
        """The earliest deadline; entries of the heap that are too early are corrected here."""
        while self._heap:
            deadline_ms, member_id, name = self._heap[0]
            key = (member_id, Timer[name])
            known = self._set.get(key)
            is_queued = self._queued.get(key) == deadline_ms
            if is_queued and known is not None and known[0] <= deadline_ms:
                return deadline_ms
            heapq.heappop(self._heap)
            if is_queued:
                del self._queued[key]
                if known is not None:
                    self._queue(key, known[0])
        return None

    def take_due(self, now_ms: int) -> Due | None:
        """Remove and return one timer that has run out."""
        first = self._first()
        if first is None or first > now_ms:
            return None
        _, member_id, name = heapq.heappop(self._heap)
        key = (member_id, Timer[name])
        del self._queued[key]
        return Due(member_id, key[1], self._set.pop(key)[1])
