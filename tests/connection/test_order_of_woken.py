"""Who is woken together is served in the order of what each has to look at."""

import pytest

from kwire.broker.delayed_produce import SIZE
from kwire.connection.poller import Poller
from tests.connection.peer import until
from tests.connection.test_poller import Waker


@pytest.fixture
async def poller(nursery):
    """A poller that runs."""
    made = Poller(nursery)
    nursery.start_soon(made.run)
    yield made
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("consumers", [1, 3])
async def test_a_producer_is_told_after_one_consumer_and_before_many(poller, consumers):
    """A new high watermark wakes the producer's connection first, and then the consumers'."""
    order = []

    class Noted(Waker):
        def go_on(self):
            order.append(self)

    producer, *others = (Noted(poller) for _ in range(1 + consumers))
    poller.wake(producer, SIZE)
    for consumer in others:
        poller.wake(consumer)
    await until(lambda: len(order) == 1 + consumers)
    assert order == [others[0], producer, *others[1:]]
