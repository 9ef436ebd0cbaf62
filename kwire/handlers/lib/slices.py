"""Loops over long lists in slices of the event loop, in handlers of ``at_once_or_later``.

A loop with expensive elements counts each element: ``if work.spend(9): await
later(work.next_slice)``. If the elements are cheap, counting each would cost as much as the
element. Such a loop uses ``pieces``.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

from kwire.budget.work import Work
from kwire.handlers.lib.waiting import later

PIECE = 100

CHARACTERS_PER_UNIT = 12
"""How many characters of a group's or a transaction's id are hashed in one unit."""

_T = TypeVar("_T")
_R = TypeVar("_R")
_K = TypeVar("_K", bound=Hashable)


def pieces(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """A list in pieces of at most ``PIECE``; a short list is one piece, itself."""
    if len(items) <= PIECE:
        yield items
        return
    for start in range(0, len(items), PIECE):
        yield items[start : start + PIECE]


async def distinct(items: Sequence[_K], work: Work) -> dict[_K, None]:
    """The distinct elements of a list, in order; usable until the request is answered."""
    found: dict[_K, None] = {}
    for piece in pieces(items):
        if work.spend(len(piece) // 8):
            await later(work.next_slice)
        found.update(dict.fromkeys(piece))
    free_in_slices(found, work)
    return found


async def each(
    make: Callable[[_T], _R], items: Sequence[_T], work: Work, units: int = 1
) -> list[_R]:
    """``make(item)`` for every item, in order; each costs so many units."""
    made: list[_R] = []
    for piece in pieces(items):
        if work.spend(1 + units * len(piece)):
            await later(work.next_slice)
        made += [make(item) for item in piece]
    return made


async def apart(
    is_wanted: Callable[[_T], bool], items: Sequence[_T], work: Work
) -> tuple[list[_T], list[_T]]:
    """The items that are wanted, and the others."""
    wanted: list[_T] = []
    others: list[_T] = []
    for piece in pieces(items):
        if len(items) > PIECE and work.spend(len(piece) // 4):
            await later(work.next_slice)
        for item in piece:
            (wanted if is_wanted(item) else others).append(item)
    return wanted, others


async def in_slices(parts: Iterable[int], work: Work) -> None:
    """Do a generator's work, which yields the units of each piece before it begins the piece."""
    for units in parts:
        if work.spend(units):
            await later(work.next_slice)


async def in_order(names: Iterable[str], work: Work) -> list[list[str]]:
    """Names in sorted lists, for ``heapq.merge``: one sort of very many would take too long."""
    parts = []
    for piece in pieces(list(names)):
        if work.spend(len(piece) // 4):
            await later(work.next_slice)
        parts.append(sorted(piece))
    return parts


def free_in_slices(items: Sized, work: Work) -> None:
    """Have a long list, dict or set freed in slices, after a large response has been encoded."""
    if len(items) > PIECE:
        work.doomed.append(items)


def id_units(text: str) -> int:
    """The cost of finding the coordinator of a group or a transactional id, in units."""
    return len(text) // CHARACTERS_PER_UNIT
