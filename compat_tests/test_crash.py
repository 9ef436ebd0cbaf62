"""A few rounds of the crash test; ``make crash KILLS=200`` does many."""

import pytest

from compat_tests.crash import run


@pytest.mark.waits(30)
def test_nothing_that_was_acknowledged_is_lost_by_kill_9() -> None:
    """Records of all kinds of producers, committed offsets, topics, configs."""
    run(kills=5, seed=4)
