"""Loops over long lists in slices of the event loop, in handlers of ``at_once_or_later``.

A loop with expensive elements gives way before each of them: ``await give_way(work)``. If the
elements are cheap, a look at the clock for each would cost as much as the element. Such a loop uses
``pieces``.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

from kwire.budget.work import Work
from kwire.handlers.lib.waiting import later

PIECE = 100
"""So many cheap elements take some tens of microseconds."""

_T = TypeVar("_T")
_R = TypeVar("_R")
_K = TypeVar("_K", bound=Hashable)


async def give_way(work: Work) -> None:
    """Wait for the next slice if this one is over."""
    if work.is_due:
        await later(work.next_slice)


def pieces(items: Sequence[_T], most: int | None = None) -> Iterator[Sequence[_T]]:
    """A list in pieces of at most ``most`` elements or ``PIECE``; a short list is one, itself."""
    most = most or PIECE
    if len(items) <= most:
        yield items
        return
    for start in range(0, len(items), most):
        yield items[start : start + most]


async def distinct(items: Sequence[_K], work: Work) -> dict[_K, None]:
    """The distinct elements of a list, in order; usable until the request is answered."""
    found: dict[_K, None] = {}
    for piece in pieces(items):
        await give_way(work)
        found.update(dict.fromkeys(piece))
    free_in_slices(found, work)
    return found


async def each(make: Callable[[_T], _R], items: Sequence[_T], work: Work) -> list[_R]:
    """``make(item)`` for every item, in order."""
    made: list[_R] = []
    for piece in pieces(items):
        await give_way(work)
        made += [make(item) for item in piece]
    return made


async def apart(
    is_wanted: Callable[[_T], bool], items: Sequence[_T], work: Work
) -> tuple[list[_T], list[_T]]:
    """The items that are wanted, and the others."""
    wanted: list[_T] = []
    others: list[_T] = []
    for piece in pieces(items):
        await give_way(work)
        for item in piece:
            (wanted if is_wanted(item) else others).append(item)
    return wanted, others


async def in_slices(parts: Iterable[None], work: Work) -> None:
    """Do a generator's work, which yields before each piece."""
    for _ in parts:
        await give_way(work)


async def in_order(names: Iterable[str], work: Work) -> list[list[str]]:
    """Names in sorted lists, for ``heapq.merge``: one sort of very many would take too long."""
    parts = []
    for piece in pieces(list(names)):
        await give_way(work)
        parts.append(sorted(piece))
    return parts


def free_in_slices(items: Sized, work: Work) -> None:
    """Have a long list, dict or set freed in slices, after a large response has been encoded."""
    if len(items) > PIECE:
        work.doomed.append(items)
