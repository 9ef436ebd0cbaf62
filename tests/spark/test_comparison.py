"""What verify says of a sink, on synthetic logs: gaps, doubles, strangers, and what is neither."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.spark.batch import OffsetRange
from kwire.spark.comparison import BrokerOffsets, Compared, claims_of, compare
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.sink import Held

PLACE = ("orders", 0)


def runs(offsets: Iterable[int]) -> OffsetRuns:
    """Offsets as a set."""
    return OffsetRuns((one, one + 1) for one in sorted(offsets))


def rows(offsets: Iterable[int]) -> Held:
    """A sink that knows its rows' offsets."""
    held = sorted(offsets)
    where = OffsetRange(*PLACE, held[0], held[-1] + 1)
    return Held(where, iter(held), len(held))


def counted(first: int, end: int, number: int) -> Held:
    """A sink that knows how many rows a range has."""
    return Held(OffsetRange(*PLACE, first, end), None, number)


def compared(
    held: list[Held],
    records: Iterable[int],
    start: int = 0,
    end: int = 100,
    *,
    is_compacted: bool = False,
    dead: Iterable[int] = (),
    finished: int | None = None,
    skipped: Iterable[int] = (),
) -> Compared:
    """The outcome for one partition."""
    broker = BrokerOffsets(runs(records), start, end, is_compacted, runs(skipped))
    return compare(PLACE, claims_of(held)[PLACE], broker, runs(dead), finished)


def test_a_skipped_tombstone_may_have_a_row_or_none() -> None:
    """A table may have rows of tombstones from the time when they weren't skipped."""
    for held in (rows({0, 1, 3}), rows({0, 1, 2, 3}), counted(0, 4, 3), counted(0, 4, 4)):
        found = compared([held], {0, 1, 3}, end=4, skipped={2})
        assert found.is_exact
        assert found.broker == 3
    assert compared([rows({0, 2, 3})], {0, 1, 3}, end=4, skipped={2}).gaps == 1
    assert compared([counted(0, 4, 2)], {0, 1, 3}, end=4, skipped={2}).gaps == 1
    assert compared([counted(0, 4, 5)], {0, 1, 3}, end=4, skipped={2}).doubles == 1


def test_each_record_once_is_exact() -> None:
    """Offsets of markers and aborted records, which the broker doesn't show, are no gaps."""
    records = set(range(100)) - {10, 20, 30, 31}
    found = compared([rows(records)], records)
    assert found.is_exact
    assert (found.broker, found.sink) == (96, 96)


@given(
    st.lists(st.integers(0, 30), min_size=1),
    st.sets(st.integers(0, 30)),
    st.sets(st.integers(0, 40)),
)
def test_counts_are_those_of_plain_sets(held: list[int], records: set[int], dead: set[int]) -> None:
    """Gaps, doubles and strangers are counted as sets of Python would count them."""
    found = compared([rows(held)], records, dead=dead)
    claimed = {one for one in records if min(held) <= one <= max(held)}
    assert found.gaps == len(claimed - set(held) - dead)
    assert found.doubles == len(held) - len(set(held))
    assert found.strangers == len(set(held) - records)


def test_a_dead_letter_carries_its_record() -> None:
    """A record among the dead letters is no gap; one that is nowhere is."""
    found = compared([rows([0, 1, 5])], range(6), dead=[2, 3])
    assert (found.gaps, found.dead_letters) == (1, 2)
    assert found.examples["gaps"] == [(4, 5)]


def test_what_a_running_batch_has_not_written_yet_is_no_gap() -> None:
    """Only what was finished before the sink was read can be missing; doubles are always wrong."""
    held = rows([*range(10), 12, 15, 15])
    found = compared([held], range(20), finished=10)
    assert (found.gaps, found.unfinished, found.doubles) == (0, 4, 1)
    found = compared([rows([*range(8), 9, 12])], range(20), finished=10)
    assert (found.gaps, found.unfinished) == (1, 2)
    found = compared([counted(0, 10, 9), counted(10, 20, 8)], range(20), finished=10)
    assert (found.gaps, found.examples["gaps"]) == (1, [(0, 10)])


def test_a_row_of_an_aborted_record_is_a_stranger() -> None:
    """A sink that has read uncommitted records holds what consumers never see."""
    found = compared([rows(range(10))], set(range(10)) - {4, 5})
    assert (found.strangers, found.gaps, found.is_exact) == (2, 0, False)
    assert found.examples["strangers"] == [(4, 6)]


