"""One worker and two compared on a machine whose processors the load needs as well."""

from bench.cluster.workers import Rate, compared

ELAPSED, MOST, BY_PROCESSORS = "2 workers / 1 worker", "the most that load", "with a processor for"


def _found(one: Rate, two: Rate, processors: int) -> dict[str, tuple[float, float | None]]:
    rows = [row for row in compared("8 connections", one, two, processors) if row.unit == "x"]
    assert [row.name.startswith("8 connections, ") for row in rows] == [True] * 3
    kinds = (ELAPSED, MOST, BY_PROCESSORS)
    return {kind: (row.value, row.bar) for kind, row in zip(kinds, rows, strict=True)}


def test_what_processors_allow_is_never_less_than_what_was_measured():
    """One worker that waits now and then, and two that use both processors up, at less for each."""
    one = Rate(60_000, 15e-6, 9e-6)
    two = Rate(2 / 22e-6, 13e-6, 9e-6)
    rows = _found(one, two, 2)
    assert rows[ELAPSED][0] == rows[MOST][0]
    assert round(rows[ELAPSED][0], 3) == 1.515
    assert rows[ELAPSED][1] is None, "there is no room for the bar"
    assert (round(rows[BY_PROCESSORS][0], 3), rows[BY_PROCESSORS][1]) == (2.308, 1.6)


def test_with_more_processors_the_bar_counts_for_elapsed_time():
    """Then the workers are the limit, not the load."""
    one = Rate(60_000, 15e-6, 9e-6)
    two = Rate(100_000, 15e-6, 9e-6)
    rows = _found(one, two, 8)
    assert round(rows[MOST][0], 3) == 2.222
    assert rows[ELAPSED] == (100 / 60, 1.6)
