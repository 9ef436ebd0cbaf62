"""The figures of a hostile neighbor."""

import math

from bench.hostile import NO_ANSWER, Waits, median_of


def test_each_figure_is_its_own_median() -> None:
    """A round without an answer counts as the longest wait, and doesn't hide the others."""
    one = Waits(1.0, 9.0, 30.0, 4.0, 5.0, 7.0, 2.0)
    two = Waits(3.0, 8.0, 20.0, 6.0, 9.0, 8.0, 2.0)
    assert median_of([one]) == one
    assert median_of([one, two, NO_ANSWER]) == Waits(3.0, 9.0, 30.0, 6.0, 9.0, 8.0, 2.0)
    assert median_of([one, NO_ANSWER, NO_ANSWER]).p99_ms == math.inf
