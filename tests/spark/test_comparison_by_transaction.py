"""The offsets that a topic's transactions have committed against what is finished."""

from kwire.spark.comparison import BrokerOffsets, Compared
from kwire.spark.comparison_by_transaction import compare_committed
from kwire.spark.offset_runs import OffsetRuns

PLACE = ("t", 0)


def compared(
    committed: int | None,
    records: tuple[tuple[int, int], ...] = ((0, 100),),
    dead: tuple[tuple[int, int], ...] = (),
    start: int = 0,
) -> Compared:
    """The outcome for a pipeline that began at 10 and has finished 90."""
    there = {PLACE: BrokerOffsets(OffsetRuns(records), start, 100)}
    offsets = {} if committed is None else {PLACE: committed}
    dead_letters = {PLACE: OffsetRuns(dead)}
    [found] = compare_committed({PLACE: 10}, {PLACE: 90}, offsets, there, dead_letters)
    return found


def test_what_is_finished_is_committed() -> None:
    """A batch under way may have committed more."""
    for offset in (90, 100):
        found = compared(offset)
        assert found.is_exact
        assert (found.broker, found.sink) == (80, 80)


def test_a_finished_record_after_the_committed_offset_is_a_gap() -> None:
    """Without any offset all records are, from the pipeline's beginning on."""
    assert compared(80).examples["gaps"] == [(80, 90)]
    found = compared(None)
    assert (found.gaps, found.sink) == (80, 0)


def test_ranges_without_rows_commit_nothing() -> None:
    """Dead letters, markers and aborted records at the end leave the offset behind."""
    found = compared(80, records=((0, 82), (85, 88)), dead=((80, 82), (85, 88)))
    assert found.is_exact
    assert (found.broker, found.dead_letters, found.sink) == (75, 5, 70)


def test_records_that_retention_has_deleted_are_not_compared() -> None:
    """They are counted apart, as offsets."""
    found = compared(90, records=((50, 100),), start=50)
    assert found.is_exact
    assert (found.broker, found.deleted) == (40, 40)
