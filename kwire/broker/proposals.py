"""Decisions that wait for their commit: which one is next, and which ones share a commit.

Rules:

- The decision of the connection that has changed least comes first, in a commit with decisions of
  similar connections. Of equal ones, the first to arrive comes first. Every eighth decision is the
  one that has waited longest.
- However much a connection has changed, it counts as at most ``CREDIT`` changes more than a new
  one. A new connection begins with the changes of the last connection of its user or host
  (``budget.work.Turns``).
- A broker's own decisions come before those of clients. They don't wait for logs that clients have
  made in the same commit: a replica that lags would stay in sync meanwhile.
"""

from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from operator import attrgetter
from typing import Protocol, TypeAlias

import trio

from kwire.budget.fair_queue import OLDEST_EVERY
from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Guard

Decide: TypeAlias = Callable[[MetadataImage], Sequence[Change] | Awaitable[Sequence[Change]]]
"""Returns the changes to make to an image, and may raise KafkaError. A long decision is a
coroutine, so that other tasks have their turn in between."""

CHANGES_PER_COMMIT = 200
"""No decision joins a commit that has so many changes."""

MOST_DECISIONS = 64
"""No decision joins a commit that has so many decisions."""

MOST_BYTES = 1 << 20
"""Decisions share a commit only up to this size of their changes. A single one may be larger."""

BYTES_OF_A_CHANGE = 200
"""A decision counts as one more change for each so many bytes of its changes."""

CREDIT = 100
"""By how many changes a quiet connection may be ahead of the busiest one."""

ALIKE = 4
"""Decisions share a commit only if the changes of their connections differ by at most this. The
reason: all logs of a commit are created before any of its clients gets an answer."""

MOST_LOGS_LEFT = 10_000
"""While earlier commits still have to create and delete so many logs, no commit adds many more."""

FEW_LOGS = 8
"""A commit of so few new partitions never waits for the logs of other commits."""


class Asker(Protocol):
    """The connection that asks for a change; ``changes`` counts what it has changed so far."""

    changes: int

    def is_gone(self) -> bool:
        """Whether the client has closed its connection."""


class _Nobody:
    changes = 0

    def is_gone(self) -> bool:
        return False


NOBODY = _Nobody()
"""The asker of changes that no client asked for."""


class Proposal:
    """A decision that waits for its commit."""

    __slots__ = (
        *("asker", "decide", "done", "error", "guard", "is_alone", "is_given_up", "logs", "number"),
        *("rank", "rests_on_others", "scope", "waits_for_logs", "written"),
    )

    def __init__(
        self, decide: Decide, asker: Asker, guard: Guard | None, rank: int, number: int
    ) -> None:
        self.decide = decide
        self.asker = asker
        self.rank = rank
        self.number = number
        self.guard = guard
        self.error: Exception | None = None
        self.is_alone = False  # true after a commit with other decisions has failed
        self.is_given_up = False
        self.logs = 0  # how many logs a held decision would create
        self.rests_on_others = False
        self.waits_for_logs = True  # until all logs of its commit are created
        self.scope: trio.CancelScope | None = None
        self.written = trio.Event()
        self.done = trio.Event()

    @property
    def place(self) -> tuple[int, int]:
        """The place in the queue; the smallest comes first."""
        return self.rank, self.number

    def count_changes(self, size_bytes: int) -> None:
        """Count the changes for their connection. A second call replaces the first."""
        if self.asker is not NOBODY:
            assert self.rank >= 0, self.rank  # only the broker's own come before all clients
            self.asker.changes = self.rank + 1 + size_bytes // BYTES_OF_A_CHANGE

    def finish(self) -> None:
        """Wake the task that waits for the decision."""
        self.written.set()
        self.done.set()


class Batch:
    """The decisions of one commit: their ``changes``, and the ``image`` after these changes."""

    def __init__(self, image: MetadataImage, guard: Guard | None) -> None:
        self.base = image
        self.image = image
        self.guard = guard
        self.proposals: list[Proposal] = []
        self.changes: list[Change] = []
        self.size_bytes = 0
        self.scope = trio.CancelScope()

    @property
    def is_full(self) -> bool:
        """Whether no further decision may join."""
        return (
            len(self.proposals) >= MOST_DECISIONS
            or len(self.changes) >= CHANGES_PER_COMMIT
            or self.size_bytes >= MOST_BYTES
            or (bool(self.proposals) and self.proposals[0].is_alone)
        )

    def takes(self, proposal: Proposal, guard: Guard | None) -> bool:
        """Whether a decision that is made under ``guard`` may join."""
        if guard != self.guard:
            return False
        first = self.proposals[0] if self.proposals else None
        return first is None or not (proposal.is_alone or proposal.rank > first.rank + ALIKE)

    def followed(self) -> None:
        """Wake the broker's own tasks whose decisions make no logs: no client delays those."""
        for proposal in self.proposals:
            if not proposal.waits_for_logs:
                proposal.finish()

    def finish(self, error: KafkaError | None = None) -> None:
        """Wake every task. Each gets its own error object, because raising changes the object."""
        for proposal in self.proposals:
            if error is not None:
                proposal.error = KafkaError(error.code, error.message)
                proposal.error.__cause__ = error
            proposal.finish()


class Queue:
    """The decisions that wait."""

    def __init__(self) -> None:
        self._waiting: list[Proposal] = []  # by their places
        self._held: list[Proposal] = []
        self._numbers = count()
        self._turns = 0
        self._floor = 0  # the rank of the connection that had changed most when it was served

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, decide: Decide, asker: Asker, guard: Guard | None) -> Proposal:
        """Let a decision begin to wait."""
        rank = -1 if asker is NOBODY else max(asker.changes, self._floor - CREDIT)
        proposal = Proposal(decide, asker, guard, rank, next(self._numbers))
        self.put_back(proposal)
        return proposal

    def put_back(self, proposal: Proposal) -> None:
        """Let a decision wait again, at its place."""
        insort(self._waiting, proposal, key=attrgetter("place"))

    def first(self) -> Proposal:
        """The next decision; the queue must not be empty."""
        if self._turns % OLDEST_EVERY == OLDEST_EVERY - 1:
            return min(self._waiting, key=attrgetter("number"))
        return self._waiting[0]

    def remove_from_queue(self, proposal: Proposal) -> None:
        """Remove a decision from the queue, because its turn has come."""
        assert not proposal.is_given_up, proposal.number  # ``give_up`` has removed those
        self._waiting.remove(proposal)
        self._turns += 1
        self._floor = max(self._floor, proposal.rank)

    def hold_back(self, proposal: Proposal, logs: int) -> None:
        """Keep a decision outside of the queue until ``release``; it would create so many logs."""
        proposal.logs = logs
        self._held.append(proposal)

    def release(self, room: int) -> bool:
        """Put as many of the held decisions back into the queue as fit into ``room`` together.

        ``room`` is a number of logs. Returns whether there was a decision that fits.
        """
        held, self._held = sorted(self._held, key=attrgetter("place")), []
        for proposal in held:
            logs = min(proposal.logs, MOST_LOGS_LEFT)
            if logs > room:
                self._held.append(proposal)
            else:
                room -= logs
                self.put_back(proposal)
        return len(self._held) < len(held)

    def give_up(self, proposal: Proposal) -> None:
        """Remove a decision, because nobody waits for it any more."""
        for some in (self._waiting, self._held):
            if proposal in some:
                some.remove(proposal)
