"""Acknowledgements by all in-sync replicas, which Produce requests with acks=all wait for.

Rules:

- A waiting request has one ``Acks``, with a slot for each partition that it waits for. The leader
  of a partition settles the partition's slot. After the last slot, or at the deadline, ``Acks``
  wakes the code that answers the request. A waiting request needs no task and no event.
- A partition has one ``AckQueue``: the offsets that requests wait for. A batch is acknowledged when
  the high watermark has passed its last offset.
- A request leaves the queues early if its deadline is over or its client has gone. Its entries are
  removed later, when such entries are the greater part of a queue.
"""

import math
from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import Protocol

from kwire.errors import ErrorCode

KEPT = 64
"""A queue may always keep this many entries of requests that have stopped waiting."""

SIZE = 3
"""The place of an answer to a producer among the woken connections.

A consumer that waits for the record has less to look at, so the poller serves it before the
producer. Of many such consumers, the poller serves only the first few before the producer, so that
the producer doesn't wait for all of them.
"""


class Sleeper(Protocol):
    """The code that answers a request when its acknowledgements are complete."""

    def wake(self, size: int) -> None:
        """Answer the request; called once. ``size`` is how much there is to look at then."""


class Acks:
    """The acknowledgements that one request waits for.

    A handler awaits it like a ``Change``. When ``is_set`` is true, ``errors`` has the error of each
    slot that has failed. ``deadline_s`` is a time on trio's clock; ``kwire.connection.deadlines``
    watches it.
    """

    __slots__ = (
        "_waits",
        "deadline_s",
        "errors",
        "is_late",
        "is_timed",
        "size",
        "sleeper",
    )

    def __init__(self, deadline_s: float = math.inf) -> None:
        self.deadline_s = deadline_s
        self.size = SIZE
        self.is_late = False
        self.is_timed = False
        self.sleeper: Sleeper | None = None
        self.errors: dict[int, ErrorCode] = {}
        self._waits: dict[int, AckQueue] = {}

    @property
    def is_set(self) -> bool:
        """Whether all slots are settled."""
        return not self._waits

    def begin(self, slot: int, queue: "AckQueue") -> None:
        """Wait in this queue too. Only the queue calls this."""
        self._waits[slot] = queue

    def done(self, slot: int, error: ErrorCode | None = None) -> None:
        """Settle one slot: the partition's records are acknowledged, or have failed."""
        if self._waits.pop(slot, None) is None:
            return
        if error is not None:
            self.errors[slot] = error
        if not self._waits:
            self._wake()

    def time_is_up(self) -> None:
        """End the wait at the deadline: slots that are still open get REQUEST_TIMED_OUT."""
        if self._waits:
            for slot in self._waits:
                self.errors[slot] = ErrorCode.REQUEST_TIMED_OUT
            self.give_up()
            self.is_late = True
            self._wake()

    def give_up(self) -> None:
        """Stop waiting, because nobody needs the answer any more."""
        waits, self._waits = self._waits, {}
        for queue in waits.values():
            queue.leave()

    def waits_at(self, slot: int) -> bool:
        """Whether this slot is still open."""
        return slot in self._waits

    def _wake(self) -> None:
        if self.sleeper is not None:
            self.sleeper.wake(self.size)


class AckQueue:
    """The requests that wait for one partition, ordered by the offsets that they wait for."""

    __slots__ = ("_entries", "_gone")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, Acks, int]] = deque()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def waiting(self) -> int:
        """How many requests still wait; those that gave up aren't counted."""
        return len(self._entries) - self._gone

    def wait(self, offset: int, acks: Acks, slot: int) -> None:
        """Call ``acks.done(slot)`` when the high watermark has reached ``offset``."""
        acks.begin(slot, self)
        entries = self._entries
        if (
            entries and entries[-1][0] > offset
        ):  # a batch that was sent again, and has the offset of the first time
            entries.insert(bisect_right(entries, offset, key=itemgetter(0)), (offset, acks, slot))
        else:
            entries.append((offset, acks, slot))

    def reach(self, high_watermark: int, error: ErrorCode | None = None) -> None:
        """Settle all slots that wait for offsets up to the high watermark."""
        entries = self._entries
        while entries and entries[0][0] <= high_watermark:
            _, acks, slot = entries.popleft()
            self._settle(acks, slot, error)

    def fail(self, error: ErrorCode) -> None:
        """Settle all slots with an error."""
        entries, self._entries = self._entries, deque()
        self._gone = 0
        for _, acks, slot in entries:
            acks.done(slot, error)

    def leave(self) -> None:
        """Count an entry of a request that has stopped waiting."""
        self._gone += 1
        if self._gone * 2 > len(self._entries) + KEPT:
            self._entries = deque(entry for entry in self._entries if entry[1].waits_at(entry[2]))
            self._gone = 0

    def _settle(self, acks: Acks, slot: int, error: ErrorCode | None) -> None:
        if acks.waits_at(slot):
            acks.done(slot, error)
        else:
            self._gone -= 1
