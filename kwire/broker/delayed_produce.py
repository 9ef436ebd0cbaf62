"""Acknowledgements by all in-sync replicas, which Produce requests with acks=all wait for.

Rules:

- A waiting request has one ``DelayedProduce``, with a slot for each partition that it waits for.
  The leader of a partition settles the partition's slot. After the last slot, or at the deadline,
  the request is answered.
- A partition has one ``DelayedProduceQueue``: the offsets that requests wait for. A batch is
  acknowledged when the high watermark has passed its last offset.
- A request leaves the queues early if its deadline is over or its client has gone. Its entries are
  removed later, when such entries are the greater part of a queue.
"""

import math
from bisect import bisect_right
from collections import deque
from operator import itemgetter

from kwire.broker.delayed import Delayed
from kwire.errors import ErrorCode

KEPT = 64
"""A queue may always keep this many entries of requests that have stopped waiting."""

SIZE = 3
"""The place of an answer to a producer among the woken connections.

A consumer that waits for the record has less to look at, so the poller serves it before the
producer. Of many such consumers, the poller serves only the first few before the producer, so that
the producer doesn't wait for all of them.
"""


class DelayedProduce(Delayed):
    """The acknowledgements that one request waits for.

    When ``is_set`` is true, ``errors`` has the error of each slot that has failed.
    """

    __slots__ = ("_waits", "errors")

    def __init__(self, deadline_s: float = math.inf) -> None:
        super().__init__(deadline_s, SIZE)
        self.is_set = True
        self.errors: dict[int, ErrorCode] = {}
        self._waits: dict[int, DelayedProduceQueue] = {}

    def start_waiting_in(self, slot: int, queue: "DelayedProduceQueue") -> None:
        """Wait in this queue too. Only the queue calls this."""
        assert slot not in self._waits, slot  # one partition, one wait
        self.is_set = False
        self._waits[slot] = queue

    def done(self, slot: int, error: ErrorCode | None = None) -> None:
        """Settle one slot: the partition's records are acknowledged, or have failed."""
        if self._waits.pop(slot, None) is None:
            return
        if error is not None:
            self.errors[slot] = error
        if not self._waits:
            self.set()

    def time_is_up(self) -> None:
        """End the wait at the deadline: slots that are still open get REQUEST_TIMED_OUT."""
        if self._waits:
            for slot in self._waits:
                self.errors[slot] = ErrorCode.REQUEST_TIMED_OUT
            self.give_up()
            self.is_late = True
            if self.sleeper is not None:
                self.sleeper.wake(self.size)

    def give_up(self) -> None:
        """Stop waiting, because nobody needs the answer any more."""
        waits, self._waits = self._waits, {}
        self.is_set = True
        for queue in waits.values():
            queue.leave()

    def waits_at(self, slot: int) -> bool:
        """Whether this slot is still open."""
        return slot in self._waits


class DelayedProduceQueue:
    """The requests that wait for one partition, ordered by the offsets that they wait for."""

    __slots__ = ("_entries", "_gone")

    def __init__(self) -> None:
        self._entries: deque[tuple[int, DelayedProduce, int]] = deque()
        self._gone = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def waiting(self) -> int:
        """How many requests still wait; those that gave up aren't counted."""
        return len(self._entries) - self._gone

    def wait(self, offset: int, produce: DelayedProduce, slot: int) -> None:
        """Call ``produce.done(slot)`` when the high watermark has reached ``offset``."""
        produce.start_waiting_in(slot, self)
        entries = self._entries
        at = len(entries)
        if entries and entries[-1][0] > offset:  # a batch sent again has its first time's offset
            at = bisect_right(entries, offset, key=itemgetter(0))
        entries.insert(at, (offset, produce, slot))

    def reach(self, high_watermark: int, error: ErrorCode | None = None) -> None:
        """Settle all slots that wait for offsets up to the high watermark."""
        entries = self._entries
        while entries and entries[0][0] <= high_watermark:
            _, produce, slot = entries.popleft()
            self._settle_slot(produce, slot, error)

    def fail(self, error: ErrorCode) -> None:
        """Settle all slots with an error."""
        entries, self._entries = self._entries, deque()
        self._gone = 0
        for _, produce, slot in entries:
            produce.done(slot, error)

    def leave(self) -> None:
        """Count an entry of a request that has stopped waiting."""
        self._gone += 1
        if self._gone * 2 > len(self._entries) + KEPT:
            self._entries = deque(entry for entry in self._entries if entry[1].waits_at(entry[2]))
            self._gone = 0

    def _settle_slot(self, produce: DelayedProduce, slot: int, error: ErrorCode | None) -> None:
        if produce.waits_at(slot):
            produce.done(slot, error)
        else:
            self._gone -= 1
            assert self._gone >= 0, self._gone  # ``waiting`` would count too many
