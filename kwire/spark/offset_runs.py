"""Sets of offsets of one partition, kept as runs: a million offsets in a row are one run.

Rules:

- Runs ascend and don't touch. Each takes 16 bytes, so that the worst case, every other offset of a
  million records, stays below 10 MB.
- An added run must not begin before the run that was added last. Logs, sinks and names of files all
  give their offsets in that order.
"""

from array import array
from collections.abc import Iterable, Iterator
from heapq import merge


class OffsetRuns:
    """A set of offsets; iterating gives its runs as ``(first, end)``, ends exclusive."""

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self.count = 0
        """How many offsets there are."""
        for first, end in runs:
            self.add(first, end)

    def add(self, first: int, end: int) -> int:
        """Add the offsets ``first`` to ``end - 1``; returns how many of them were there already."""
        if not self._starts or first > self._ends[-1]:
            if first < end:
                self._starts.append(first)
                self._ends.append(end)
                self.count += end - first
            return 0
        if first < self._starts[-1]:
            raise ValueError(f"offset {first} comes after {self._starts[-1]}")
        last = self._ends[-1]
        if end > last:
            self._ends[-1] = end
            self.count += end - last
        return max(0, min(end, last) - first)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRuns) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetRuns({list(self)})"

    @property
    def first(self) -> int:
        """The first offset; IndexError if there is none."""
        return self._starts[0]

    @property
    def end(self) -> int:
        """The offset after the last; IndexError if there is none."""
        return self._ends[-1]

    def minus(self, other: "OffsetRuns") -> "OffsetRuns":
        """The offsets of this set that aren't in the other."""
        left = OffsetRuns()
        others = iter(other)
        hole = next(others, None)
        for first, end in self:
            while hole is not None and hole[1] <= first:
                hole = next(others, None)
            while hole is not None and hole[0] < end:
                left.add(first, hole[0])
                first = hole[1]
                if first >= end:
                    break
                hole = next(others, None)
            left.add(first, end)
        return left

    def both(self, other: "OffsetRuns") -> "OffsetRuns":
        """The offsets that are in this set and in the other."""
        return self.minus(self.minus(other))

    def within(self, first: int, end: int) -> "OffsetRuns":
        """The offsets of this set from ``first`` to ``end - 1``."""
        return self.both(OffsetRuns([(first, end)]))


def count_repeats(offsets: Iterable[int]) -> tuple[OffsetRuns, OffsetRuns, int]:
    """Ascending offsets as a set, the set of repeated offsets, and the number of repetitions.

    ValueError if the offsets don't ascend.
    """
    found, doubled = OffsetRuns(), OffsetRuns()
    repeats = 0
    first = end = -1
    for offset in offsets:
        if offset == end:
            end += 1
            continue
        if offset == end - 1:
            repeats += 1
            doubled.add(offset, offset + 1)
            continue
        if offset < end:
            raise ValueError(f"offset {offset} comes after {end - 1}")
        found.add(first, end)
        first, end = offset, offset + 1
    found.add(first, end)
    return found, doubled, repeats


def union(sets: Iterable[OffsetRuns]) -> tuple[OffsetRuns, OffsetRuns, int]:
    """As ``count_repeats``, for sets: all offsets, those in several sets, and how many too many.

    An offset that is in three sets is two too many.
    """
    found, doubled = OffsetRuns(), OffsetRuns()
    repeats = 0
    for first, end in merge(*sets):
        again = found.add(first, end)
        if again:
            repeats += again
            doubled.add(first, first + again)
    return found, doubled, repeats
