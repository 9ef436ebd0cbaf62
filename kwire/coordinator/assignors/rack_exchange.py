"""Exchanges partitions between racks, until as many partitions as possible are near a replica.

Rules:

- Each rack ends with as many partitions as it began with.
- Partitions move only if then more of them are near a replica. So the best distribution doesn't
  change.
- A partition stands for all partitions with its index, in all topics that are shared out alike. It
  counts once for each topic that has a replica of this index in the rack.
- With dozens of racks the search ends early, and keeps what it has gained until then.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

_Worth = tuple[int, ...]
"""How many of the partitions of one index are near, by the number of the rack that holds them."""

MOST_STEPS = 5_000_000
"""The most steps of all searches for rings, to spare the broker; one search takes racks³ steps."""


def exchange(held: Sequence[Sequence[int]], worths: Sequence[_Worth]) -> list[list[int]]:
    """The indexes that each rack is to hold, in order, from the present ones and their worths.

    As long as a ring of racks gains by passing one partition each to the next rack, the racks of
    this ring do so. Without such a ring, no distribution of these sizes has more partitions near.
    """
    held_by_worth: list[dict[_Worth, list[int]]] = []
    for indexes in held:
        alike: dict[_Worth, list[int]] = {}
        for index in indexes:
            alike.setdefault(worths[index], []).append(index)
        held_by_worth.append(alike)
    offers = _offers(held_by_worth, range(len(held)))
    for _ in range(MOST_STEPS // len(held) ** 3):
        ring = _winning_ring(offers, len(held))
        if not ring:
            break
        _pass_on(held_by_worth, [(*link, offers[link]) for link in ring])
        offers.update(_offers(held_by_worth, [giver for giver, _ in ring]))
    return [sorted(chain.from_iterable(alike.values())) for alike in held_by_worth]


def _offers(
    held: Sequence[dict[_Worth, list[int]]], givers: Iterable[int]
) -> dict[tuple[int, int], _Worth]:
    """The best kind of partition for each giver to pass to each taker, by their numbers."""
    return {
        (giver, taker): max(held[giver], key=lambda worth: (worth[taker] - worth[giver], worth))
        for giver in givers
        for taker in range(len(held))
        if held[giver] and giver != taker
    }


def _winning_ring(offers: dict[tuple[int, int], _Worth], racks: int) -> list[tuple[int, int]]:
    """Givers and takers around a ring that gains, if one exists; by Bellman and Ford's method."""
    won = [0] * racks
    giver_to = [0] * racks
    last = None
    for _ in range(racks):
        last = None
        for (giver, taker), worth in offers.items():
            total = won[giver] + worth[taker] - worth[giver]
            if total > won[taker]:
                won[taker], giver_to[taker], last = total, giver, taker
        if last is None:
            return []
    if last is None:
        return []
    for _ in range(racks):
        last = giver_to[last]
    ring = [(giver_to[last], last)]
    while ring[-1][0] != last:
        ring.append((giver_to[ring[-1][0]], ring[-1][0]))
    return ring


def _pass_on(
    held: Sequence[dict[_Worth, list[int]]], moves: Sequence[tuple[int, int, _Worth]]
) -> None:
    """Move as many partitions around a ring as the poorest giver has of its kind."""
    count = min(len(held[giver][worth]) for giver, _, worth in moves)
    moved = []
    for giver, taker, worth in moves:
        indexes = held[giver][worth]
        moved.append((taker, worth, indexes[:count]))
        del indexes[:count]
        if not indexes:
            del held[giver][worth]
    for taker, worth, indexes in moved:
        held[taker].setdefault(worth, []).extend(indexes)
