"""A queue of changes, before a store in memory to which others may write as well."""

from collections.abc import AsyncIterator, Sequence
from random import Random

import trio
import trio.testing

from kwire.broker.commits import Commits
from kwire.broker.proposals import NOBODY, Asker
from kwire.budget.thread_pool import ThreadPool
from kwire.metadata.changes import Change, ProducerIdsAllocated
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, Guard, RevisionConflict

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

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
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


class Client:
    """A connection that has changed so much."""

    def __init__(self, changes: int = 0) -> None:
        self.changes = changes
        self.has_left = False

    def is_gone(self) -> bool:
        """Whether the test has closed it."""
        return self.has_left


class Queue:
    """The commits of one broker, and what has been published."""

    def __init__(
        self, nursery: trio.Nursery, rivals: int = 0, store: ContestedStore | None = None
    ) -> None:
        self.store = store or ContestedStore(rivals)
        self.commits = Commits(self.store, MetadataImage(), ThreadPool(1), Random(1))
        self.decided: list[int] = []
        self.published: list[int] = []
        self.nursery = nursery
        nursery.start_soon(self.commits.follow_store, self._publish)
        nursery.start_soon(self.commits.make_commits)

    async def _publish(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        await trio.lowlevel.checkpoint()
        self.published.append(image.revision)

    async def add(self, number: int, asker: Asker = NOBODY) -> trio.CancelScope:
        """Begin a commit, and wait until it has its place in the queue."""
        scope = trio.CancelScope()

        def decide(_: MetadataImage) -> list[Change]:
            self.decided.append(number)
            return [ProducerIdsAllocated(number)]

        async def commit() -> None:
            with scope:
                await self.commits.commit(decide, asker)

        self.nursery.start_soon(commit)
        await trio.testing.wait_all_tasks_blocked()
        return scope


async def all_committed(queue: Queue, count: int) -> None:
    """Wait until so many changes of this broker are committed."""
    with trio.fail_after(10):
        while len(queue.store.own) < count:
            await trio.lowlevel.checkpoint()
