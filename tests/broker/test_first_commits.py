"""A broker that starts decides on what it follows, so a flood of commits doesn't keep it out."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from kwire.broker.first_commits import commit_decision
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ClusterNamed, ProducerIdsAllocated
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Guard, GuardFailed, RevisionGone, Stream

GUARD = Guard("live/1", 1)


class FloodedStore:
    """A store to which another broker commits whenever somebody has read the image."""

    def __init__(self, path: Path) -> None:
        self.reads = 0
        self.inner = EmbeddedStore.open(path / FILE_NAME, is_durable=False)

    async def read(self) -> MetadataImage:
        """An image that is old when it has been read."""
        self.reads += 1
        image = await self.inner.read()
        if self.reads < 10:
            await self.inner.commit(image.revision, [ProducerIdsAllocated(self.reads)])
        return image

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Commit; the embedded store knows no sessions here."""
        assert guard == GUARD
        return await self.inner.commit(expected_revision, changes)

    def watch(self, revision: int) -> Stream:
        """Every commit after a revision."""
        return self.inner.watch(revision)

    async def close(self) -> None:
        """Close the file."""
        await self.inner.close()


@pytest.fixture
async def store(tmp_path):
    """A store that others write to."""
    opened = FloodedStore(tmp_path)
    yield opened
    await opened.close()


def _name(image: MetadataImage) -> list[Change]:
    return [ClusterNamed(f"after {image.next_producer_id}")] * (not image.cluster_id)


async def test_a_start_reads_once_and_follows(store) -> None:
    """It decides again on the image with the newer commits, and reads no second one."""
    with trio.fail_after(10):
        image = await commit_decision(store, await store.read(), _name, GUARD)
    assert (image.revision, image.cluster_id, store.reads) == (2, "after 1", 1)
    assert image == await store.inner.read()


async def test_a_start_that_missed_too_much_reads_again(store, monkeypatch) -> None:
    """The commits that it would follow are deleted."""
    watch = store.watch

    def forgetful(revision: int) -> Stream:
        if revision == 0:
            raise RevisionGone
        return watch(revision)

    monkeypatch.setattr(store, "watch", forgetful)
    with trio.fail_after(10):
        image = await commit_decision(store, await store.read(), _name, GUARD)
    assert (image.cluster_id, store.reads) == ("after 2", 2)


UNREACHABLE = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")


@pytest.mark.parametrize(
    ("of", "error"),
    [("commit", GuardFailed()), ("commit", UNREACHABLE), ("watch", UNREACHABLE)],
)
async def test_a_start_tells_what_the_store_says(store, monkeypatch, of, error) -> None:
    """As it is, and not in a group of errors."""

    def fail(*arguments: object) -> object:
        raise error

    monkeypatch.setattr(store, of, fail)
    with trio.fail_after(10), pytest.raises(type(error)):
        await commit_decision(store, await store.read(), _name, GUARD)
