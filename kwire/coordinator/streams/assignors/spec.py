"""The input and the result of a task assignor."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

Task: TypeAlias = tuple[str, int]
"""The id of a subtopology, and a partition of its sources."""

Tasks: TypeAlias = Mapping[str, frozenset[int]]
"""Tasks by subtopology."""

NO_TASKS: Tasks = MappingProxyType({})
NO_OFFSETS: Mapping[Task, int] = MappingProxyType({})


class TaskMember(NamedTuple):
    """A member: its process, and the tasks that it has now, which its current assignment says.

    ``task_offsets`` are the sums of the changelog offsets that it has in its local stores, by task,
    as its heartbeats say. They may name tasks that it doesn't have: a
    process that has started again still has stores of its tasks before.
    """

    process_id: str
    active: Mapping[str, Iterable[int]] = NO_TASKS
    standby: Tasks = NO_TASKS
    task_offsets: Mapping[Task, int] = NO_OFFSETS


class TaskAssignmentSpec(NamedTuple):
    """The members by id, and how many standby tasks each stateful task should have."""

    members: Mapping[str, TaskMember]
    standby_replicas: int = 0


class MemberTasks(NamedTuple):
    """The tasks that a member is to have.

    ``warmup`` stays empty: the server of Kafka 4.4 has a place for warm-up tasks in its messages
    and records, but its assignor gives none.
    """

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS
