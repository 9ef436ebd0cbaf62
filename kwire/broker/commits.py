"""Changes of metadata: the decisions of this broker, and a task that follows the store.

Rules:

- The image changes only when this broker follows the store. ``commit`` returns after the broker has
  followed its change, and made and deleted its logs. So the broker's answer is true when it leaves.
  Only a decision of the broker itself that makes no logs doesn't wait for those of its commit.
- Further commits are made while the logs of a large one are made. But while very many logs are left
  to make, a decision about many partitions is held.
- One task (``make_commits``) decides and commits, in the order that ``proposals`` gives. While a
  commit is on its way, further decisions wait. Then the next commit takes as many of them as it
  may: each is decided on the image that the ones before it make. So a broker has one commit in
  flight, however many ask.
- If another node has moved the store's revision, all decisions of the commit are made again on the
  newer image, after a random pause that grows from one conflict to the next. They keep their turn.
- A decision that only holds because of others in its commit, like "it exists already", is answered
  with them: if their commit fails, it was never so. Then each is made again, for a commit of its
  own. So what one client asks for, however large, never fails the changes of others.
- If the store doesn't answer, or takes too long, decisions that rest on others are made again on
  the newest image that is known, without a commit. So no answer tells what isn't known to be true.
- No change is decided for a client that has closed its connection while it waited. A cancelled task
  leaves the queue, and one that waits too long is told so.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from inspect import isawaitable
from random import Random
from typing import Protocol, TypeAlias

import trio

from kwire.broker.proposals import (
    FEW_LOGS,
    MOST_BYTES,
    MOST_LOGS_LEFT,
    NOBODY,
    Asker,
    Batch,
    Decide,
    Proposal,
    Queue,
)
from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    apply,
    size_of,
)
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.store import (
    Commit,
    Guard,
    GuardFailed,
    MetadataStore,
    RevisionConflict,
    RevisionGone,
)


class Logs(Protocol):
    """The logs of a large commit that are being made and deleted."""

    done: trio.Event

    @property
    def left(self) -> int:
        """How many are left."""


Publish: TypeAlias = Callable[[MetadataImage, Sequence[Change]], Awaitable[Logs | None]]
"""Applies the changes that led to an image to this broker. Returns the logs that are still to be
made and deleted; None if there are none."""

_OF_LOGS = (TopicCreated, PartitionsAdded, TopicDeleted)
"""Changes after which logs are made or deleted."""

TOPICS_PER_TURN = 25
"""After decisions about this many topics, other tasks have their turn."""

CHANGES_PER_TURN = 200
"""A thread applies a commit with more changes than these to the image."""

WAIT_S = 30.0
"""So long a decision waits until the store has it; Kafka's clients give up after this time, too."""

FIRST_PAUSE_S = 0.002
LAST_PAUSE_S = 0.05
"""The longest pause after the first conflict, and after many in a row."""


async def changes_broker(changes: Sequence[Change]) -> bool:
    """Whether settings of brokers are among the changes; other tasks have their turn in between."""
    for number, change in enumerate(changes, 1):
        if number % CHANGES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        if isinstance(change, ConfigChanged) and change.resource_type == ConfigResourceType.BROKER:
            return True
    return False


def new_partitions(changes: Sequence[Change]) -> int:
    """How many partitions these changes create."""
    return sum(
        len((change.topic if isinstance(change, TopicCreated) else change).partitions)
        for change in changes
        if isinstance(change, TopicCreated | PartitionsAdded)
    )


