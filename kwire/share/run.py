"""Runs: records in flight that are neighbors and have the same state, and changes of them.

A record is AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING or ARCHIVED (``kwire.share.partition``).
"""

from typing import Protocol

from kwire.errors import KafkaError
from kwire.share.dead_letters import DeadLetters
from kwire.share.state_batches import RecordState

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
ARCHIVING = RecordState.ARCHIVING
FINAL = (ACKNOWLEDGED, ARCHIVED)
"""The states of records with which a group is done."""

NEVER_MS = 1 << 62


class Run:
    """Records in flight with one state; ``pending`` is the state that is being written."""

    __slots__ = (
        "count",
        "deadline_ms",
        "first",
        "is_rejected",
        "last",
        "member",
        "pending",
        "state",
    )

    def __init__(self, first: int, last: int, state: RecordState, count: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member = ""
        self.deadline_ms = NEVER_MS
        self.pending: RecordState | None = None
        self.is_rejected = False  # counts while ``pending`` is ARCHIVING

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def dead_letters(self, is_rejected: bool) -> DeadLetters:
        """The dead letters of these records."""
        return DeadLetters(self.first, self.last, self.count, is_rejected)

    def is_like(self, other: "Run") -> bool:
        """Whether the two may be one run."""
        return (
            self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.deadline_ms == other.deadline_ms
            and self.pending is None is other.pending
        )


class Waiter(Protocol):
    """Something that waits for a change."""

    def set(self) -> None:
        """Wake up."""


class Transition:
    """Acknowledgements of one request that are to be written; ``error`` says why they weren't."""

    __slots__ = ("error", "is_done", "runs", "told")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.is_done = False
        self.error: KafkaError | None = None
        self.told: Waiter | None = None

    def end(self, error: KafkaError | None = None) -> None:
        """Note the result, and wake who waits for it."""
        self.is_done, self.error = True, error
        if self.told is not None:
            self.told.set()
