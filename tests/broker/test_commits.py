"""Changes of metadata wait in one queue: who has changed least commits first, then who came first.

What waits while a commit is on its way goes into the next one together.

A store in memory stands in for one that other brokers write to as well.
"""

from collections.abc import AsyncIterator, Sequence

import pytest
import trio
import trio.testing

from kwire.broker.commits import WAIT_S, Commits
from kwire.broker.proposals import (
    CHANGES_PER_COMMIT,
    MOST_DECISIONS,
    NOBODY,
)
from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ProducerIdsAllocated
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, Guard, RevisionGone
from tests.broker.queueing import Client, ContestedStore, Queue, all_committed


@pytest.mark.parametrize("rivals", [0, 1, 3])
async def test_who_came_first_commits_first(rivals: int) -> None:
    """Also where other brokers move the revision: nobody loses the place that it has."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, rivals)
        for number in range(8):
            await queue.add(number)
        queue.store.is_open.set()
        await queue.add(8)
        await all_committed(queue, 9)
        assert queue.store.own == list(range(9))
        nursery.cancel_scope.cancel()


async def test_a_change_is_decided_again_only_where_somebody_came_first() -> None:
    """Once for each try, and by nobody who hasn't their turn yet; 1 and 2 share their tries."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, rivals=2)
        for number in range(3):
            await queue.add(number)
        assert queue.decided == [0]
        queue.store.is_open.set()
        await all_committed(queue, 3)
        assert queue.decided == [0, 0, 1, 2, 0, 1, 2]
        nursery.cancel_scope.cancel()


async def test_a_task_that_is_cancelled_leaves_the_queue() -> None:
    """What it wanted isn't decided, and the one behind it is next."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        scopes = [await queue.add(number) for number in range(3)]
        scopes[1].cancel()
        queue.store.is_open.set()
        await all_committed(queue, 2)
        assert queue.decided == queue.store.own == [0, 2]
        nursery.cancel_scope.cancel()


async def test_a_task_that_is_cancelled_in_its_turn_gives_it_up() -> None:
    """The next one takes its turn, on the image as it is then."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        scopes = [await queue.add(number) for number in range(2)]
        scopes[0].cancel()
        queue.store.is_open.set()
        await all_committed(queue, 1)
        assert queue.store.own == [1]
        nursery.cancel_scope.cancel()


async def test_nothing_is_decided_for_a_client_that_is_gone() -> None:
    """It is asked for when its turn has come, not when it joined the queue."""
    client = Client()
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)
        refused: list[KafkaError] = []

        async def of_a_client() -> None:
            try:
                await queue.commits.commit(lambda _: queue.decided.append(1) or [], client)
            except KafkaError as error:
                refused.append(error)

        nursery.start_soon(of_a_client)
        while not queue.commits.waiting:
            await trio.lowlevel.checkpoint()
        await queue.add(2)
        client.has_left = True
        queue.store.is_open.set()
        await all_committed(queue, 2)
        await trio.testing.wait_all_tasks_blocked()
        assert queue.decided == [0, 2]
        assert [error.code for error in refused] == [ErrorCode.NETWORK_EXCEPTION]
        nursery.cancel_scope.cancel()


async def test_a_commit_has_been_followed_when_it_returns() -> None:
    """The answer to a client is true when it leaves, also where very much has changed at once."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        queue.store.is_open.set()
        for count in (1, CHANGES_PER_COMMIT + 1):
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
        await all_committed(queue, 2)
        assert queue.store.own == [1, 2]
        nursery.cancel_scope.cancel()


async def test_what_waits_for_a_commit_shares_the_next_one() -> None:
    """A hundred who ask at once cost a few commits; none is too large, and all keep their order."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        for number in range(100):
            await queue.add(number)
        queue.store.is_open.set()
        await all_committed(queue, 100)
        assert [len(commit.changes) for commit in queue.store.commits] == [1, MOST_DECISIONS, 35]
        assert queue.store.own == list(range(100))
        nursery.cancel_scope.cancel()


async def test_a_decision_sees_what_others_of_its_commit_have_decided() -> None:
    """Two who create the same get one creation; the second answer comes when the first is true."""
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)
        await queue.add(0)
        seen: list[tuple[int, int]] = []

        async def take() -> None:
            def decide(image: MetadataImage) -> list[Change]:
                if image.next_producer_id >= 5:
                    raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
                return [ProducerIdsAllocated(5)]

            try:
                await queue.commits.commit(decide)
                seen.append((5, queue.commits.image.next_producer_id))
            except KafkaError as error:
                seen.append((error.code, queue.commits.image.next_producer_id))

        for _ in range(2):
            nursery.start_soon(take)
        while queue.commits.waiting < 2:
            await trio.lowlevel.checkpoint()
        queue.store.is_open.set()
        with trio.fail_after(10):
            while len(seen) < 2:
                await trio.lowlevel.checkpoint()
        assert queue.store.own == [0, 5]
        assert sorted(seen) == [(5, 5), (ErrorCode.TOPIC_ALREADY_EXISTS, 5)]
        nursery.cancel_scope.cancel()


