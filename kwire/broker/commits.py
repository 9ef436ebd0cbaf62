"""Changes of metadata: one queue for those that are decided here, and following the store.

Rules:

- The image changes only by following the store. A change that was decided here has been followed
  when ``commit`` returns: the broker's answer is true when it leaves.
- One change at a time is decided, committed and followed. The others wait in the order in which
  they came, so that nobody is overtaken again and again; a task that is cancelled leaves the queue.
- Where somebody else has moved the store's revision, the change is decided again on the newer
  image. It keeps its turn meanwhile.
- No change is decided for a client that has closed its connection while it waited.
"""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TypeAlias

import trio

from kwire.budget.threads import Kind
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ConfigChanged, apply
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.store import MetadataStore, RevisionConflict

Decide: TypeAlias = Callable[[MetadataImage], Sequence[Change] | Awaitable[Sequence[Change]]]
"""Turns the image into changes; it may raise KafkaError. A decision about many things is a
coroutine, which lets others have their turn in between."""

Publish: TypeAlias = Callable[[MetadataImage, Sequence[Change]], Awaitable[None]]
"""Makes the changes that led to an image felt on this broker."""

TOPICS_PER_TURN = 25
"""After so many topics that are decided others have their turn."""

CHANGES_PER_TURN = 200
"""More changes than these are applied to the image in a thread."""


def nobody_is_gone() -> bool:
    """For changes that no client asked for."""
    return False


async def changes_broker(changes: Sequence[Change]) -> bool:
    """Whether settings of brokers are among the changes; other tasks have their turn in between."""
    for number, change in enumerate(changes, 1):
        if number % CHANGES_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
        if isinstance(change, ConfigChanged) and change.resource_type == ConfigResourceType.BROKER:
            return True
    return False


class Commits:
    """The changes of metadata that this broker makes and follows; ``follow`` has to run."""

    def __init__(self, store: MetadataStore, image: MetadataImage, threads: Kind) -> None:
        self.image = image
        self._store = store
        self._threads = threads
        self._turn = trio.StrictFIFOLock()
        self._followed = trio.Condition()
        self._followed_revision = image.revision

    @property
    def waiting(self) -> int:
        """How many changes wait for their turn."""
        return self._turn.statistics().tasks_waiting

    async def commit(self, decide: Decide, is_gone: Callable[[], bool] = nobody_is_gone) -> None:
        """Make a decision so: decide, commit, and follow it.

        ``decide`` is asked again if somebody else committed meanwhile. ``is_gone`` tells whether
        the client that asked for it has closed its connection. Raises KafkaError: what ``decide``
        and the store raise, NETWORK_EXCEPTION where the client is gone.
        """
        async with self._turn:
            while True:
                if is_gone():
                    raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The client is gone.")
                image = self.image
                decided = decide(image)
                changes = await decided if isawaitable(decided) else decided
                if not changes:
                    return
                try:
                    revision = await self._store.commit(image.revision, changes)
                except RevisionConflict:
                    await self._wait_followed(image.revision + 1)
                    continue
                await self._wait_followed(revision)
                return

    async def follow(self, publish: Publish) -> None:
        """Apply every commit of the store to the image and publish it, for ever."""
        async for commit in self._store.watch(self.image.revision):
            before, changes, revision = self.image, commit.changes, commit.revision
            if len(changes) > CHANGES_PER_TURN:
                self.image = await self._threads.run(apply, before, changes, revision)
            else:
                self.image = apply(before, changes, revision)
            await publish(self.image, changes)
            self._followed_revision = revision
            async with self._followed:
                self._followed.notify_all()

    async def _wait_followed(self, revision: int) -> None:
        async with self._followed:
            while self._followed_revision < revision:
                await self._followed.wait()
