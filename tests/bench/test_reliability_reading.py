"""The consumer of `make reliability`: how long it got nothing."""

import pytest

from bench.reliability.reading import longest


@pytest.mark.parametrize(
    ("times_s", "since_s", "wanted_s"),
    [
        ([], 5.0, 0.0),
        ([1.0, 2.0], 5.0, 0.0),
        ([1.0, 9.0], 5.0, 4.0),
        ([6.0, 9.5, 10.0], 5.0, 3.5),
    ],
)
def test_a_pause_begins_at_the_fault(times_s, since_s, wanted_s) -> None:
    """What came before doesn't count; the first record after the fault ends the first pause."""
    assert longest(times_s, since_s) == wanted_s
