"""However often a bug happens, it takes no memory: an exception keeps its request's objects."""

from kwire.broker.metrics_counters import MOST_BUGS, Bugs


def test_the_first_bugs_are_kept_and_all_are_counted():
    bugs = Bugs()
    assert not bugs
    errors = [ValueError(str(n)) for n in range(10 * MOST_BUGS)]
    for error in errors:
        bugs.append(error)
    assert bugs == errors[:MOST_BUGS]
    assert bugs.seen == 10 * MOST_BUGS
