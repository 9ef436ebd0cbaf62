"""The interface of a metadata store, which keeps the changes of the cluster's metadata.

Rules:

- A commit writes changes as the next revision. It succeeds only if the store's newest revision is
  the one on which the changes were decided.
- The changes are durable when ``commit`` returns.
- All watchers see the same commits in the same order.

The embedded store serves one process; the store of a cluster will implement the same interface.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage


class RevisionConflict(Exception):
    """Another commit came first: the caller has to decide again on the newer image."""


class RevisionGone(Exception):
    """The store no longer has every commit after a revision: the caller has to read the image."""


class StoreUnusable(Exception):
    """The store can't be opened or read; the text names the file or address and a remedy."""


class StoreFull(StoreUnusable):
    """There is no room to open the store or to write to it; what is in it is as it was."""


class Commit(NamedTuple):
    """The changes that made a revision out of the one before."""

    revision: int
    changes: Sequence[Change]


class MetadataStore(Protocol):
    """A store of metadata; see the rules above."""

    async def read(self) -> MetadataImage:
        """The newest image."""

    async def commit(self, expected_revision: int, changes: Sequence[Change]) -> int:
        """Make ``changes`` durable as the next revision, and return its number.

        Raises RevisionConflict when the newest revision isn't ``expected_revision``, and KafkaError
        (KAFKA_STORAGE_ERROR) when the commit can't be written. Neither error changes the store.
        """

    def watch(self, revision: int) -> AsyncIterator[Commit]:
        """Every commit after ``revision``, future ones included.

        Raises RevisionGone if the store no longer has all of them.
        """
        ...

    async def close(self) -> None:
        """Close the store; the commits stay in it."""
