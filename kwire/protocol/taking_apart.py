"""Large messages are taken apart in pieces.

Python frees all objects of a message at once, when nothing refers to the message any more. For a
request of 60,000 elements this takes 5 to 10 ms, in which the event loop serves no client. So
``take_apart`` removes the elements a few at a time, and yields in between.

Rules:

- A list is emptied only if nothing but its message refers to it. So code that keeps a list of a
  request, such as a group that keeps its member's protocols, still has the whole list. Tuples can't
  be emptied.
- With ``keeps`` a list keeps those of its messages to which other things refer. When those have
  been taken apart, the list is taken apart again.
- Other objects may refer to the message itself: the caller knows that no code reads it any more.
- The collector of cyclic garbage runs after every ``COLLECTED`` elements. It starts by itself when
  1,000 more objects were made than freed; while old objects are freed and other code makes new
  ones, that number stays small and the new objects become many. The next collection would then take
  5 to 25 ms.
"""

import gc
import sys
from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from kwire.protocol.types import ARRAY, STRUCT, MessageType

PIECE = 256
"""How many elements are freed at once, which takes some 30 microseconds."""

_WITH_PARTS = 32
"""An element with lists of its own costs as much as so many elements without lists."""

COLLECTED = 2048
"""After so many elements the young objects are collected, which takes some 200 microseconds."""


def collect_young() -> None:
    """Let the collector examine the young objects now; they are old afterwards.

    Code that makes a very long list out of old objects calls this while the list is short.
    Otherwise the collector examines every element of the young list, which takes 5 to 10 ms for
    200,000 elements.
    """
    if gc.isenabled():
        gc.collect(1)


def take_apart(item: Any, *, keeps: bool = False) -> Generator[None, None, None]:
    """Empty the lists of a message, and those of its parts; or a dict, a set or a list.

    It yields after each piece, which takes some 30 microseconds: ``PIECE`` elements, or as many
    elements with lists of their own as take the same time.
    """
    cost, freed = 0, 0
    for added, count in _emptied(item, keeps):
        cost += added
        freed += count
        if freed >= COLLECTED:
            freed = 0
            collect_young()
        if cost >= PIECE:
            cost = 0
            yield


_Step: TypeAlias = tuple[int, int]
"""The cost of a step in simple elements, and how many elements it removed."""


def _emptied(item: Any, keeps: bool) -> Iterator[_Step]:
    """Empty a thing, an element with parts or at most ``PIECE`` simple elements in each step."""
    if isinstance(type(item), MessageType):
        yield from _empty_message(item, keeps)
    elif type(item) is list:
        yield from _empty_list(item, keeps)
    elif isinstance(item, dict | set):
        pop = item.popitem if isinstance(item, dict) else item.pop
        while item:
            count = min(PIECE, len(item))
            for _ in range(count):
                pop()
            yield count, count


def _empty_message(message: Any, keeps: bool) -> Iterator[_Step]:
    for field in type(message).FIELDS:
        if field.kind is ARRAY:
            items = getattr(message, field.name)
            if type(items) is list and sys.getrefcount(items) <= _OF_A_FIELD:
                yield from _empty_list(items, keeps)
        elif field.kind is STRUCT:
            part = getattr(message, field.name)
            if part is not None and sys.getrefcount(part) <= _OF_A_FIELD:
                yield from _empty_message(part, keeps)


def _empty_list(items: list[Any], keeps: bool) -> Iterator[_Step]:
    if items and not _has_parts(items[-1]):
        while items:
            count = min(PIECE, len(items))
            del items[-PIECE:]
            yield count, count
        return
    kept = []
    while items:
        message = items.pop()
        if sys.getrefcount(message) <= _OF_A_VARIABLE:
            yield from _empty_message(message, keeps)
        elif keeps:
            kept.append(message)
        yield _WITH_PARTS, 1
    items += kept


def _has_parts(item: Any) -> bool:
    kind = type(item)
    return isinstance(kind, MessageType) and any(one.kind in (ARRAY, STRUCT) for one in kind.FIELDS)


class _Holder:
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[int] = [1]


def _references(holder: _Holder) -> tuple[int, int]:
    """The ``sys.getrefcount`` of an object to which only a field and a variable refer.

    The second number is that of an object that only a variable refers to. Up to Python 3.13 they
    are 3 and 2; newer versions don't count every variable.
    """
    items = getattr(holder, "items")  # noqa: B009 - as ``_empty_message`` does it
    of_a_field = sys.getrefcount(items)
    holder.items = []
    return of_a_field, sys.getrefcount(items)


_OF_A_FIELD, _OF_A_VARIABLE = _references(_Holder())
