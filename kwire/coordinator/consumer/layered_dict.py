"""A dictionary that is copied in the time that its latest changes take, however large it is.

Rules:

- Below is a dictionary that never changes, which copies share. Changes lie above it.
- When there are many changes, a copy or a look at all items makes a new dictionary of both. So a
  change costs a constant time on average.
- Items have no order.
"""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

CHANGES_ABOVE = 256
_ABSENT: Any = object()
_REMOVED: Any = object()


class LayeredDict(MutableMapping[K, V], Generic[K, V]):
    """The dictionary; ``copy`` and ``frozen`` are quick."""

    __slots__ = ("_below", "_changes", "_size")

    def __init__(self) -> None:
        self._below: dict[K, V] = {}
        self._changes: dict[K, V] = {}
        self._size = 0

    def copy(self) -> "LayeredDict[K, V]":
        """A copy that changes by itself."""
        if len(self._changes) > CHANGES_ABOVE:
            self.frozen()
        other = LayeredDict[K, V]()
        other._below, other._changes, other._size = self._below, dict(self._changes), self._size
        return other

    def frozen(self) -> Mapping[K, V]:
        """The items as they are now; later changes don't touch what this returns."""
        if self._changes:
            merged = self._below | self._changes
            removed = [key for key, value in self._changes.items() if value is _REMOVED]
            for key in removed:
                del merged[key]
            self._below, self._changes = merged, {}
        return self._below

    def __getitem__(self, key: K) -> V:
        value: V = self._changes.get(key, _ABSENT)
        if value is _ABSENT:
            return self._below[key]
        if value is _REMOVED:
            raise KeyError(key)
        return value

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V, /) -> V: ...
    @overload
    def get(self, key: K, default: D, /) -> V | D: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        """The value, or the default: as for any mapping, without an exception on the way."""
        value: Any = self._changes.get(key, _ABSENT)
        if value is _ABSENT:
            return self._below.get(key, default)
        return default if value is _REMOVED else value

    def __contains__(self, key: object) -> bool:
        changes: dict[Any, V] = self._changes
        if key in changes:
            return changes[key] is not _REMOVED
        return key in self._below

    def __setitem__(self, key: K, value: V) -> None:
        changes = self._changes
        if changes.get(key, _REMOVED) is _REMOVED:
            self._size += key in changes or key not in self._below
        changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._size -= 1
        if key in self._below:
            self._changes[key] = _REMOVED
        else:
            del self._changes[key]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self.frozen())

    def values(self) -> ValuesView[V]:
        """The values as they are now."""
        return self.frozen().values()

    def items(self) -> ItemsView[K, V]:
        """The items as they are now."""
        return self.frozen().items()