class Commits:
    """The changes of metadata that this broker makes and follows.

    ``make_commits`` and ``follow_store`` have to run.
    """

    def __init__(
        self,
        store: MetadataStore,
        image: MetadataImage,
        threads: ThreadPool,
        random: Random | None = None,
    ) -> None:
        self.image = image
        self.store = store
        self._threads = threads
        self._random = random or Random()
        self._waiting = Queue()
        self._asked = trio.Event()
        self._batch: Batch | None = None
        self._conflicts = 0
        self._followed = trio.Condition()
        self._followed_revision = image.revision
        self._unfinished: dict[int, Logs] = {}  # by the revisions of their commits
        self._finishing: trio.Nursery
        self._forgetting: trio.Nursery
        self.guard: Guard | None = None
        """The session of this broker in a cluster; its commits fail when the session is over."""

    @property
    def waiting(self) -> int:
        """How many changes wait for their turn."""
        return len(self._waiting)

    async def commit(
        self,
        decide: Decide,
        asker: Asker = NOBODY,
        guard: Guard | None = None,
    ) -> None:
        """Make a decision true: decide, commit, and follow the commit.

        ``decide`` is called again if another node committed meanwhile; another task calls it.
        ``asker`` is the connection that asks for the change. ``guard`` is the controller's for its
        own changes. Raises what ``decide`` and the store
        raise, and KafkaError: NETWORK_EXCEPTION if the client is gone, REQUEST_TIMED_OUT if the
        guard is over or if the store doesn't have the change after ``WAIT_S``.
        """
        proposal = self._waiting.add(decide, asker, guard)
        self._asked.set()
        try:
            with trio.move_on_after(WAIT_S):
                await proposal.written.wait()
            if not proposal.written.is_set():
                self._give_up(proposal)
                await self._decide_apart(proposal)
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"the metadata store has not taken the change within {WAIT_S:g} s",
                )
            await proposal.done.wait()
        except BaseException:
            self._give_up(proposal)
            raise
        error, proposal.error = proposal.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # or the error and this frame would refer to each other

    def _give_up(self, proposal: Proposal) -> None:
        """Nobody waits for a decision any more. A commit that others wait for goes on."""
        proposal.is_given_up = True
        self._waiting.give_up(proposal)
        if proposal.scope is not None:
            proposal.scope.cancel()
        batch = self._batch
        if batch is not None and all(one.is_given_up for one in batch.proposals):
            batch.scope.cancel()

    async def make_commits(self) -> None:
        """Decide and commit what is asked for, for ever."""
        async with trio.open_nursery() as self._finishing:
            while True:
                while self._waiting:
                    await self._make_one()
                self._asked = trio.Event()
                await self._asked.wait()

    async def _make_one(self) -> None:
        """Make one commit; what it holds of large requests is freed when this returns."""
        first = self._waiting.first()
        batch = Batch(self.image, first.guard or self.guard)
        await self._decide_some(batch)
        if batch.proposals:
            assert self._batch is None, batch.base.revision  # one commit at a time
            self._batch = batch
            with batch.scope:
                await self._write(batch)
            self._batch = None

    async def _decide_some(self, batch: Batch) -> None:
        """Decide what fits into one commit."""
        while self._waiting and not batch.is_full:
            proposal = self._waiting.first()
            if not batch.takes(proposal, proposal.guard or self.guard):
                return
            self._waiting.remove_from_queue(proposal)
            proposal.rests_on_others = bool(batch.changes)
            changes = await self._decided(proposal, batch.image)
            if proposal.is_given_up:
                continue
            size_bytes = size_of(changes)
            proposal.count_changes(size_bytes)
            if not changes and not batch.changes:
                proposal.finish()
                continue
            if batch.proposals and batch.size_bytes + size_bytes > MOST_BYTES:
                self._waiting.put_back(proposal)
                return
            if self._has_to_wait(proposal, changes):
                self._waiting.hold_back(proposal, new_partitions(changes))
                continue
            is_own = bool(changes) and proposal.asker is NOBODY
            proposal.waits_for_logs = not is_own or any(isinstance(c, _OF_LOGS) for c in changes)
            batch.proposals.append(proposal)
            batch.changes += changes
            batch.size_bytes += size_bytes
            if changes and self._waiting and not batch.is_full:
                batch.image = apply(batch.image, changes, batch.base.revision)

    def _has_to_wait(self, proposal: Proposal, changes: Sequence[Change]) -> bool:
        """Whether a decision makes many logs, while many of earlier commits are left to make."""
        room = self._room()
        if room == MOST_LOGS_LEFT or proposal.asker is NOBODY:
            return False
        new = new_partitions(changes)
        return new > FEW_LOGS and new > room

    def _room(self) -> int:
        """For how many more logs there is room."""
        return MOST_LOGS_LEFT - sum(logs.left for logs in self._unfinished.values())

    def look_at_held(self) -> None:
        """Decide what was held, if there is room for its logs now. Called when logs were made."""
        if self._waiting.release(self._room()):
            self._asked.set()

    async def _decided(self, proposal: Proposal, image: MetadataImage) -> Sequence[Change]:
        """The changes of one decision; none if it fails, then its ``error`` says why."""
        proposal.error = None
        changes: Sequence[Change] = ()
        try:
            if proposal.asker.is_gone():
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The client is gone.")
            with trio.CancelScope() as proposal.scope:
                decided = proposal.decide(image)
                changes = await decided if isawaitable(decided) else decided
        except Exception as error:
            proposal.error = error  # it is raised in the task that asked
        proposal.scope = None
        return changes

    async def _write(self, batch: Batch) -> None:
        """Commit and follow; after a conflict, put the decisions back in their places."""
        try:
            revision = await self.store.commit(batch.base.revision, batch.changes, batch.guard)
        except RevisionConflict:
            self._put_back(batch)
            await self._pause_after_conflict(batch.base.revision)
        except GuardFailed as error:
            told = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "This broker's session is over.")
            told.__cause__ = error
            await self._fail(batch, told)
        except KafkaError as error:
            if len(batch.proposals) == 1 or error.code == ErrorCode.REQUEST_TIMED_OUT:
                await self._fail(batch, error)
                return
            for proposal in batch.proposals:
                proposal.is_alone = True
            self._put_back(batch)
        else:
            assert revision > batch.base.revision, (revision, batch.base.revision)
            self._conflicts = 0
            for proposal in batch.proposals:
                proposal.written.set()
            await self._wait_followed(revision)
            logs = self._unfinished.get(revision)
            if logs is None:
                batch.finish()
            else:
                batch.followed()
                self._finishing.start_soon(self._finish_later, batch, logs)

    async def _finish_later(self, batch: Batch, logs: Logs) -> None:
        """Wake those who asked for a commit when its logs are made and deleted."""
        await logs.done.wait()
        batch.finish()

    def _put_back(self, batch: Batch) -> None:
        """Give the decisions of a commit that failed their places in the queue again."""
        for proposal in batch.proposals:
            if not proposal.is_given_up:
                self._waiting.put_back(proposal)

    async def _fail(self, batch: Batch, error: KafkaError) -> None:
        """Tell everybody that their commit failed, or that its outcome is unknown."""
        for proposal in batch.proposals:
            if not proposal.is_given_up:
                await self._decide_apart(proposal)
        batch.finish(error)

    async def _decide_apart(self, proposal: Proposal) -> None:
        """Have a decision without a commit rest on what is known to be true, not on others."""
        if proposal.rests_on_others:
            proposal.rests_on_others = False
            await self._decided(proposal, self.image)

    async def _pause_after_conflict(self, revision: int) -> None:
        """Wait until the newer image is here, and then for a random time."""
        await self._wait_followed(revision + 1)
        longest_s = min(FIRST_PAUSE_S * 2**self._conflicts, LAST_PAUSE_S)
        self._conflicts = min(self._conflicts + 1, 10)
        await trio.sleep(self._random.random() * longest_s)

    async def follow_store(self, publish: Publish) -> None:
        """Apply every commit of the store to the image and publish it, for ever."""
        async with trio.open_nursery() as self._forgetting:
            while True:
                try:
                    await self._follow_from_here(publish)
                    return
                except RevisionGone:
                    await self._catch_up(publish)

    async def _follow_from_here(self, publish: Publish) -> None:
        async with aclosing(self.store.watch(self.image.revision)) as commits:
            async for commit in commits:
                await self._apply_commit(publish, commit)

    async def _apply_commit(self, publish: Publish, commit: Commit) -> None:
        before, changes, revision = self.image, commit.changes, commit.revision
        if len(changes) > CHANGES_PER_TURN:
            image = await self._threads.run(apply, before, changes, revision)
        else:
            image = apply(before, changes, revision)
        await self._publish_image(publish, image, changes)

    async def _catch_up(self, publish: Publish) -> None:
        """Take the newest image as a whole: the commits that lead to it are deleted."""
        from kwire.metadata.difference import difference

        image = await self.store.read()
        await self._publish_image(publish, image, difference(self.image, image), is_whole=True)

    async def _publish_image(
        self,
        publish: Publish,
        image: MetadataImage,
        changes: Sequence[Change],
        *,
        is_whole: bool = False,
    ) -> None:
        """Publish an image; one that is taken as a whole may be that of several commits."""
        assert image.revision >= self.image.revision, (image.revision, self.image.revision)
        self.image = image
        logs = await publish(image, changes)
        if logs is not None and is_whole:
            await logs.done.wait()
        elif logs is not None:
            self._unfinished[image.revision] = logs
            self._forgetting.start_soon(self._forget, image.revision, logs)
        self._followed_revision = image.revision
        async with self._followed:
            self._followed.notify_all()

    async def _forget(self, revision: int, logs: Logs) -> None:
        """Forget the logs of a commit when they are made and deleted; then others have room."""
        await logs.done.wait()
        del self._unfinished[revision]
        self.look_at_held()

    async def _wait_followed(self, revision: int) -> None:
        async with self._followed:
            while self._followed_revision < revision:
                await self._followed.wait()
