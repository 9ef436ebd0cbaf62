"""Changes of metadata wait in one queue: who came first commits first, whoever else commits.

A store in memory stands in for one that other brokers write to as well.
"""

from collections.abc import AsyncIterator, Sequence

import pytest
import trio

from kwire.broker.commits import CHANGES_PER_TURN, Commits
from kwire.budget.threads import Kind
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ProducerIdsAllocated
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, RevisionConflict

RIVAL = 1_000_000
"""What other brokers commit is this and more."""


class ContestedStore:
    """A store in memory. Other brokers come first ``rivals`` times for each commit that is tried.

    A commit has to wait for ``is_open``.
    """

    def __init__(self, rivals: int = 0) -> None:
        self.commits: list[Commit] = []
        self.is_open = trio.Event()
        self._rivals = rivals
        self._left = rivals
        self._send, self._receive = trio.open_memory_channel[Commit](1000)

    @property
    def own(self) -> list[int]:
        """The producer ids that this broker has committed, in their order."""
        ids = [change.next_producer_id for commit in self.commits for change in commit.changes]
        return [number for number in ids if number < RIVAL]

    async def read(self) -> MetadataImage:
        """Nothing was there before."""
        return MetadataImage()

    async def commit(self, expected_revision: int, changes: Sequence[Change]) -> int:
        """Refuse it where another broker has come first."""
        await self.is_open.wait()
        await trio.lowlevel.checkpoint()
        if self._left:
            self._left -= 1
            self._add([ProducerIdsAllocated(RIVAL + len(self.commits))])
        if expected_revision != len(self.commits):
            raise RevisionConflict
        self._left = self._rivals
        self._add(changes)
        return len(self.commits)

    def _add(self, changes: Sequence[Change]) -> None:
        self.commits.append(Commit(len(self.commits) + 1, changes))
        self._send.send_nowait(self.commits[-1])

    def watch(self, revision: int) -> AsyncIterator[Commit]:
        """Everything is sent to the one that watches."""
        assert revision == 0
        return self._receive

    async def close(self) -> None:
        """Nothing is held."""


class Queue:
    """The commits of one broker, and what has been published."""

    def __init__(self, nursery: trio.Nursery, rivals: int = 0) -> None:
        self.store = ContestedStore(rivals)
        self.commits = Commits(self.store, MetadataImage(), Kind(1))
        self.decided: list[int] = []
        self.published: list[int] = []
        self._nursery = nursery
        nursery.start_soon(self.commits.follow, self._publish)

    async def _publish(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        await trio.lowlevel.checkpoint()
        self.published.append(image.revision)

    async def add(self, number: int, is_gone=lambda: False) -> trio.CancelScope:
        """Begin a commit, and wait until it has its place in the queue."""
        scope = trio.CancelScope()
        waiting = self.commits.waiting

        def decide(_: MetadataImage) -> list[Change]:
            self.decided.append(number)
            return [ProducerIdsAllocated(number)]

        async def commit() -> None:
            with scope:
                await self.commits.commit(decide, is_gone)

        self._nursery.start_soon(commit)
        while self.commits.waiting == waiting and number not in self.decided:
            await trio.lowlevel.checkpoint()
        return scope


async def _all_committed(queue: Queue, count: int) -> None:
    with trio.fail_after(10):
        while len(queue.store.own) < count:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("rivals", [0, 1, 3])
async def test_who_came_first_commits_first(rivals: int) -> None:
    """Also where other brokers move the revision: nobody loses the place that it has."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, rivals)
        for number in range(8):
            await queue.add(number)
        queue.store.is_open.set()
        await queue.add(8)
        await _all_committed(queue, 9)
        assert queue.store.own == list(range(9))
        nursery.cancel_scope.cancel()


async def test_a_change_is_decided_again_only_where_somebody_came_first() -> None:
    """Once for each try, and by nobody who hasn't their turn yet."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, rivals=2)
        for number in range(3):
            await queue.add(number)
        assert queue.decided == [0]
        queue.store.is_open.set()
        await _all_committed(queue, 3)
        assert queue.decided == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        nursery.cancel_scope.cancel()


async def test_a_task_that_is_cancelled_leaves_the_queue() -> None:
    """What it wanted isn't decided, and the one behind it is next."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        scopes = [await queue.add(number) for number in range(3)]
        scopes[1].cancel()
        queue.store.is_open.set()
        await _all_committed(queue, 2)
        assert queue.decided == queue.store.own == [0, 2]
        nursery.cancel_scope.cancel()


async def test_a_task_that_is_cancelled_in_its_turn_gives_it_up() -> None:
    """The next one takes its turn, on the image as it is then."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        scopes = [await queue.add(number) for number in range(2)]
        scopes[0].cancel()
        queue.store.is_open.set()
        await _all_committed(queue, 1)
        assert queue.store.own == [1]
        nursery.cancel_scope.cancel()


async def test_nothing_is_decided_for_a_client_that_is_gone() -> None:
    """It is asked for when its turn has come, not when it joined the queue."""
    has_left = False
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)
        refused: list[KafkaError] = []

        async def of_a_client() -> None:
            try:
                await queue.commits.commit(
                    lambda _: queue.decided.append(1) or [], lambda: has_left
                )
            except KafkaError as error:
                refused.append(error)

        nursery.start_soon(of_a_client)
        while not queue.commits.waiting:
            await trio.lowlevel.checkpoint()
        await queue.add(2)
        has_left = True
        queue.store.is_open.set()
        await _all_committed(queue, 2)
        assert queue.decided == [0, 2]
        assert [error.code for error in refused] == [ErrorCode.NETWORK_EXCEPTION]
        nursery.cancel_scope.cancel()


async def test_a_commit_has_been_followed_when_it_returns() -> None:
    """The answer to a client is true when it leaves, also where very much has changed at once."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        queue.store.is_open.set()
        for count in (1, CHANGES_PER_TURN + 1):
            changes = [ProducerIdsAllocated(number) for number in range(count)]
            await queue.commits.commit(lambda _, changes=changes: changes)
            assert queue.commits.image.next_producer_id == count - 1
            assert queue.published[-1] == queue.commits.image.revision
        nursery.cancel_scope.cancel()


async def test_a_decision_may_let_others_have_their_turn() -> None:
    """A coroutine decides about many things in parts; nobody decides in between."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        queue.store.is_open.set()

        async def decide(image: MetadataImage) -> list[Change]:
            await queue.add(2)
            assert queue.decided == []
            return [ProducerIdsAllocated(1)]

        await queue.commits.commit(decide)
        await _all_committed(queue, 2)
        assert queue.store.own == [1, 2]
        nursery.cancel_scope.cancel()
