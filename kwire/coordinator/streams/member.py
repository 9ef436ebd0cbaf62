"""A member of a streams group: its description, its tasks, and its state.

Rules:

- A member object never changes: a change makes a new one. If both are equal, no record is needed.
- Each active task carries the epoch at which it was assigned. With a commit of an older epoch, a
  member may commit the partitions of tasks that it had then, and no others.
- A member is a thread of a process. The standby and warm-up tasks of a process share its disk, so
  no process has a task twice, whichever members it has.
- A static member that is away for a while has the epoch -2 and keeps its tasks.

Source: StreamsGroupMember, TasksTuple and TasksTupleWithEpochs of Kafka 4.4.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kwire.coordinator.modern_group import STATIC_LEAVING_EPOCH
from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.streams.assignors.spec import NO_TASKS, MemberTasks, Task, Tasks
from kwire.coordinator.streams.records import (
    Endpoint,
    KeyValue,
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
    target_assignment_member,
)

ActiveTasks: TypeAlias = Mapping[str, Mapping[int, int]]
"""Active tasks by subtopology, each with the epoch at which it was assigned."""

NO_ACTIVE_TASKS: ActiveTasks = MappingProxyType({})
NO_TARGET = MemberTasks()


class MemberState(IntEnum):
    """A member's progress towards its target; the numbers stand in records."""

    STABLE = 1
    """The member has the target of its epoch."""
    UNREVOKED_TASKS = 2
    """The member has to give tasks back before it reaches the next epoch."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that others haven't given back."""
    UNKNOWN = 127
    """A newer broker has written a state that is unknown here."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class OwnedTasks(NamedTuple):
    """Tasks that a member has; a subtopology without tasks is left out."""

    active: ActiveTasks = NO_ACTIVE_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    def iter_active(self) -> Iterator[Task]:
        """The active tasks, one by one."""
        for subtopology_id, tasks in self.active.items():
            for partition in tasks:
                yield subtopology_id, partition

    def has_any_of(self, reported: MemberTasks) -> bool:
        """Whether a member that reports its tasks still has one of these, in the same role."""
        pairs: tuple[tuple[Mapping[str, Iterable[int]], Tasks], ...] = (
            (self.active, reported.active),
            (self.standby, reported.standby),
            (self.warmup, reported.warmup),
        )
        return any(
            not reported_tasks.get(subtopology_id, frozenset()).isdisjoint(tasks)
            for owned, reported_tasks in pairs
            for subtopology_id, tasks in owned.items()
        )

    def is_told_by(self, reported: MemberTasks | None) -> bool:
        """Whether a member reports exactly these tasks, or doesn't say what it has."""
        if reported is None:
            return True
        active = {s: frozenset(tasks) for s, tasks in self.active.items()}
        return (active, self.standby, self.warmup) == tuple(
            {s: tasks for s, tasks in role.items() if tasks} for role in reported
        )

    def contains(self, reported: MemberTasks) -> bool:
        """Whether all tasks that a member reports are among these, in the same role."""
        pairs: tuple[tuple[Mapping[str, Iterable[int]], Tasks], ...] = (
            (self.active, reported.active),
            (self.standby, reported.standby),
            (self.warmup, reported.warmup),
        )
        return all(
            subtopology_id in owned and tasks <= set(owned[subtopology_id])
            for owned, reported_tasks in pairs
            for subtopology_id, tasks in reported_tasks.items()
        )


NOTHING_OWNED = OwnedTasks()


