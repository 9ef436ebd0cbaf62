"""The deadlines of all requests that wait for a change: one heap, one task.

Rules:

- The task sleeps until the earliest deadline. Changes that were discarded stay in the heap until
  their time comes, or until they are the greater part of it.
- A change is in the heap once: one that is added while it is still there is discarded no more.
"""

import heapq
import math

import trio

from kwire.handlers.waiting import Change

KEPT = 64
"""So many that were discarded may stay, however few others there are."""


class Deadlines:
    """Tells changes when their time is up; ``run`` has to run."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Change]] = []
        self._number = 0  # no two entries are equal, so changes are never compared
        self._discarded = 0
        self._sleep = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, change: Change) -> None:
        """Tell a change when its time is up."""
        if change.is_timed:
            self._discarded -= 1
            return
        change.is_timed = True
        self._number += 1
        heapq.heappush(self._heap, (change.deadline_s, self._number, change))
        if self._sleep.deadline > change.deadline_s:
            self._sleep.deadline = change.deadline_s

    def discard(self, change: Change) -> None:
        """Don't, for nobody waits for it any more."""
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
        """Tell everyone in time, for ever."""
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
