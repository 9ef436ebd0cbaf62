"""Decisions that wait for their commit: whose turn is next, and which share a commit.

Rules:

- The connection that has changed least comes first, in a commit with others like it. Of equal ones
  the first to arrive comes first. Every eighth decision is the one that has waited longest.
- What a connection changed long ago puts it behind a new one by ``CREDIT`` at most. A connection
  goes on where the last one of its user or host was (``budget.work.Turns``).
- A broker's own decisions come before those of clients.
"""

from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from operator import attrgetter
from typing import Protocol, TypeAlias

import trio

from kwire.budget.order import OLDEST_EVERY
from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Guard

Decide: TypeAlias = Callable[[MetadataImage], Sequence[Change] | Awaitable[Sequence[Change]]]
"""Turns the image into changes, and may raise KafkaError. A decision about many things is a
coroutine, which lets other tasks have their turn in between."""

CHANGES_PER_COMMIT = 200
"""No decision joins a commit that has so many changes."""

MOST_DECISIONS = 64
"""No decision joins a commit that has so many."""

MOST_BYTES = 1 << 20
"""A decision doesn't join others if their changes are larger together; alone it may be larger."""

BYTES_OF_A_CHANGE = 200
"""A decision counts as so many more changes as its changes have so many bytes."""

CREDIT = 100
"""By how many changes a connection that was quiet may be ahead of the busy ones."""

ALIKE = 4
"""Decisions share a commit if their connections have changed equally much, but for so much. The
others of a commit have their logs made, too, before the first one of them is answered."""

MOST_LOGS_LEFT = 10_000
"""While commits of before have to make and delete so many logs, no commit makes many more."""

FEW_LOGS = 8
"""A commit of so many new partitions never waits for the logs of others."""


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
"""Asks for the changes that no client asked for."""


class Proposal:
    """A decision that waits for its commit."""

    __slots__ = (
        *("asker", "decide", "done", "error", "guard", "is_alone", "is_given_up", "logs", "number"),
        *("rank", "rests_on_others", "scope", "written"),
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
        self.is_alone = False  # after a commit with others has failed
        self.is_given_up = False
        self.logs = 0  # how many it makes, if it is held
        self.rests_on_others = False
        self.scope: trio.CancelScope | None = None
        self.written = trio.Event()
        self.done = trio.Event()

    @property
    def place(self) -> tuple[int, int]:
        """The smallest is first."""
        return self.rank, self.number

    def count(self, size_bytes: int) -> None:
        """Count what was decided for its connection; harmless when it is decided again."""
        if self.asker is not NOBODY:
            self.asker.changes = self.rank + 1 + size_bytes // BYTES_OF_A_CHANGE

    def finish(self) -> None:
        """Wake the task that waits for the decision."""
        self.written.set()
        self.done.set()


class Batch:
    """The decisions of one commit: ``image`` is what they make, ``changes`` how."""

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
        """Whether no further decision joins."""
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

    def finish(self, error: KafkaError | None = None) -> None:
        """Wake every task. Each gets an error of its own, because a task adds to what it raises."""
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
        """A decision begins to wait."""
        rank = -1 if asker is NOBODY else max(asker.changes, self._floor - CREDIT)
        proposal = Proposal(decide, asker, guard, rank, next(self._numbers))
        self.put_back(proposal)
        return proposal

    def put_back(self, proposal: Proposal) -> None:
        """A decision waits again, at its place."""
        insort(self._waiting, proposal, key=attrgetter("place"))

    def first(self) -> Proposal:
        """The decision whose turn it is; one has to wait."""
        if self._turns % OLDEST_EVERY == OLDEST_EVERY - 1:
            return min(self._waiting, key=attrgetter("number"))
        return self._waiting[0]

    def take(self, proposal: Proposal) -> None:
        """A decision has its turn."""
        self._waiting.remove(proposal)
        self._turns += 1
        self._floor = max(self._floor, proposal.rank)

    def hold(self, proposal: Proposal, logs: int) -> None:
        """A decision that would make so many logs waits outside of the queue, until ``release``."""
        proposal.logs = logs
        self._held.append(proposal)

    def release(self, room: int) -> bool:
        """Of the decisions that are held, as many have their places again as have room together.

        ``room`` is for so many logs. Returns whether there were any.
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
        """Nobody waits for a decision any more."""
        for some in (self._waiting, self._held):
            if proposal in some:
                some.remove(proposal)
