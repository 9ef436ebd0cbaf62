"""Loops over long lists in slices of the event loop, in handlers of ``at_once_or_later``.

A loop whose elements cost much counts each: ``if work.spend(9): await later(work.next_slice)``. If
an element costs little, counting would cost as much: such a loop takes ``pieces``.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from kwire.budget.work import Work
from kwire.handlers.waiting import later

PIECE = 100

CHARACTERS_PER_UNIT = 12
"""How many characters of a group's or a transaction's id are hashed in one unit."""

_T = TypeVar("_T")
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
    if len(found) > PIECE:
        work.doomed.append(found)
    return found


async def in_order(names: Iterable[str], work: Work) -> list[list[str]]:
    """Names in sorted lists, for ``heapq.merge``: one sort of very many would take too long."""
    parts = []
    for piece in pieces(list(names)):
        if work.spend(len(piece) // 4):
            await later(work.next_slice)
        parts.append(sorted(piece))
    return parts


def id_units(text: str) -> int:
    """The cost of finding the coordinator of a group or a transactional id, in units."""
    return len(text) // CHARACTERS_PER_UNIT
