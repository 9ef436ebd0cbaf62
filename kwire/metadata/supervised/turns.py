"""The right of way of a worker whose commits come too late again and again.

A worker with many small changes has always just followed its own commit, so it is the first one to
decide the next. A worker that has to read an image first, such as one that starts, would lose every
race against that worker.

Rules:

- A worker that lost ``CONFLICTS`` times in a row has the right of way: commits of the others wait.
- The right of way ends with the worker's next commit, with its connection, or after ``LONGEST_S``.
- One worker has the right of way at a time. The waiting commits of the others then fail with a
  conflict, and the others decide again.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

import trio

from kwire.metadata.store import RevisionConflict

CONFLICTS = 3

LONGEST_S = 0.5
"""A worker reads an image, decides and commits in this time, unless the machine is very busy."""


class Turns:
    """The order in which the workers of one supervisor commit."""

    def __init__(self) -> None:
        self._conflicts: Counter[object] = Counter()
        self._holder: object | None = None
        self._until_s = 0.0
        self._ended = trio.Event()

    async def commit(self, worker: object, commit: Callable[[], Awaitable[int]]) -> int:
        """Wait for the worker's turn, and commit; errors as in ``MetadataStore.commit``."""
        await self._wait(worker)
        try:
            revision = await commit()
        except RevisionConflict:
            self._count_lost_commit(worker)
            raise
        assert worker is not self._holder or self._conflicts[worker] >= CONFLICTS
        self.leave(worker)
        return revision

    def leave(self, worker: object) -> None:
        """Forget a worker's lost commits, and end its right of way."""
        del self._conflicts[worker]
        if worker is self._holder:
            self._holder = None
            self._ended.set()

    def _count_lost_commit(self, worker: object) -> None:
        self._conflicts[worker] += 1
        if self._holder is None and self._conflicts[worker] >= CONFLICTS:
            self._holder = worker
            self._until_s = trio.current_time() + LONGEST_S
            self._ended = trio.Event()

    async def _wait(self, worker: object) -> None:
        while self._holder is not None and self._holder is not worker:
            holder, ended = self._holder, self._ended
            with trio.move_on_at(self._until_s):
                await ended.wait()
            if not ended.is_set() and holder is self._holder:
                self.leave(holder)
