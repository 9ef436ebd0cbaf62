"""However often a bug happens, it takes no memory: an exception keeps its request's objects."""

from kwire.broker.metrics_counters import MOST_BUGS, Bugs, MetricsCounters


def test_the_first_bugs_are_kept_and_all_are_counted():
    bugs = Bugs()
    assert not bugs
    errors = [ValueError(str(n)) for n in range(10 * MOST_BUGS)]
    for error in errors:
        bugs.append(error)
    assert bugs == errors[:MOST_BUGS]
    assert bugs.seen == 10 * MOST_BUGS


def test_single_requests_take_as_long_as_their_pass() -> None:
    """Each pass counts those that were served in it."""
    counters = MetricsCounters()
    for produced in (2, 5, 5):
        counters.singles = produced
        counters.end_pass(0.001)
    assert (sum(counters.single_times.counts), counters.single_times.sum_us) == (5, 5000)
    assert sum(counters.passes.counts) == 3


def test_a_request_that_takes_longer_than_any_bucket_counts_in_the_last() -> None:
    """One may wait for as long as its client wants."""
    times = MetricsCounters().times_of(1)
    times.add(0.0, 0.001, 1e12)
    for histogram in (times.wait, times.total):
        assert (sum(histogram.counts), histogram.counts[-1]) == (1, 1)
