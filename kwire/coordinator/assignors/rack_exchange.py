"""Exchanges partitions between racks, until as many as possible are where a replica is.

Rules:

- A rack ends with as many partitions as it began with.
- Nothing moves unless that brings more partitions near: who is served best already keeps all.
- A partition stands for those with its index in all topics that are to be shared out alike; it
  counts once for each of them that has a replica in the rack.
- With dozens of racks the search ends early: what was won until then stays.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

_Worth = tuple[int, ...]
"""How many of the partitions of one index are near, by the number of the rack they would be in."""

_MOST_STEPS = 5_000_000
"""What looking for rings may cost, at the cube of the racks each: a broker has more to do."""


def exchange(held: Sequence[Sequence[int]], worths: Sequence[_Worth]) -> list[list[int]]:
    """The indexes each rack is to hold, in order, from those it holds and what each is worth.

    As long as there is a ring of racks that wins when each passes a partition on to the next, they
    do so; once there is none, no other distribution of these sizes has more partitions near.
    """
    held_by_worth: list[dict[_Worth, list[int]]] = []
    for indexes in held:
        alike: dict[_Worth, list[int]] = {}
        for index in indexes:
            alike.setdefault(worths[index], []).append(index)
        held_by_worth.append(alike)
    offers = _offers(held_by_worth, range(len(held)))
    for _ in range(_MOST_STEPS // len(held) ** 3):
        ring = _winning_ring(offers, len(held))
        if not ring:
            break
        _pass_on(held_by_worth, [(*link, offers[link]) for link in ring])
        offers.update(_offers(held_by_worth, [giver for giver, _ in ring]))
    return [sorted(chain.from_iterable(alike.values())) for alike in held_by_worth]


def _offers(
    held: Sequence[dict[_Worth, list[int]]], givers: Iterable[int]
) -> dict[tuple[int, int], _Worth]:
    """The kind of partition that each giver best passes on to each taker, by their numbers."""
    return {
        (giver, taker): max(held[giver], key=lambda worth: (worth[taker] - worth[giver], worth))
        for giver in givers
        for taker in range(len(held))
        if held[giver] and giver != taker
    }


def _winning_ring(offers: dict[tuple[int, int], _Worth], racks: int) -> list[tuple[int, int]]:
    """Givers and takers around a ring that wins, if there is one; by Bellman and Ford's method."""
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
    """Move as many partitions around a ring as every giver has of its kind."""
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
