"""The outcomes of keys as numbers of partitions: whose they are, and which of them fail."""

from kwire.spark.comparison import BrokerOffsets, Compared
from kwire.spark.key_outcomes import Bounds, Keys, bounds_of, compared
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.verify import partition_line, wrong

ONE, TWO = ("t", 1), ("t", 2)
BOUNDS = {ONE: Bounds(10, 100, 120), TWO: Bounds(0, 50, 50)}


def outcome(*keys: Keys, **more: dict[tuple[str, int], OffsetRuns]) -> list[Compared]:
    """The outcome for the two partitions."""
    return compared(BOUNDS, keys, more.get("dead", {}), more.get("lost", {}), {})


def test_exact_keys_and_what_cannot_be_compared_do_not_fail() -> None:
    """Rows of an earlier topic, of deleted or compacted records, and of a batch under way."""
    apart = ("unfinished", "spread", "deleted", "compacted", "earlier")
    first, second = outcome(
        Keys("exact", ONE, ONE, 7),
        Keys("exact", None, None, 3),  # tombstones, whose rows are gone
        *(Keys(name, None, TWO, 1) for name in apart),
    )
    assert (first.broker, first.sink, second.sink) == (7, 7, len(apart))
    assert [getattr(second, name) for name in apart] == [1] * len(apart)
    assert wrong([first, second]) == []


def test_a_gap_is_of_the_newest_record_and_a_stranger_of_its_row() -> None:
    """The row may be of another partition, or not be there at all."""
    first, second = outcome(
        Keys("gap", ONE, TWO, 2), Keys("gap", ONE, None, 1), Keys("stranger", None, TWO, 4)
    )
    assert (first.gaps, first.strangers, first.broker) == (3, 0, 3)
    assert (second.gaps, second.strangers, second.sink) == (0, 4, 6)
    assert wrong([first, second]) == [first, second]
    assert wrong([first], allows_gaps=True) == []


def test_rows_too_many_of_a_key_are_doubles() -> None:
    """Also where one of them is the newest."""
    first, _ = outcome(Keys("exact", ONE, ONE, 5, doubles=2))
    assert (first.sink, first.doubles) == (7, 2)


def test_records_that_cannot_be_decoded_are_gaps() -> None:
    """They are neither rows nor dead letters; the latter are counted within what is compared."""
    first, _ = outcome(
        lost={ONE: OffsetRuns([(20, 22)])}, dead={ONE: OffsetRuns([(5, 15), (99, 110)])}
    )
    assert (first.gaps, first.dead_letters) == (2, 6)
    assert partition_line(first) == "t-1: 2 gaps (offsets 20-21)"


def test_the_examples_are_offsets() -> None:
    """They are shown as for other sinks."""
    examples = {ONE: {"gaps": [12, 11], "doubles": [40]}}
    first, _ = compared(BOUNDS, [Keys("gap", ONE, ONE, 2, 1)], {}, {}, examples)
    assert partition_line(first) == "t-1: 2 gaps (offsets 11-11, 12-12), 1 doubles (offsets 40-40)"


def test_what_is_compared_of_a_partition() -> None:
    """From the pipeline's beginning or the log's to what is finished; a new one is unfinished."""
    there = {
        ONE: BrokerOffsets(OffsetRuns(), 30, 200, is_compacted=True),
        TWO: BrokerOffsets(OffsetRuns(), 0, 9),
    }
    found = bounds_of({ONE: 10}, {ONE: 100}, there, {"t": 2})
    assert found == {ONE: Bounds(30, 100, 200, True, 2), TWO: Bounds(0, 0, 9, False, 2)}
