"""What an operation of a coordinator leads to: records, answers, and work that takes long.

Rules:

- Records are written before anyone is answered.
- When they can't be written, every answer becomes an error, and ``undo`` takes back what the
  operation had already changed in memory. What only ``replay`` changes needs no undoing.
- Work that would hold up other groups is a ``Job``: the runtime has it done elsewhere, after the
  records have been written, and hands the result in as another operation. Jobs of effects that
  couldn't be written are not begun.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

from kwire.coordinator.history import Event, Histories
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.settings import GroupSettings
from kwire.record.records import NO_PRODUCER, ProducerState

Waiter: TypeAlias = Hashable
"""Whoever waits for a reply; the runtime knows what it stands for."""


class Job(NamedTuple):
    """Work that takes long, and what becomes of its result.

    ``work`` looks at nothing that changes: it may run in a thread. ``hand_in`` takes what it gave,
    or the exception that it raised, and the time in ms. ``name`` is for the log.
    """

    name: str
    work: Callable[[], Any]
    hand_in: Callable[[Any, int], "Effects"]


class Effects:
    """Collects what operations lead to.

    ``records`` are to be written first, in one batch if ``is_atomic``, as part of the transaction
    of ``producer`` if that is one; ``replies`` and ``jobs`` come after that. ``notes`` are lines
    for the log: why the group rebalances, who is out.
    """

    __slots__ = ("is_atomic", "jobs", "notes", "producer", "records", "replies", "undo")

    def __init__(self, *, is_atomic: bool = True, producer: ProducerState = NO_PRODUCER) -> None:
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Waiter, Any]] = []
        self.undo: list[Callable[[Turn], None]] = []
        self.notes: list[str] = []
        self.jobs: Sequence[Job] = ()
        self.is_atomic = is_atomic
        self.producer = producer

    def reply(self, waiter: Waiter, response: Any) -> None:
        """Answer somebody."""
        self.replies.append((waiter, response))

    def begin(self, job: Job) -> None:
        """Have some work done."""
        self.jobs = (*self.jobs, job)


class Turn(NamedTuple):
    """One operation at work: when it happens, the settings it goes by, where its effects go.

    ``now_ms`` is for deadlines and goes by a clock that nobody can set. ``date_ms`` is the date,
    for what is written down.
    """

    now_ms: int
    settings: GroupSettings
    effects: Effects
    histories: Histories
    clock_ms: Callable[[], int] | None

    @property
    def date_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.now_ms if self.clock_ms is None else self.clock_ms()

    def note(self, group_id: str, text: str) -> None:
        """Say what happens to a group and why: for the log, and for who asks about the group."""
        self.effects.notes.append(f"group {group_id}: {text}")
        self.histories.add(group_id, Event(self.date_ms, text))
