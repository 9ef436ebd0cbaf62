"""The timers of a group."""

import tracemalloc

from kwire.coordinator.consumer.timers import Due, GroupTimers, Timer


def test_timers_run_out_in_their_order():
    """Each once, with the epoch it was set for."""
    timers = GroupTimers()
    timers.set("a", Timer.SESSION, 20)
    timers.set("b", Timer.REBALANCE, 10, epoch=3)
    assert timers.next_deadline_ms() == 10
    assert timers.take_due(9) is None
    assert timers.take_due(30) == Due("b", Timer.REBALANCE, 3)
    assert timers.take_due(30) == Due("a", Timer.SESSION, -1)
    assert timers.take_due(30) is None
    assert timers.next_deadline_ms() is None


def test_a_timer_is_set_anew_for_later_or_earlier():
    """The last one counts."""
    timers = GroupTimers()
    for deadline_ms in (20, 30, 25, 40):
        timers.set("a", Timer.SESSION, deadline_ms)
    assert timers.next_deadline_ms() == 40
    timers.set("a", Timer.SESSION, 15)
    assert timers.next_deadline_ms() == 15
    timers.set_if_absent("a", Timer.SESSION, 5)
    assert timers.deadline_ms("a", Timer.SESSION) == 15


def test_a_cancelled_timer_does_not_run_out():
    """Nor does it keep others from it."""
    timers = GroupTimers()
    timers.set("a", Timer.SESSION, 10)
    timers.set("a", Timer.SYNC, 20)
    timers.set("b", Timer.SESSION, 30)
    timers.cancel("a", Timer.SESSION)
    assert timers.next_deadline_ms() == 20
    timers.cancel("a")
    assert timers.next_deadline_ms() == 30


def test_what_is_set_and_cancelled_all_the_time_does_not_pile_up():
    """A member may do so with every heartbeat."""
    timers = GroupTimers()

    def set_and_cancel(beats: range) -> None:
        for now_ms in beats:
            timers.set("a", Timer.REBALANCE, now_ms + 100)
            timers.cancel("a", Timer.REBALANCE)
            timers.set("a", Timer.SESSION, now_ms + 50)
            timers.next_deadline_ms()

    set_and_cancel(range(1000))
    tracemalloc.start()
    try:
        set_and_cancel(range(1000, 3000))
        assert tracemalloc.get_traced_memory()[0] < 2000
    finally:
        tracemalloc.stop()


def test_an_assignment_is_due_too():
    """Whichever comes first."""
    timers = GroupTimers()
    timers.assignment_ms = 10
    assert timers.next_deadline_ms() == 10
    timers.set("a", Timer.SESSION, 5)
    assert timers.next_deadline_ms() == 5
