"""The table of what a cluster costs: bars, percentiles, and its place in the document."""

import pytest

from bench.cluster.__main__ import END, START
from bench.cluster.measure import Number, percentile, table
from bench.publish import PERFORMANCE, between_markers


@pytest.mark.parametrize(
    ("number", "is_met"),
    [
        (Number("a", 7, "ms"), True),
        (Number("a", 7, "ms", 7), True),
        (Number("a", 8, "ms", 7), False),
        (Number("a", 1.7, "x", 1.6, at_least=True), True),
        (Number("a", 1.5, "x", 1.6, at_least=True), False),
    ],
)
def test_a_bar_is_met_or_not(number: Number, is_met: bool) -> None:
    """Small is good, unless more is better; a row without a bar only informs."""
    assert number.is_met is is_met
    verdict = "" if number.bar is None else ("met" if is_met else "not met")
    assert table([number]).splitlines()[-1].split("|")[-2].strip() == verdict


def test_percentiles() -> None:
    """Nineteen of twenty values are at most the 95th percentile."""
    values = list(range(100, 0, -1))
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(range(1, 21), 0.95) == 19
    assert percentile([4.0], 0.99) == 4.0


def test_the_document_has_a_place_for_the_table() -> None:
    """`make bench-cluster ARGS=--publish` finds its marks, once each."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    assert "| new |" in between_markers(text, table([Number("new", 1, "s")]), START, END)