class Description(NamedTuple):
    """A member's description of itself; the endpoint is a host and a port, the tags are sorted."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    def to_record(self) -> StreamsGroupMemberMetadataValue:
        """The description in the form of its record."""
        endpoint = None
        if self.user_endpoint is not None:
            endpoint = Endpoint(host=self.user_endpoint[0], port=self.user_endpoint[1])
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=endpoint,
            client_tags=[KeyValue(key=key, value=value) for key, value in self.client_tags],
        )

    @classmethod
    def from_record(cls, value: StreamsGroupMemberMetadataValue) -> "Description":
        """The description that a record holds."""
        endpoint = value.user_endpoint
        return cls(
            value.instance_id,
            value.rack_id,
            value.client_id,
            value.client_host,
            value.rebalance_timeout_ms,
            value.topology_epoch,
            value.process_id,
            None if endpoint is None else (endpoint.host, endpoint.port),
            tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
        )

    def assigns_as(self, other: "Description") -> bool:
        """Whether both get the same tasks: a static member with such a change keeps its tasks."""
        return (self.topology_epoch, self.rack_id, self.client_tags, self.process_id) == (
            *(other.topology_epoch, other.rack_id, other.client_tags, other.process_id),
        )


class StreamsMember(NamedTuple):
    """A member; ``assigned`` are its tasks, ``revoking`` those that it has to give back."""

    member_id: str
    about: Description = Description()
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    revoking: OwnedTasks = NOTHING_OWNED

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has exactly the tasks of an epoch's target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch at which the member got an active task; None if it doesn't have it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def moved_to(self, epoch: int) -> "StreamsMember":
        """The member at an epoch, with its present epoch as the previous one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def away(self) -> "StreamsMember":
        """A static member that has left for a while: its tasks are those of epoch 0."""
        active = {s: dict.fromkeys(tasks, 0) for s, tasks in self.assigned.active.items()}
        return self._replace(
            epoch=STATIC_LEAVING_EPOCH,
            assigned=self.assigned._replace(active=active),
            revoking=NOTHING_OWNED,
        )

    def description(self) -> StreamsGroupMemberMetadataValue:
        """The member's description in the form of its record."""
        return self.about.to_record()

    def assignment(self) -> StreamsGroupCurrentMemberAssignmentValue:
        """The member's tasks in the form of their record."""
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            active_tasks=_active_to_record(self.assigned.active),
            standby_tasks=_owned_to_record(self.assigned.standby),
            warmup_tasks=_owned_to_record(self.assigned.warmup),
            active_tasks_pending_revocation=_active_to_record(self.revoking.active),
            standby_tasks_pending_revocation=_owned_to_record(self.revoking.standby),
            warmup_tasks_pending_revocation=_owned_to_record(self.revoking.warmup),
        )

    def with_description(self, value: StreamsGroupMemberMetadataValue) -> "StreamsMember":
        """The member as a record describes it."""
        return self._replace(about=Description.from_record(value))

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> "StreamsMember":
        """The member with the tasks of a record."""
        epoch = value.member_epoch
        return self._replace(
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=OwnedTasks(
                _active_from_record(value.active_tasks, epoch),
                tasks_from_record(value.standby_tasks),
                tasks_from_record(value.warmup_tasks),
            ),
            revoking=OwnedTasks(
                _active_from_record(value.active_tasks_pending_revocation, epoch),
                tasks_from_record(value.standby_tasks_pending_revocation),
                tasks_from_record(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> "StreamsMember":
        """The member without tasks, as it was before its first assignment."""
        return StreamsMember(self.member_id, self.about)


def target_record(group_id: str, member_id: str, target: MemberTasks) -> CoordinatorRecord:
    """The record of a member's target."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_to_record(target.active),
        standby_tasks=_to_record(target.standby),
        warmup_tasks=_to_record(target.warmup),
    )
    return target_assignment_member(group_id, member_id, value)


def target_from_record(value: StreamsGroupTargetAssignmentMemberValue) -> MemberTasks:
    """The target that a record holds."""
    return MemberTasks(
        tasks_from_record(value.active_tasks),
        tasks_from_record(value.standby_tasks),
        tasks_from_record(value.warmup_tasks),
    )


def tasks_from_record(listed: Iterable[TaskIds | OwnedTaskIds]) -> Tasks:
    """Tasks by subtopology."""
    return {one.subtopology_id: frozenset(one.partitions) for one in listed if one.partitions}


def _to_record(tasks: Tasks) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(tasks[subtopology_id]))
        for subtopology_id in sorted(tasks)
    ]


def _owned_to_record(tasks: Tasks) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(
            subtopology_id=subtopology_id,
            partitions=sorted(tasks[subtopology_id]),
            assignment_epochs=None,
        )
        for subtopology_id in sorted(tasks)
    ]


def _active_to_record(tasks: ActiveTasks) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(
            subtopology_id=subtopology_id,
            partitions=sorted(tasks[subtopology_id]),
            assignment_epochs=[epoch for _, epoch in sorted(tasks[subtopology_id].items())],
        )
        for subtopology_id in sorted(tasks)
    ]


def _active_from_record(listed: Iterable[OwnedTaskIds], member_epoch: int) -> ActiveTasks:
    """Active tasks with their epochs; a record without them has the member's epoch for all."""
    found: dict[str, dict[int, int]] = {}
    for one in listed:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        if one.partitions:
            found[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return found
