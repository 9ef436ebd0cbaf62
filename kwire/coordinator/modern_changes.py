"""Changes of a modern group: assignments, and the changed group in its place.

Rules:

- An operation fills an update, goes to the next epoch if it has to, and finishes the update.
- An assignment that takes long is a ``Job``. The group keeps its old target until the job hands its
  result in. A group has at most one such job.
- A result for a group that is gone, or that another coordinator has loaded, is dropped.

Source: GroupMetadataManager of Kafka 4.4; KIP-1263 for assignments.
"""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Generic, TypeVar, cast

from kwire.coordinator.consumer.planned_change import PlannedChange
from kwire.coordinator.consumer.timers import Assigning, GroupTimers, Timer
from kwire.coordinator.effects import Effects, Job, Turn
from kwire.coordinator.group import Group, GroupRegistry, GroupType
from kwire.coordinator.modern_group import ModernGroup
from kwire.coordinator.surroundings import Surroundings

RETRY_MS = 1_000
"""The time after which a group tries again to write records."""

NOTHING_EPOCH = 1
"""The epoch of the empty target before a group's first assignment: members need an epoch."""

_G = TypeVar("_G", bound=ModernGroup[Any, Any])
_U = TypeVar("_U", bound=PlannedChange[Any, Any, Any])


class ModernChanges(ABC, Generic[_G, _U]):
    """Makes the changes of one coordinator's groups of one kind."""

    def __init__(self, registry: GroupRegistry, surroundings: Surroundings) -> None:
        self._registry = registry
        self._around = surroundings

    @abstractmethod
    def start_update(self, group: _G, turn: Turn) -> _U:
        """Begin a change of a group."""

    @abstractmethod
    def go_on(self, update: _U, *, is_certain: bool) -> bool:
        """Go to the next epoch if that is certain or if there is news; then assign.

        Returns whether the group was looked at for news, or has to be.
        """

    # Assignments

    def assign(self, update: _U, overtaken: int = 0) -> None:
        """Compute the target of the group's epoch, now or as soon as the settings allow it.

        ``overtaken`` counts the assignments in a row during which the group has changed.
        """
        timers = update.group.timers
        before_ms = timers.assignment_ms
        update.assign_in_time()
        question = update.to_assign
        if before_ms is not None or question is not None:
            update.turn.effects.undo.append(lambda turn: assign_later(update.group, turn))
        if question is None:
            return
        if update.group.target_epoch == 0:
            update.set_target_epoch(NOTHING_EPOCH, timestamp_ms=0)
        group = update.group
        member_ids = frozenset(question.member_ids)
        timers.assigning = assigning = Assigning(group.epoch, member_ids, overtaken)
        take = partial(self._take_assignment, group.group_id, assigning, question)
        name = f"the assignment of group {group.group_id} at epoch {group.epoch}"
        work = partial(question.answer_with_records, group.group_id)
        update.turn.effects.start_job(Job(name, work, take))

    def _take_assignment(
        self, group_id: str, assigning: Assigning, question: Any, assignment: Any, now_ms: int
    ) -> Effects:
        """Take an assignment that was computed; if that failed, try again after a while."""
        turn = self._registry.turn(now_ms)
        known = self._registry.groups.get(group_id)
        if not isinstance(known, ModernGroup) or known.timers.assigning is not assigning:
            return turn.effects
        group = cast(_G, known)  # no other group has this assignment
        group.timers.assigning = None
        if isinstance(assignment, Exception):
            turn.note(group_id, f"could not be assigned partitions: {assignment!r}")
            assign_later(group, turn)
            self._registry.reschedule(group)
            return turn.effects
        update = self.start_update(group, turn)
        self._take(update, assigning, question, assignment)
        self.finish(update)
        return turn.effects

    @abstractmethod
    def _take(self, update: _U, assigning: Assigning, question: Any, assignment: Any) -> None:
        """Take an assignment, or ask for another one, if the group has changed meanwhile."""

    # The end of a change

    def finish(self, update: _U) -> Group:
        """End an operation: put the group in its place, converted if it has to be."""
        group: Group = update.original
        if update.is_changed:
            assert update.group is not update.original, group.group_id  # replay changes that one
            update.group.heartbeat_interval.start_anew(update.turn.now_ms)
            _stop_timers(update)
            group = self._place(update)
        self._registry.reschedule(group)
        return group

    def _place(self, update: _U) -> Group:
        """Put the group in its place if it is new."""
        group: Group = update.original
        known = self._registry.groups.get(group.group_id, group)
        # Only a classic group becomes one of another kind.
        assert known is group or known.kind is GroupType.CLASSIC, group.group_id
        self._put_in_place(group, update.turn)
        return group

    def _put_in_place(self, group: Group, turn: Turn) -> None:
        known = self._registry.groups.get(group.group_id)
        if known is group:
            return
        if known is not None:
            group.scheduled_ms = None
        self._registry.groups[group.group_id] = group
        turn.effects.undo.append(lambda _: self._put_back(group, known))

    def _put_back(self, group: Group, known: Group | None) -> None:
        if self._registry.groups.get(group.group_id) is not group:
            return
        if known is None:
            del self._registry.groups[group.group_id]
        else:
            self._registry.groups[group.group_id] = known


def _stop_timers(update: PlannedChange[Any, Any, Any]) -> None:
    """Stop the timers of removed members: nothing can refuse the change any more."""
    timers = update.group.timers
    for member_id in update.removed:
        if member_id in update.group.members:
            continue  # it is back under its id
        until_ms = timers.deadline_ms(member_id, Timer.SESSION)
        timers.cancel(member_id)
        if until_ms is not None:
            update.turn.effects.undo.append(partial(_watch_again, timers, member_id, until_ms))


def _watch_again(timers: GroupTimers, member_id: str, until_ms: int, turn: Turn) -> None:
    """Go on with a member's session, because its removal couldn't be written."""
    timers.set(member_id, Timer.SESSION, until_ms)


def assign_later(group: ModernGroup[Any, Any], turn: Turn) -> None:
    """Have a group assigned after a while, because it couldn't be now."""
    group.timers.assigning = None
    group.timers.assignment_ms = turn.now_ms + RETRY_MS
