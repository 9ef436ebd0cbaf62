"""Commits of a broker that starts and doesn't follow the metadata store yet.

The broker reads the image once, and decides by it. If another broker commits first, this broker
follows the store from its image on, and decides again as soon as it has the newer commits. It
doesn't read the whole image again, because that takes long, and others could commit meanwhile again
and again.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing

import trio

from kwire.errors import KafkaError
from kwire.metadata.changes import Change, apply
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Guard, GuardFailed, MetadataStore, RevisionConflict, RevisionGone


async def commit_decision(
    store: MetadataStore,
    image: MetadataImage,
    decide: Callable[[MetadataImage], Sequence[Change]],
    guard: Guard,
) -> MetadataImage:
    """Commit the changes that ``decide`` returns for this image or a newer one; the image after it.

    Raises the errors of ``decide`` and of the store. Only a commit shows that an image has become
    too old. So if ``decide`` may return no changes because of an old image, the caller has to pass
    a new one.
    """
    follower = _Follower(store, image)
    async with trio.open_nursery() as nursery:
        outcome = await _outcome(store, decide, guard, follower, nursery)
        nursery.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def _outcome(
    store: MetadataStore,
    decide: Callable[[MetadataImage], Sequence[Change]],
    guard: Guard,
    follower: "_Follower",
    nursery: trio.Nursery,
) -> MetadataImage | Exception:
    """The image after the commit, or the error, which a nursery would put into a group."""
    is_following = False
    try:
        while True:
            image = follower.image
            changes = decide(image)
            if not changes:
                return image
            try:
                revision = await store.commit(image.revision, changes, guard)
                return apply(image, changes, revision)
            except RevisionConflict:
                if not is_following:
                    nursery.start_soon(follower.run)
                    is_following = True
                await follower.wait_newer(image.revision)
    except (KafkaError, GuardFailed) as error:
        return error


class _Follower:
    """Follows the store; ``image`` is the newest one."""

    def __init__(self, store: MetadataStore, image: MetadataImage) -> None:
        self.image = image
        self._store = store
        self._error: KafkaError | None = None
        self._changed = trio.Event()

    async def run(self) -> None:
        """Apply every commit of the store, forever."""
        while True:
            try:
                async with aclosing(self._store.watch(self.image.revision)) as commits:
                    async for commit in commits:
                        self._take_image(apply(self.image, commit.changes, commit.revision))
                return
            except RevisionGone:
                self._take_image(await self._store.read())
            except KafkaError as error:
                self._error = error
                self._take_image(self.image)
                return

    def _take_image(self, image: MetadataImage) -> None:
        # A decision by an older image would be refused, and be made again without end.
        assert image.revision >= self.image.revision, (image.revision, self.image.revision)
        self.image = image
        self._changed.set()
        self._changed = trio.Event()

    async def wait_newer(self, revision: int) -> None:
        """Wait for an image after a revision; raises the store's error if it fails."""
        while self.image.revision <= revision:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
