"""What a broker asks of the place where the cluster's truth is kept.

Rules:

- Changes come in numbered commits; a commit succeeds only on top of the revision it was decided on.
- A commit that returned is durable.
- Everybody who watches sees the same commits in the same order.

The embedded store serves one process; a cluster puts an engine of its own in its place.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage


class RevisionConflict(Exception):
    """Somebody else committed first: decide again on the newer image."""


class RevisionGone(Exception):
    """The commits after a revision are no longer known one by one: read the image again."""


class StoreUnusable(Exception):
    """The store can't be opened or read; the text says which file or address and what to do."""


class StoreFull(StoreUnusable):
    """There is no room to open the store or to write to it; what is in it is as it was."""


class Commit(NamedTuple):
    """The changes that led to a revision."""

    revision: int
    changes: Sequence[Change]


class MetadataStore(Protocol):
    """Where metadata is kept."""

    async def read(self) -> MetadataImage:
        """The newest image."""

    async def commit(self, expected_revision: int, changes: Sequence[Change]) -> int:
        """Make ``changes`` durable as the next revision, and return its number.

        Raises RevisionConflict when the newest revision isn't ``expected_revision``, and KafkaError
        (KAFKA_STORAGE_ERROR) when the commit can't be kept; then nothing has changed.
        """

    def watch(self, revision: int) -> AsyncIterator[Commit]:
        """Every commit after ``revision``, the ones to come included; RevisionGone if too old."""
        ...

    async def close(self) -> None:
        """Let go of the store; what was committed stays."""
