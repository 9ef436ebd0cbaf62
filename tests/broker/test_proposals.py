"""Whose change of the metadata is next: nobody waits behind all changes of a busy client.

Decision 17. A store in memory takes the commits.
"""

import trio

from kwire.broker.proposals import ALIKE, BYTES_OF_A_CHANGE, CREDIT
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.image import ConfigResourceType
from tests.broker.queueing import Client, Queue, all_committed


async def test_who_has_changed_least_comes_first() -> None:
    """A client with one change doesn't wait for those with hundreds; a broker waits for no client.

    It shares its commit with nobody who has changed more: their logs would be made first.
    """
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)  # a commit that is on its way
        busy = [Client(50 + number % 2) for number in range(6)]
        for number, client in enumerate(busy, start=1):
            await queue.add(number, client)
        quiet = Client()
        await queue.add(7, quiet)
        await queue.add(8)
        queue.store.is_open.set()
        await all_committed(queue, 9)
        own = [[one.next_producer_id for one in commit.changes] for commit in queue.store.commits]
        assert own == [[0], [8, 7], [1, 3, 5, 2, 4, 6]]
        assert quiet.changes == 1
        assert [client.changes for client in busy] == [51, 52] * 3
        nursery.cancel_scope.cancel()


async def test_who_has_waited_longest_has_every_eighth_turn() -> None:
    """Or a client that has changed much would wait as long as others bring new connections."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)
        await queue.add(1, Client(50))
        for number in range(2, 20):
            await queue.add(number, Client())
        queue.store.is_open.set()
        await all_committed(queue, 20)
        assert queue.store.own == [0, *range(2, 8), 1, *range(8, 20)]
        nursery.cancel_scope.cancel()


async def test_what_was_changed_long_ago_counts_little() -> None:
    """A connection of long standing is behind a new one by ``CREDIT`` at most."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        queue.store.is_open.set()
        old, new, last = Client(10 * CREDIT), Client(), Client(9 * CREDIT + ALIKE + 2)
        for number, client in enumerate((old, new, last)):
            await queue.add(number, client)
            await all_committed(queue, number + 1)
        assert new.changes == 9 * CREDIT + 1
        assert (old.changes, last.changes) == (10 * CREDIT + 1, 9 * CREDIT + ALIKE + 3)
        nursery.cancel_scope.cancel()


async def test_large_changes_count_for_many() -> None:
    """A topic of 10,000 partitions is one change."""
    client = Client()
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        queue.store.is_open.set()
        value = "x" * (7 * BYTES_OF_A_CHANGE)
        change = ConfigChanged(ConfigResourceType.TOPIC, "t", "c", value)
        await queue.commits.commit(lambda _: [change], client)
        assert client.changes in (8, 9)
        nursery.cancel_scope.cancel()


async def test_each_is_as_the_first_of_its_commit() -> None:
    """Not as the one before it: the first would wait for the logs of one that has changed much."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)
        for number in range(3):
            await queue.add(number + 1, Client(number * ALIKE))
        queue.store.is_open.set()
        await all_committed(queue, 4)
        own = [[one.next_producer_id for one in commit.changes] for commit in queue.store.commits]
        assert own == [[0], [1, 2], [3]]
        nursery.cancel_scope.cancel()
