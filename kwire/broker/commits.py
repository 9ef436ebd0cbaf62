"""Changes of metadata: the decisions of this broker, and a task that follows the store.

Rules:

- The image changes only when this broker follows the store. ``commit`` returns after the broker has
  followed its change, so the broker's answer is true when it leaves.
- One task (``make``) decides and commits, in the order of arrival. While a commit is on its way,
  further decisions wait. Then the next commit takes as many of them as it may: each is decided on
  the image that the ones before it make. So a broker has one commit in flight, however many ask.
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

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from inspect import isawaitable
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import trio

from kwire.budget.threads import Kind
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.acls import AclsCreated, AclsDeleted
from kwire.metadata.changes import Change, ConfigChanged, apply, size_of
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.store import (
    Commit,
    Guard,
    GuardFailed,
    MetadataStore,
    RevisionConflict,
    RevisionGone,
)

if TYPE_CHECKING:
    from kwire.security.authorizer import Authorizer

Decide: TypeAlias = Callable[[MetadataImage], Sequence[Change] | Awaitable[Sequence[Change]]]
"""Turns the image into changes, and may raise KafkaError. A decision about many things is a
coroutine, which lets other tasks have their turn in between."""

Publish: TypeAlias = Callable[[MetadataImage, Sequence[Change]], Awaitable[None]]
"""Applies the changes that led to an image to this broker."""

TOPICS_PER_TURN = 25
"""After decisions about this many topics, other tasks have their turn."""

CHANGES_PER_TURN = 200
"""A thread applies a commit with more changes than these to the image."""

MOST_DECISIONS = 64
"""So many decisions are in one commit; nor does one join that has ``CHANGES_PER_TURN`` changes."""

MOST_BYTES = 1 << 20
"""A decision doesn't join others if their changes are larger together; alone it may be larger."""

WAIT_S = 30.0
"""So long a decision waits until the store has it; Kafka's clients give up after this time, too."""

FIRST_PAUSE_S = 0.002
LAST_PAUSE_S = 0.05
"""The longest pause after the first conflict, and after many in a row."""


def nobody_is_gone() -> bool:
    """The ``is_gone`` of changes that no client asked for: always False."""
    return False


async def changes_broker(changes: Sequence[Change]) -> bool:
    """Whether settings of brokers are among the changes; other tasks have their turn in between."""
    for number, change in enumerate(changes, 1):
        if number % CHANGES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        if isinstance(change, ConfigChanged) and change.resource_type == ConfigResourceType.BROKER:
            return True
    return False


async def tell_authorizer(authorizer: "Authorizer", changes: Sequence[Change]) -> None:
    """Have the authorizer take the ACLs of a commit; other tasks have their turn in between."""
    for change in changes:
        if isinstance(change, AclsCreated | AclsDeleted):
            authorizer.apply(change)
            await trio.lowlevel.checkpoint()


class _Proposal:
    """A decision that waits for its commit."""

    __slots__ = (
        *("decide", "done", "error", "guard", "is_alone", "is_given_up", "is_gone"),
        *("rests_on_others", "scope", "written"),
    )

    def __init__(self, decide: Decide, is_gone: Callable[[], bool], guard: Guard | None) -> None:
        self.decide = decide
        self.is_gone = is_gone
        self.guard = guard
        self.error: Exception | None = None
        self.is_alone = False  # after a commit with others has failed
        self.is_given_up = False
        self.rests_on_others = False
        self.scope: trio.CancelScope | None = None
        self.written = trio.Event()
        self.done = trio.Event()

    def finish(self) -> None:
        """Tell the one who waits."""
        self.written.set()
        self.done.set()


class _Batch:
    """The decisions of one commit: ``image`` is what they make, ``changes`` how."""

    def __init__(self, image: MetadataImage, guard: Guard | None) -> None:
        self.base = image
        self.image = image
        self.guard = guard
        self.proposals: list[_Proposal] = []
        self.changes: list[Change] = []
        self.size_bytes = 0
        self.scope = trio.CancelScope()

    @property
    def is_full(self) -> bool:
        """Whether no further decision joins."""
        return (
            len(self.proposals) >= MOST_DECISIONS
            or len(self.changes) >= CHANGES_PER_TURN
            or self.size_bytes >= MOST_BYTES
            or (bool(self.proposals) and self.proposals[0].is_alone)
        )

    def takes(self, proposal: _Proposal, guard: Guard | None) -> bool:
        """Whether a decision that is made under ``guard`` may join."""
        return guard == self.guard and not (proposal.is_alone and self.proposals)

    def finish(self, error: KafkaError | None = None) -> None:
        """Tell everybody; each gets an error of its own, because a task adds to what it raises."""
        for proposal in self.proposals:
            if error is not None:
                proposal.error = KafkaError(error.code, error.message)
                proposal.error.__cause__ = error
            proposal.finish()


