"""Requests that wait for replicas: settled once each, in order, and gone when they give up."""

from random import Random

import pytest

from kwire.broker.delayed_produce import KEPT, SIZE, DelayedProduce, DelayedProduceQueue
from kwire.errors import ErrorCode


class Sleeper:
    """Counts how often it is woken."""

    def __init__(self):
        self.times = 0

    def wake(self, size):
        """It is woken."""
        assert size == SIZE
        self.times += 1


def waiting(*places):
    """A request that waits for (queue, offset) pairs, and who answers it."""
    acks = DelayedProduce()
    for slot, (queue, offset) in enumerate(places):
        queue.wait(offset, acks, slot)
    acks.sleeper = Sleeper()
    return acks


def test_a_batch_is_acknowledged_when_the_watermark_has_reached_its_end():
    """Not an offset earlier, and only once."""
    queue = DelayedProduceQueue()
    acks = waiting((queue, 10))
    queue.reach(9)
    assert not acks.is_set
    assert acks.sleeper.times == 0
    queue.reach(10)
    queue.reach(11)
    assert acks.is_set
    assert acks.sleeper.times == 1
    assert not acks.errors
    assert not len(queue)


def test_a_request_waits_for_all_its_partitions():
    """One that fails doesn't end the wait for the others."""
    first, second = DelayedProduceQueue(), DelayedProduceQueue()
    acks = waiting((first, 10), (second, 5))
    first.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert acks.sleeper.times == 0
    second.reach(5)
    assert acks.sleeper.times == 1
    assert acks.errors == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_what_was_acknowledged_before_the_deadline_stays_so():
    """Only the partitions that still wait are REQUEST_TIMED_OUT."""
    first, second = DelayedProduceQueue(), DelayedProduceQueue()
    acks = waiting((first, 10), (second, 5))
    first.reach(10)
    acks.time_is_up()
    assert acks.is_late
    assert acks.errors == {1: ErrorCode.REQUEST_TIMED_OUT}
    assert acks.sleeper.times == 1
    second.reach(5)
    acks.time_is_up()
    assert acks.sleeper.times == 1


def test_a_reached_offset_may_be_an_error():
    """The ISR may have become too small after the append."""
    queue = DelayedProduceQueue()
    acks = waiting((queue, 10))
    queue.reach(10, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert acks.errors == {0: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def test_a_repeated_batch_waits_for_its_own_offset():
    """And not for the later batches before it in the queue."""
    queue = DelayedProduceQueue()
    later, repeated = waiting((queue, 20)), waiting((queue, 10))
    queue.reach(10)
    assert repeated.is_set
    assert not later.is_set


@pytest.mark.parametrize("give_up", [DelayedProduce.give_up, DelayedProduce.time_is_up])
def test_requests_that_give_up_leave_the_queue(give_up):
    """However many there are, and though the watermark never moves."""
    queue = DelayedProduceQueue()
    stays = waiting((queue, 1))
    for offset in range(2, 10_000):
        give_up(waiting((queue, offset), (queue, offset)))
        assert len(queue) <= 2 * KEPT
    queue.reach(10_000)
    assert stays.is_set
    assert not len(queue)


def test_any_order_settles_what_the_watermark_has_reached():
    """Requests come, give up and are settled at random: each is woken once, at its offset."""
    random = Random(7)
    for _ in range(50):
        queue, high_watermark, made = DelayedProduceQueue(), 0, []
        for _ in range(300):
            event = random.random()
            if event < 0.6:
                offset = high_watermark + random.randrange(1, 50)
                made.append((offset, waiting((queue, offset))))
            elif event < 0.8 and made:
                random.choice(made)[1].give_up()
            else:
                high_watermark += random.randrange(10)
                queue.reach(high_watermark)
            for offset, acks in made:
                assert acks.is_set or offset > high_watermark
        queue.reach(1 << 60)
        assert all(acks.is_set and acks.sleeper.times <= 1 for _, acks in made)
        assert not len(queue)
