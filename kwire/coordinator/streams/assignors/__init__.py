"""The server's task assignors by name: an assignor shares the tasks of a topology among members.

Rules (of every assignor, and tested as properties):

- Each task is the active task of exactly one member.
- A stateful task has as many standby tasks as the group asks for, if there are enough processes;
  each is on another process, and none on that of the active task.
- The same input gives the same assignment. If members already have this assignment, the assignor
  gives it again.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kwire.coordinator.streams.assignors.spec import MemberTasks, TaskAssignmentSpec
from kwire.coordinator.streams.assignors.sticky import assign_tasks
from kwire.coordinator.streams.topology.configured import ConfiguredTopology

TASK_ASSIGNORS: Mapping[
    str, Callable[[TaskAssignmentSpec, ConfiguredTopology], dict[str, MemberTasks]]
] = MappingProxyType({"sticky": assign_tasks})
"""All task assignors of kwire."""
