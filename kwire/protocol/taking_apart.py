"""Large messages are taken apart in pieces, in a thread.

Python frees all objects of a message at once, when nothing refers to the message any more. For a
request of 60,000 elements this takes 5 to 10 ms, in which no other thread runs. So a thread removes
the elements a few at a time, and gives way to the event loop in between.

Rules:

- A list is emptied only if nothing but its message refers to it. Code that keeps a list of a
  request, such as a group that keeps its member's protocols, still has it whole. So have tuples,
  which nobody can empty.
- A message itself may be referred to: the caller knows that nobody reads it any more.
- The collector of cyclic garbage runs after every ``COLLECTED`` elements. It starts by itself when
  1,000 more objects were made than freed; while this thread frees old objects and other code makes
  new ones, that number stays small and the new objects become many. The collection that comes at
  last would then take 5 to 25 ms.
"""

import gc
import sys
from typing import Any

from kwire.protocol.types import ARRAY, STRUCT, MessageType

PIECE = 256
"""So many elements are freed at once, which takes some 30 microseconds."""

COLLECTED = 2048
"""After so many elements the young objects are collected, which takes some 200 microseconds."""


def take_apart(thing: Any) -> None:
    """Empty the lists of a message, and those of its parts; or a dict, a set or a list."""
    freed = _Freed()
    if isinstance(type(thing), MessageType):
        _empty_message(thing, freed)
    elif type(thing) is list:
        _empty_list(thing, freed)
    elif isinstance(thing, dict | set):
        while thing:
            thing.popitem() if isinstance(thing, dict) else thing.pop()
            freed.add(1)


class _Freed:
    """Counts the elements that are freed, and collects the young objects now and then."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        if self._count >= COLLECTED:
            self._count = 0
            if gc.isenabled():
                gc.collect(1)


def _empty_message(message: Any, freed: _Freed) -> None:
    for field in type(message).FIELDS:
        if field.kind is ARRAY:
            items = getattr(message, field.name)
            if type(items) is list and sys.getrefcount(items) <= _OF_A_FIELD:
                _empty_list(items, freed)
        elif field.kind is STRUCT:
            part = getattr(message, field.name)
            if part is not None and sys.getrefcount(part) <= _OF_A_FIELD:
                _empty_message(part, freed)


def _empty_list(items: list[Any], freed: _Freed) -> None:
    if items and not _has_parts(items[-1]):
        while items:
            del items[-PIECE:]
            freed.add(PIECE)
        return
    while items:
        message = items.pop()
        if sys.getrefcount(message) <= _OF_A_VARIABLE:
            _empty_message(message, freed)
        freed.add(1)


def _has_parts(item: Any) -> bool:
    kind = type(item)
    return isinstance(kind, MessageType) and any(one.kind in (ARRAY, STRUCT) for one in kind.FIELDS)


class _Holder:
    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[int] = [1]


def _references(holder: _Holder) -> tuple[int, int]:
    """What ``sys.getrefcount`` says of an object that only a field and a variable refer to.

    The second number is that of an object that only a variable refers to. Up to Python 3.13 they
    are 3 and 2; newer versions don't count every variable.
    """
    items = getattr(holder, "items")  # noqa: B009 - as ``_empty_message`` does it
    of_a_field = sys.getrefcount(items)
    holder.items = []
    return of_a_field, sys.getrefcount(items)


_OF_A_FIELD, _OF_A_VARIABLE = _references(_Holder())