class Commits:
    """The changes of metadata that this broker makes and follows.

    ``make`` and ``follow`` have to run.
    """

    def __init__(
        self,
        store: MetadataStore,
        image: MetadataImage,
        threads: Kind,
        random: Random | None = None,
    ) -> None:
        self.image = image
        self._store = store
        self._threads = threads
        self._random = random or Random()
        self._waiting: deque[_Proposal] = deque()
        self._asked = trio.Event()
        self._batch: _Batch | None = None
        self._conflicts = 0
        self._followed = trio.Condition()
        self._followed_revision = image.revision
        self.guard: Guard | None = None
        """The session of this broker in a cluster; its commits fail when the session is over."""

    @property
    def waiting(self) -> int:
        """How many changes wait for their turn."""
        return len(self._waiting)

    async def commit(
        self,
        decide: Decide,
        is_gone: Callable[[], bool] = nobody_is_gone,
        guard: Guard | None = None,
    ) -> None:
        """Make a decision true: decide, commit, and follow the commit.

        ``decide`` is called again if another node committed meanwhile; another task calls it.
        ``is_gone`` says whether the client that asked for the change has closed its connection.
        ``guard`` is the controller's for its own changes. Raises what ``decide`` and the store
        raise, and KafkaError: NETWORK_EXCEPTION if the client is gone, REQUEST_TIMED_OUT if the
        guard is over or if the store doesn't have the change after ``WAIT_S``.
        """
        proposal = _Proposal(decide, is_gone, guard)
        self._waiting.append(proposal)
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
        if proposal.error is not None:
            raise proposal.error

    def _give_up(self, proposal: _Proposal) -> None:
        """Nobody waits for a decision any more. A commit that others wait for goes on."""
        proposal.is_given_up = True
        if proposal in self._waiting:
            self._waiting.remove(proposal)
        if proposal.scope is not None:
            proposal.scope.cancel()
        batch = self._batch
        if batch is not None and all(one.is_given_up for one in batch.proposals):
            batch.scope.cancel()

    async def make(self) -> None:
        """Decide and commit what is asked for, for ever."""
        while True:
            while self._waiting:
                first = self._waiting[0]
                batch = _Batch(self.image, first.guard or self.guard)
                await self._decide_some(batch)
                if batch.proposals:
                    self._batch = batch
                    with batch.scope:
                        await self._write(batch)
                    self._batch = None
                del first, batch  # they hold large requests, which are freed in a thread
            self._asked = trio.Event()
            await self._asked.wait()

    async def _decide_some(self, batch: _Batch) -> None:
        """Decide what fits into one commit."""
        while self._waiting and not batch.is_full:
            proposal = self._waiting[0]
            if not batch.takes(proposal, proposal.guard or self.guard):
                return
            self._waiting.popleft()
            proposal.rests_on_others = bool(batch.changes)
            changes = await self._decided(proposal, batch.image)
            if proposal.is_given_up:
                continue
            if not changes and not batch.changes:
                proposal.finish()
                continue
            size_bytes = size_of(changes)
            if batch.proposals and batch.size_bytes + size_bytes > MOST_BYTES:
                self._waiting.appendleft(proposal)
                return
            batch.proposals.append(proposal)
            batch.changes += changes
            batch.size_bytes += size_bytes
            if changes and self._waiting and not batch.is_full:
                batch.image = apply(batch.image, changes, batch.base.revision)

    async def _decided(self, proposal: _Proposal, image: MetadataImage) -> Sequence[Change]:
        """The changes of one decision; none if it fails, then its ``error`` says why."""
        proposal.error = None
        changes: Sequence[Change] = ()
        try:
            if proposal.is_gone():
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The client is gone.")
            with trio.CancelScope() as proposal.scope:
                decided = proposal.decide(image)
                changes = await decided if isawaitable(decided) else decided
        except Exception as error:
            proposal.error = error  # it is raised in the task that asked
        proposal.scope = None
        return changes

    async def _write(self, batch: _Batch) -> None:
        """Commit and follow; after a conflict, put the decisions back in their places."""
        try:
            revision = await self._store.commit(batch.base.revision, batch.changes, batch.guard)
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
            self._conflicts = 0
            for proposal in batch.proposals:
                proposal.written.set()
            await self._wait_followed(revision)
            batch.finish()

    def _put_back(self, batch: _Batch) -> None:
        """Give the decisions of a commit that failed their places in the queue again."""
        left = [proposal for proposal in batch.proposals if not proposal.is_given_up]
        self._waiting.extendleft(reversed(left))

    async def _fail(self, batch: _Batch, error: KafkaError) -> None:
        """Tell everybody that their commit failed, or that its outcome is unknown."""
        for proposal in batch.proposals:
            if not proposal.is_given_up:
                await self._decide_apart(proposal)
        batch.finish(error)

    async def _decide_apart(self, proposal: _Proposal) -> None:
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

    async def follow(self, publish: Publish) -> None:
        """Apply every commit of the store to the image and publish it, for ever."""
        while True:
            try:
                async with aclosing(self._store.watch(self.image.revision)) as commits:
                    async for commit in commits:
                        await self._apply(publish, commit)
                return
            except RevisionGone:
                await self._catch_up(publish)

    async def _apply(self, publish: Publish, commit: Commit) -> None:
        before, changes, revision = self.image, commit.changes, commit.revision
        if len(changes) > CHANGES_PER_TURN:
            image = await self._threads.run(apply, before, changes, revision)
        else:
            image = apply(before, changes, revision)
        await self._take(publish, image, changes)

    async def _catch_up(self, publish: Publish) -> None:
        """Take the newest image as a whole: the commits that lead to it are deleted."""
        from kwire.metadata.difference import difference

        image = await self._store.read()
        await self._take(publish, image, difference(self.image, image))

    async def _take(
        self, publish: Publish, image: MetadataImage, changes: Sequence[Change]
    ) -> None:
        self.image = image
        await publish(image, changes)
        self._followed_revision = image.revision
        async with self._followed:
            self._followed.notify_all()

    async def _wait_followed(self, revision: int) -> None:
        async with self._followed:
            while self._followed_revision < revision:
                await self._followed.wait()
