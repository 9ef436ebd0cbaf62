"""The effects of a coordinator's operation: records, answers, and work that takes long.

Rules:

- Records are written before any answer is sent.
- If records can't be written, every answer becomes an error, and ``undo`` takes back what the
  operation has already changed in memory. A change that only ``replay`` makes needs no undoing.
- Work that would hold up other groups is a ``Job``. After the records have been written, the
  runtime has the work done in a thread, and hands the result in as another operation. If the
  records can't be written, their jobs are not begun.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from kwire.coordinator.debug_log import DebugNote
from kwire.coordinator.rebalance_history import GroupEvent, RebalanceHistory
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.settings import GroupSettings
from kwire.errors import KafkaError
from kwire.record.records import NO_PRODUCER, ProducerState

Waiter: TypeAlias = Hashable
"""Waits for a reply; only the runtime knows the request behind it."""


class JobKind(Enum):
    """Jobs of different kinds don't wait for each other."""

    ASSIGNMENT = "assignment"
    MATCHING = "matching"


class Job(NamedTuple):
    """Work that takes long, and the operation that takes its result.

    ``work`` reads nothing that changes, so a thread may run it. ``hand_in`` takes its result or the
    exception that it raised, and the time in ms. ``name`` is for the log.
    """

    name: str
    work: Callable[[], Any]
    hand_in: Callable[[Any, int], "Effects"]
    kind: JobKind = JobKind.ASSIGNMENT


Failures: TypeAlias = Mapping[tuple[bytes, int], KafkaError]
"""The partitions, by topic id and index, that something failed for."""


class StateWork(NamedTuple):
    """Share states of a group to begin or to end, and the operation that takes the outcome.

    ``starts`` has the start offset of each partition's new state; None ends the state. ``hand_in``
    takes the partitions for which that failed, and the time in ms.
    """

    group_id: str
    state_epoch: int
    starts: Mapping[tuple[bytes, int], int | None]
    hand_in: Callable[[Failures, int], "Effects"]


class Effects:
    """Collects the effects of operations.

    ``records`` are written first: in one batch if ``is_atomic``, and as part of a transaction if
    ``producer`` has one. ``replies``, ``jobs`` and ``state_work`` follow. ``notes`` are lines for
    the log, such as the reason of a rebalance; a ``DebugNote`` has level DEBUG.
    """

    __slots__ = (
        *("is_atomic", "jobs", "notes", "producer", "records", "replies", "state_work", "undo"),
    )

    def __init__(self, *, is_atomic: bool = True, producer: ProducerState = NO_PRODUCER) -> None:
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Waiter, Any]] = []
        self.undo: list[Callable[[Turn], None]] = []
        self.notes: list[str] = []
        self.jobs: Sequence[Job] = ()
        self.state_work: Sequence[StateWork] = ()
        self.is_atomic = is_atomic
        self.producer = producer

    def reply(self, waiter: Waiter, response: Any) -> None:
        """Send a response to a waiter, after the records are written."""
        self.replies.append((waiter, response))

    def start_job(self, job: Job) -> None:
        """Start a job, after the records are written."""
        self.jobs = (*self.jobs, job)

    def start_state_work(self, work: StateWork) -> None:
        """Begin or end share states, after the records are written."""
        self.state_work = (*self.state_work, work)


class Turn(NamedTuple):
    """One running operation: its time, its settings, and its effects.

    ``now_ms`` is for deadlines, by a clock that nobody can set. ``date_ms`` is the date, for
    records.
    """

    now_ms: int
    settings: GroupSettings
    effects: Effects
    history: RebalanceHistory
    clock_ms: Callable[[], int] | None

    @property
    def date_ms(self) -> int:
        """The date, in milliseconds since the epoch."""
        return self.now_ms if self.clock_ms is None else self.clock_ms()

    def note(self, group_id: str, text: str, *, for_debug: bool = False) -> None:
        """Note an event of a group and its reason, for the log and for the group's history."""
        note = f"group {group_id}: {text}"
        self.effects.notes.append(DebugNote(note) if for_debug else note)
        self.history.add_event(group_id, GroupEvent(self.date_ms, text))
