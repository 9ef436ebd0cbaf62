"""Changes of metadata: a queue for decisions of this broker, and a task that follows the store.

Rules:

- The image changes only when this broker follows the store. ``commit`` returns after the broker has
  followed its change, so the broker's answer is true when it leaves.
- One change at a time is decided, committed and followed. The others wait in the order of their
  arrival, so no change is overtaken again and again. A cancelled task leaves the queue.
- If another node has moved the store's revision, the change is decided again on the newer image. It
  keeps its turn meanwhile.
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
"""Turns the image into changes, and may raise KafkaError. A decision about many things is a
coroutine, which lets other tasks have their turn in between."""

Publish: TypeAlias = Callable[[MetadataImage, Sequence[Change]], Awaitable[None]]
"""Applies the changes that led to an image to this broker."""

TOPICS_PER_TURN = 25
"""After decisions about this many topics, other tasks have their turn."""

CHANGES_PER_TURN = 200
"""A thread applies a commit with more changes than these to the image."""


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
        """Make a decision true: decide, commit, and follow the commit.

        ``decide`` is called again if another node committed meanwhile. ``is_gone`` says whether the
        client that asked for the change has closed its connection. Raises KafkaError: what
        ``decide`` and the store raise, and NETWORK_EXCEPTION if the client is gone.
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
