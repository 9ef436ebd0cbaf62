"""Finds the fewest of many things that still make something fail: delta debugging (Zeller)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(
    things: Sequence[T], fails: Callable[[Sequence[T]], bool], has_time: Callable[[], bool]
) -> list[T]:
    """The things that are left when no single one can be left out any more, or time is up.

    All are left out first, then halves, quarters and so on down to single ones, the first ones
    first: what happened last has most to do with a failure. ``fails`` says whether it still fails
    with these things alone; it does with all of them.
    """
    kept, size = list(things), len(things)
    while kept:
        before, start = len(kept), 0
        while start < len(kept):
            if not has_time():
                return kept
            rest = [*kept[:start], *kept[start + size :]]
            if fails(rest):
                kept = rest
            else:
                start += size
        if size == 1 and len(kept) == before:
            break
        size = (min(size, len(kept)) + 1) // 2
    return kept
