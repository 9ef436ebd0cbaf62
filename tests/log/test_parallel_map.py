"""Work on many values in several threads: all of it is done, however few threads there are."""

import threading

import pytest

from kwire.log.parallel_map import parallel_map

TIMEOUT_S = 20


def test_results_are_in_the_order_of_the_values():
    """Also of values that other threads have done earlier."""
    assert parallel_map(lambda n: n * n, range(100), 8, "test") == [n * n for n in range(100)]
    assert parallel_map(lambda n: n, [], 8, "test") == []


def test_so_many_threads_work_at_the_same_time():
    """One after the other, they would wait for each other without an end."""
    meeting = threading.Barrier(4, timeout=TIMEOUT_S)
    assert len(parallel_map(lambda _: meeting.wait(), range(8), 4, "test")) == 8


@pytest.mark.parametrize("granted", [0, 2])
def test_the_work_is_done_although_the_system_refuses_threads(monkeypatch, caplog, granted):
    """The thread that has asked for the work, and those that could be started, do all of it."""
    left = [None] * granted
    start = threading.Thread.start

    def refusing(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    assert parallel_map(str, range(50), 16, "test") == [str(n) for n in range(50)]
    assert caplog.messages == [
        f"the system refuses a new thread (can't start new thread); {granted + 1} do the work"
    ]


def test_an_error_ends_the_work_and_is_raised():
    """That of the first value which has one; no thread is left behind."""
    begun = []

    def fail_from_ten(number):
        begun.append(number)
        if number >= 10:
            raise ValueError(number)

    before = threading.active_count()
    with pytest.raises(ValueError, match=r"^10$"):
        parallel_map(fail_from_ten, range(1000), 1, "test")
    assert begun == list(range(11))
    with pytest.raises(ValueError, match=r"^1\d$"):
        parallel_map(fail_from_ten, range(1000), 4, "test")
    assert len(begun) < 100
    assert threading.active_count() == before
