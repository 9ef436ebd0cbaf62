"""Decides when the collector of cyclic garbage examines every object of a broker.

Reference counts free nearly everything at once. The collector only frees objects that refer to each
other in a circle. It examines new objects all the time, a few thousand in a turn, which takes a
fraction of a millisecond. Sometimes it has to examine old objects, too. All clients wait for such a
full collection: 90 to 170 ms in a broker with 4,000 topics.

Rules:

- Python never starts a full collection by itself. Its own rule counts the collections of new
  objects, so a client with large requests made it start one every 20 to 40 s.
- ``collect_rarely`` starts one if circles may hold memory: if the process has more objects than
  ``GROWTH`` and ``ROOM`` allow, in ``CHECKS_IN_A_ROW`` checks in a row. A large request keeps its
  objects for a shorter time than that.
- It also starts one if the last one is ``LONGEST_S`` ago, unless little has happened since.
"""

import gc
import sys
from collections import deque

import trio

YOUNG_THRESHOLDS = (1_000, 1)
"""Many small collections instead of few large ones, because all clients wait for a collection: one
of 3,000 objects takes 0.3 ms, one of 50,000 objects 5 to 9 ms. The second number is small because a
collection of the middle generation looks at all objects since the last one of its kind."""

NEVER = 2**31 - 1
"""How many collections of the middle generation come before Python's own full collection."""

CHECK_EVERY_S = 5.0
CHECKS_IN_A_ROW = 3
GROWTH = 0.25
ROOM = 2_000_000
"""The process may have ``GROWTH`` times as many objects more than after the last full collection,
and these. An object has some 80 bytes, so this many have about 160 MB. The fetch sessions that a
client opens and leaves have fewer: with room for 500,000 it made clients wait 225 ms."""

LONGEST_S = 3600.0
FEW = 1_000
"""After fewer collections of the middle generation than this, which is about two million objects, a
full collection isn't worth its time."""


def collect_young_only() -> None:
    """Switch the collector on, for new objects."""
    gc.set_threshold(*YOUNG_THRESHOLDS, NEVER)
    gc.enable()


async def collect_rarely() -> None:
    """Run full collections when they are due, until the task is canceled."""
    while True:
        await _wait_until_due()
        gc.collect()


async def _wait_until_due() -> None:
    """Wait until the next full collection is due."""
    allowed = sys.getallocatedblocks() * (1 + GROWTH) + ROOM
    longest = trio.current_time() + LONGEST_S
    seen: deque[int] = deque(maxlen=CHECKS_IN_A_ROW)
    while True:
        await trio.sleep(CHECK_EVERY_S)
        seen.append(sys.getallocatedblocks())
        if len(seen) == CHECKS_IN_A_ROW and min(seen) > allowed:
            return
        if trio.current_time() >= longest and gc.get_count()[2] >= FEW:
            return
