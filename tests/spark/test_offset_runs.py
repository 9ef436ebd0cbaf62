"""Arithmetic of offsets as runs: equal to that of plain sets, in little memory."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.spark.offset_runs import OffsetRuns, count_repeats, union

offsets = st.lists(st.integers(0, 40), max_size=30)


def runs_of(numbers: list[int]) -> OffsetRuns:
    """A set of offsets, added one by one."""
    return OffsetRuns((one, one + 1) for one in sorted(numbers))


def plain(runs: OffsetRuns) -> set[int]:
    """The same as Python's set."""
    return {offset for first, end in runs for offset in range(first, end)}


@given(offsets, offsets)
def test_runs_are_sets(left: list[int], right: list[int]) -> None:
    """Difference, intersection and count are those of sets; runs never touch each other."""
    one, other = runs_of(left), runs_of(right)
    assert plain(one) == set(left)
    assert one.count == len(set(left))
    assert plain(one.minus(other)) == set(left) - set(right)
    assert plain(one.both(other)) == set(left) & set(right)
    assert one.minus(other).count == len(set(left) - set(right))
    assert plain(one.within(10, 20)) == set(left) & set(range(10, 20))
    edges = [edge for run in one for edge in run]
    assert edges == sorted(set(edges))


@given(offsets)
def test_repeats_are_counted(numbers: list[int]) -> None:
    """Every row beyond the first of an offset counts as one too many."""
    found, doubled, repeats = count_repeats(sorted(numbers))
    assert plain(found) == set(numbers)
    assert plain(doubled) == {one for one in numbers if numbers.count(one) > 1}
    assert repeats == len(numbers) - len(set(numbers))


@given(st.lists(offsets, max_size=4))
def test_union_counts_what_is_in_several_sets(lists: list[list[int]]) -> None:
    """Sets that overlap are found, and by how much."""
    found, doubled, repeats = union([runs_of(one) for one in lists])
    held = [offset for one in lists for offset in set(one)]
    assert plain(found) == set(held)
    assert plain(doubled) == {one for one in held if held.count(one) > 1}
    assert repeats == len(held) - len(set(held))


def test_a_million_offsets_are_one_run() -> None:
    """Memory grows with the number of runs, not with that of offsets."""
    found, doubled, repeats = count_repeats(range(5, 1_000_005))
    assert (list(found), list(doubled), repeats) == ([(5, 1_000_005)], [], 0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        holes = OffsetRuns((one, one + 1) for one in range(0, 20_000, 2))
        assert tracemalloc.get_traced_memory()[0] - before < 10_000 * 20
    finally:
        tracemalloc.stop()
    assert len(holes) == 10_000


def test_offsets_that_do_not_ascend_are_refused() -> None:
    """A sink that gives its offsets in another order would make every number wrong."""
    with pytest.raises(ValueError, match="offset 3 comes after"):
        count_repeats([5, 6, 3])
    with pytest.raises(ValueError, match="offset 1 comes after"):
        OffsetRuns([(5, 6), (1, 9)])