def test_what_compaction_has_removed_is_neither_gap_nor_stranger() -> None:
    """The sink keeps older records of a key; the broker has the last one only."""
    found = compared([rows(range(50))], [7, 49], is_compacted=True)
    assert found.is_exact
    assert (found.broker, found.compacted) == (2, 48)


def test_a_compacted_topic_has_gaps_all_the_same() -> None:
    """A record that compaction has kept must be in the sink."""
    found = compared([rows([0, 1, 9])], [1, 7, 9], is_compacted=True)
    assert (found.gaps, found.compacted) == (1, 1)


def test_rows_before_the_log_start_cannot_be_compared() -> None:
    """Retention has deleted their records; they are counted apart."""
    found = compared([rows(range(50))], range(20, 100), start=20)
    assert found.is_exact
    assert (found.deleted, found.broker) == (20, 30)


def test_rows_beyond_the_end_are_strangers_also_of_a_compacted_topic() -> None:
    """They are of a topic with the same name that is gone."""
    for is_compacted in (False, True):
        found = compared([rows(range(30))], range(20), end=20, is_compacted=is_compacted)
        assert found.strangers == 10
        assert compared([counted(0, 30, 30)], range(20), end=20).strangers == 10


def test_ranges_are_compared_by_their_counts() -> None:
    """A file with too few or too many rows, and a range that no file has, are seen."""
    held = [counted(0, 10, 9), counted(10, 20, 11), counted(30, 40, 10)]
    found = compared(held, range(100))
    assert (found.gaps, found.doubles) == (11, 1)
    assert found.examples["gaps"] == [(20, 30), (0, 10)]
    assert found.examples["doubles"] == [(10, 20)]


def test_a_counted_range_across_the_log_start_has_what_the_broker_still_has() -> None:
    """Fewer rows are a gap; more are those whose records retention has deleted."""
    assert compared([counted(0, 30, 30)], range(20, 100), start=20).is_exact
    assert compared([counted(0, 30, 12)], range(20, 100), start=20).is_exact
    found = compared([counted(0, 30, 7)], range(20, 100), start=20, dead=[21])
    assert (found.gaps, found.examples["gaps"]) == (2, [(0, 30)])


def test_parts_of_a_range_are_counted_together() -> None:
    """A range in several files is one range."""
    assert compared([counted(0, 10, 4), counted(0, 10, 6)], range(100)).is_exact


def test_ranges_that_overlap_hold_records_twice() -> None:
    """Each of two files may have the right count, and yet both have some records."""
    assert compared([counted(0, 10, 10), counted(5, 15, 10)], range(100)).doubles == 5


def test_a_counted_range_may_lack_markers_and_dead_letters() -> None:
    """Offsets without a record, and dead letters, are expected to be missing from a count."""
    assert compared([counted(0, 10, 7)], set(range(100)) - {3, 4}, dead=[5]).is_exact


def test_offsets_that_two_parts_of_a_table_have_are_doubles() -> None:
    """Doubles are found within what a sink says at once, and across."""
    found = compared([rows([1, 2, 2]), rows([2, 3])], range(1, 4))
    assert (found.doubles, found.sink) == (2, 5)
    assert found.examples["doubles"] == [(2, 3)]


def test_a_sink_in_disorder_is_refused() -> None:
    """Counts of offsets that don't ascend would be wrong."""
    with pytest.raises(ValueError, match="comes after"):
        claims_of([Held(OffsetRange(*PLACE, 0, 9), iter([5, 1]), 2)])


def test_only_the_newest_topic_of_a_name_is_compared() -> None:
    """Rows of before it was created again have other records; they are counted apart."""
    old, new = OffsetRange(*PLACE, 0, 50), OffsetRange(*PLACE, 0, 10, 1)
    held = [Held(old, iter(range(50)), 50), Held(new, iter(range(10)), 10)]
    found = compared(held, range(10), end=10)
    assert found.is_exact
    assert (found.sink, found.end, found.earlier) == (10, 10, 50)
    # The pipeline knows of a newer topic than the sink has rows of.
    [claim] = claims_of([Held(old, iter(range(50)), 50)], {PLACE[0]: 1}).values()
    assert (claim.rows, claim.earlier) == (0, 50)
