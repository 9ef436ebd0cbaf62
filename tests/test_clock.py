"""The clock: which of its hands go on when, and how old a date is whoever set it meanwhile."""

import pytest

from kwire.clock import Clock, steady_clock_ms, wall_clock_ms
from tests.support.clock import FakeClock

SECOND_MS = 1000
HOUR_MS = 3600 * SECOND_MS
WEEK_MS = 7 * 24 * HOUR_MS
START_MS = 1_700_000_000_000


def test_the_systems_clocks() -> None:
    """The date is after this test was written; the steady clock doesn't go back."""
    assert wall_clock_ms() > START_MS
    assert steady_clock_ms() <= steady_clock_ms()
    clock = Clock()
    assert 0 <= clock.age_ms(clock.now_ms()) < HOUR_MS


def test_an_age_grows_with_time() -> None:
    """While nobody sets the date an age is the difference of two dates."""
    clock = FakeClock(START_MS)
    clock.pass_time(5 * SECOND_MS)
    assert clock.age_ms(START_MS) == 5 * SECOND_MS
    assert clock.age_ms(START_MS + HOUR_MS) == 5 * SECOND_MS - HOUR_MS


@pytest.mark.parametrize("step_ms", [WEEK_MS, -HOUR_MS, 2 * SECOND_MS, -2 * SECOND_MS])
def test_a_step_of_the_date_makes_nothing_older(step_ms: int) -> None:
    """What was written a moment before the step is a moment old, and so is what came after."""
    clock = FakeClock(START_MS)
    clock.set_date(step_ms)
    clock.detect_jump()
    after_ms = clock.now_ms()
    clock.pass_time(SECOND_MS)
    assert clock.age_ms(START_MS) == SECOND_MS
    assert clock.age_ms(after_ms) == SECOND_MS


def test_a_date_that_nobody_could_write_counts_from_the_step() -> None:
    """A step ahead leaves a gap: a date in it is no older than the step."""
    clock = FakeClock(START_MS)
    clock.set_date(WEEK_MS)
    clock.detect_jump()
    clock.pass_time(SECOND_MS)
    assert clock.age_ms(START_MS + HOUR_MS) == SECOND_MS


def test_where_it_is_not_sure_a_date_counts_as_young() -> None:
    """After a step back the same dates come again: the second time counts."""
    clock = FakeClock(START_MS)
    clock.set_date(-HOUR_MS)
    clock.detect_jump()
    clock.pass_time(2 * HOUR_MS)
    assert clock.age_ms(START_MS) == HOUR_MS


def test_a_date_that_is_set_back_and_ahead_again() -> None:
    """Both steps cancel out for what was there before them."""
    clock = FakeClock(START_MS)
    for step_ms in (WEEK_MS, -WEEK_MS):
        clock.set_date(step_ms)
        clock.detect_jump()
        clock.pass_time(SECOND_MS)
    assert clock.age_ms(START_MS) == 2 * SECOND_MS


def test_little_steps_are_no_steps() -> None:
    """Two clocks aren't read in one moment: a difference below a second means nothing."""
    clock = FakeClock(START_MS)
    for _ in range(10):
        clock.set_date(SECOND_MS - 1)
        clock.detect_jump()
        clock.set_date(1 - SECOND_MS)
        clock.detect_jump()
    clock.pass_time(SECOND_MS)
    assert clock.age_ms(START_MS) == SECOND_MS


def test_the_machines_sleep_is_time_that_passes() -> None:
    """Both clocks go on in it, so it is no step."""
    clock = FakeClock(START_MS)
    clock.pass_time(WEEK_MS)
    clock.detect_jump()
    assert clock.age_ms(START_MS) == WEEK_MS
