"""The deadlines of all requests that wait for a change or for replicas: one heap, one task.

Rules:

- The task sleeps until the earliest deadline. A discarded change stays in the heap until its
  deadline, or until discarded changes are the greater part of the heap.
- The heap holds a change once. If a discarded change is added while the heap still holds it, the
  change counts as not discarded.
- If a deadline becomes sooner, the heap also holds the change with its former deadline, as an entry
  that counts as discarded.
"""

import heapq
import math

import trio

from kwire.broker.delayed import Delayed

KEPT = 64
"""The heap may keep this many discarded changes, however few other changes it holds."""


class Deadlines:
    """Calls ``time_is_up`` of each change at its deadline; ``run`` has to run."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Delayed]] = []
        self._number = 0  # makes entries distinct, so the heap never compares two changes
        self._discarded = 0
        self._sleep = trio.CancelScope()
        self.soonest_s = math.inf
        """The time until which the task sleeps."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, change: Delayed) -> None:
        """Call ``time_is_up`` of this change at its deadline, unless it is discarded before."""
        if change.is_timed:
            self._discarded -= 1
            return
        change.is_timed = True
        deadline_s = change.deadline_s
        self._number += 1
        heapq.heappush(self._heap, (deadline_s, self._number, change))
        if self.soonest_s > deadline_s:
            self._sleep.deadline = self.soonest_s = deadline_s

    def hasten(self, change: Delayed) -> None:
        """Follow a change whose ``deadline_s`` is sooner now. Ignore a change that wasn't added."""
        if change.is_timed:
            change.is_timed = False
            self.add(change)
            self._discarded += 1

    def discard(self, change: Delayed) -> None:
        """Forget this change, because no request waits for it any more."""
        is_kept = change.sleeper is not None and change.is_timed
        change.sleeper = None
        if not is_kept:
            return
        self._discarded += 1
        if self._discarded * 2 > len(self._heap) + KEPT:
            heap = []
            for entry in self._heap:
                if entry[2].sleeper is not None:
                    if entry[0] == entry[2].deadline_s:
                        heap.append(entry)
                elif entry[0] == entry[2].deadline_s:
                    entry[2].is_timed = False
            heapq.heapify(heap)
            self._heap = heap
            self._discarded = 0

    async def run(self) -> None:
        """Call ``time_is_up`` of each change at its deadline, forever."""
        while True:
            self._call_due_changes(trio.current_time())
            self.soonest_s = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=self.soonest_s) as self._sleep:
                await trio.sleep_forever()

    def _call_due_changes(self, now_s: float) -> None:
        heap = self._heap
        while heap and (heap[0][0] <= now_s or heap[0][2].sleeper is None):
            deadline_s, _, change = heapq.heappop(heap)
            if deadline_s != change.deadline_s:
                self._discarded -= 1
                continue
            change.is_timed = False
            if change.sleeper is None:
                self._discarded -= 1
            else:
                change.time_is_up()
