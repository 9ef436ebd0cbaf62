"""The deadlines of all requests that wait for a change or for replicas: one heap, one task.

Rules:

- The task sleeps until the earliest deadline. A discarded change stays in the heap until its
  deadline, or until discarded changes are the greater part of the heap.
- The heap holds a change once. If a discarded change is added while the heap still holds it, the
  change counts as not discarded.
"""

import heapq
import math
from typing import Any, Protocol

import trio

KEPT = 64
"""The heap may keep this many discarded changes, however few other changes it holds."""


class Timed(Protocol):
    """A ``Change`` or ``Acks``; ``is_timed`` says whether the heap holds it."""

    deadline_s: float
    is_timed: bool
    sleeper: Any

    def time_is_up(self) -> None:
        """Note that the deadline has passed."""


class Deadlines:
    """Tells each change when its deadline has passed; ``run`` has to run."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._number = 0  # makes entries distinct, so the heap never compares two changes
        self._discarded = 0
        self._sleep = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, change: Timed) -> None:
        """Tell this change when its deadline has passed."""
        if change.is_timed:
            self._discarded -= 1
            return
        change.is_timed = True
        self._number += 1
        heapq.heappush(self._heap, (change.deadline_s, self._number, change))
        if self._sleep.deadline > change.deadline_s:
            self._sleep.deadline = change.deadline_s

    def discard(self, change: Timed) -> None:
        """Forget this change, because no request waits for it any more."""
        is_kept = change.sleeper is not None and change.is_timed
        change.sleeper = None
        if not is_kept:
            return
        self._discarded += 1
        if self._discarded * 2 > len(self._heap) + KEPT:
            heap = []
            for entry in self._heap:
                if entry[2].sleeper is None:
                    entry[2].is_timed = False
                else:
                    heap.append(entry)
            heapq.heapify(heap)
            self._heap = heap
            self._discarded = 0

    async def run(self) -> None:
        """Tell each change at its deadline, forever."""
        while True:
            self._tell(trio.current_time())
            next_s = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=next_s) as self._sleep:
                await trio.sleep_forever()

    def _tell(self, now_s: float) -> None:
        heap = self._heap
        while heap and (heap[0][0] <= now_s or heap[0][2].sleeper is None):
            change = heapq.heappop(heap)[2]
            change.is_timed = False
            if change.sleeper is None:
                self._discarded -= 1
            else:
                change.time_is_up()