class RefusingStore(ContestedStore):
    """A store that takes the first commit and no other."""

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Refuse the second commit."""
        if expected_revision:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no")
        return await super().commit(expected_revision, changes, guard)


async def test_all_in_a_commit_fail_with_it() -> None:
    """Also a decision that needed no change because of the others; each gets its own error."""
    async with trio.open_nursery() as nursery:
        store = RefusingStore()
        queue = Queue(nursery, store=store)
        await queue.add(0)
        refused: list[KafkaError] = []

        async def take() -> None:
            try:
                await queue.commits.commit(
                    lambda image: [ProducerIdsAllocated(5)] * (image.next_producer_id < 5)
                )
            except KafkaError as error:
                refused.append(error)

        for _ in range(2):
            nursery.start_soon(take)
        while queue.commits.waiting < 2:
            await trio.lowlevel.checkpoint()
        store.is_open.set()
        with trio.fail_after(10):
            while len(refused) < 2:
                await trio.lowlevel.checkpoint()
        assert [error.code for error in refused] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert refused[0] is not refused[1]
        nursery.cancel_scope.cancel()


async def test_a_controllers_change_has_a_commit_of_its_own() -> None:
    """It is made under another guard."""
    guards: list[Guard | None] = []

    class Guarded(ContestedStore):
        async def commit(self, expected_revision, changes, guard=None) -> int:
            guards.append(guard)
            return await super().commit(expected_revision, changes)

    async with trio.open_nursery() as nursery:
        queue = Queue(nursery, store=Guarded())
        queue.commits.guard, controller = Guard("live/1", 3), Guard("controller", 4)
        for number, guard in enumerate((None, None, controller, controller, None)):
            nursery.start_soon(
                queue.commits.commit,
                lambda _, number=number: [ProducerIdsAllocated(number)],
                NOBODY,
                guard,
            )
            await trio.testing.wait_all_tasks_blocked()
        queue.store.is_open.set()
        await all_committed(queue, 5)
        assert guards == [queue.commits.guard] * 2 + [controller] + [queue.commits.guard]
        nursery.cancel_scope.cancel()


async def test_a_change_that_waits_too_long_is_refused(autojump_clock) -> None:
    """The store hangs: the client is told so, and the next one has its turn."""
    began_s = trio.current_time()
    refused: list[KafkaError] = []
    async with trio.open_nursery() as nursery:
        queue = Queue(nursery)

        async def wait(number: int) -> None:
            with pytest.raises(KafkaError, match="within 30 s") as told:
                await queue.commits.commit(lambda _: queue.decided.append(number) or [number])
            refused.append(told.value)

        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait, 0)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await trio.sleep_forever()
            waiting.start_soon(wait, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert queue.decided == [0]
        assert trio.current_time() - began_s == WAIT_S + 1
        assert [error.code for error in refused] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert queue.store.own == []
        nursery.cancel_scope.cancel()


class ForgetfulStore(ContestedStore):
    """A store that has deleted its commits up to a revision; the image has what they changed."""

    def __init__(self) -> None:
        super().__init__()
        self.image = MetadataImage(5, "abc", 77)

    async def read(self) -> MetadataImage:
        """The newest image."""
        return self.image

    def watch(self, revision: int) -> AsyncIterator[Commit]:
        """RevisionGone for a revision that is too old."""
        if revision < self.image.revision:
            raise RevisionGone
        return super().watch(0)


async def test_a_broker_that_missed_too_much_takes_the_image() -> None:
    """What is published is the difference; then the broker follows on from there."""
    published: list[tuple[int, list[Change]]] = []

    async def publish(image: MetadataImage, changes: Sequence[Change]) -> None:
        published.append((image.revision, list(changes)))

    commits = Commits(ForgetfulStore(), MetadataImage(1, "abc", 10), ThreadPool(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits.follow_store, publish)
        await trio.testing.wait_all_tasks_blocked()
        assert published == [(5, [ProducerIdsAllocated(77)])]
        assert commits.image.revision == 5
        nursery.cancel_scope.cancel()
