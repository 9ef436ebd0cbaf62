"""What stands before a store of metadata: it holds commits, and refuses some of them."""

from collections.abc import Callable, Sequence

import trio

from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.store import Guard, MetadataStore

Refuse = Callable[[Sequence[Change]], object]


class Sieve:
    """Opens with ``is_open``; ``refuse`` raises for what stays out."""

    def __init__(self, store: MetadataStore, refuse: Refuse = lambda changes: None) -> None:
        self.is_open = trio.Event()
        self.tried: list[int] = []
        """How many changes each commit had."""
        self._commit = store.commit
        self._refuse = refuse
        store.commit = self.commit  # type: ignore[method-assign]

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Refuse it, or have the store write it."""
        self.tried.append(len(changes))
        await self.is_open.wait()
        self._refuse(changes)
        return await self._commit(expected_revision, changes, guard)


def refusing(error: KafkaError) -> Refuse:
    """Refuses every commit with this error."""

    def refuse(changes: Sequence[Change]) -> None:
        raise error

    return refuse


def refuse_commits(store: MetadataStore, error: KafkaError) -> None:
    """Refuse every further commit, as a full disk does."""
    Sieve(store, refusing(error)).is_open.set()
