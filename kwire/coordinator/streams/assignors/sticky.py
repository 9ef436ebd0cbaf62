"""The ``sticky`` assignor: tasks stay where they are as far as members stay evenly loaded.

Active tasks are given first, in three steps, standby tasks then in the same three:

1. A task stays with the member that has it as its active task.
2. A task goes to a member that has its state: the one with a standby task of it first, then the one
   whose local store is furthest; the first of these, unless another has less to do.
3. The other tasks go to the process with the lowest load, in the order of subtopologies and
   partitions: so a new group has neighboring partitions spread evenly.

Rules:

- In the first two steps no member gets more than its *quota*: the tasks left, divided by the
  members that can take more. The *load* of a process is the number of its tasks for each member.
- A process has a task at most once, so a standby task is never beside its active task.
- Only stateful subtopologies have standby tasks. If there are fewer processes than replicas, some
  standby tasks are left out.
- The same input gives the same assignment: members and processes count in the order of their ids.

A task costs a step for each member that has its state, and a few steps more for each replica.

Source: StickyTaskAssignor of Kafka 4.4.0. Kafka leaves open which of two processes with the same
load comes first; here it is the one with the member that has least.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace

from kwire.coordinator.streams.assignors.spec import (
    MemberTasks,
    Task,
    TaskAssignmentSpec,
    TaskMember,
)
from kwire.coordinator.streams.topology.configured import ConfiguredTopology


def assign_tasks(spec: TaskAssignmentSpec, topology: ConfiguredTopology) -> dict[str, MemberTasks]:
    """The tasks that each member is to have. The topology has to be ready."""
    assert topology.ready, "the tasks of a topology that isn't ready aren't known"
    if not spec.members:
        return {}
    assignment = _Assignment(spec, topology)
    assignment.give_active_tasks()
    if spec.standby_replicas > 0:
        assignment.give_standby_tasks()
    return assignment.result()


class _Process:
    """The members of a process and the tasks that they were given."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: set[Task] = set()
        self.counts: dict[str, int] = {}
        """How many tasks each member has."""
        self._by_count: list[tuple[int, str]] = []
        """A heap with every member's present count, and with counts that are no more."""

    def add_member(self, member_id: str) -> None:
        """All members are added in the order of their ids, before tasks are given."""
        self.counts[member_id] = 0
        self._by_count.append((0, member_id))

    def give(self, member_id: str, task: Task) -> int:
        """Give a member a task; returns how many it has now."""
        assert task not in self.tasks, "a process has a task once"
        self.tasks.add(task)
        count = self.counts[member_id] + 1
        self.counts[member_id] = count
        heappush(self._by_count, (count, member_id))
        return count

    def least_loaded_member(self) -> str:
        """The member with the fewest tasks."""
        while self.counts[self._by_count[0][1]] != self._by_count[0][0]:
            heappop(self._by_count)
        return self._by_count[0][1]

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return len(self.tasks) / len(self.counts)

    @property
    def place(self) -> tuple[float, int, int]:
        """Sorts processes: the first one gets the next task."""
        return self.load, self.counts[self.least_loaded_member()], self.number


class _Quota:
    """How many tasks a member may have, while some members already have as many as they may."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = -(-tasks // members)

    def note(self, count: int) -> None:
        """A member has ``count`` tasks now; with as many as it may have, it takes no more."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    """What was given so far, and who had which task before."""

    def __init__(self, spec: TaskAssignmentSpec, topology: ConfiguredTopology) -> None:
        self._spec = spec
        subtopologies = sorted(topology.subtopologies.items())
        self._tasks = [(name, i) for name, part in subtopologies for i in range(part.tasks)]
        self._stateful_tasks = [
            (name, i) for name, part in subtopologies if part.is_stateful for i in range(part.tasks)
        ]
        self._active: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}
        self._standby: dict[str, list[Task]] = {member_id: [] for member_id in spec.members}
        with_standby = len(self._tasks) + len(self._stateful_tasks) * spec.standby_replicas
        self._active_quota = _Quota(len(self._tasks), len(spec.members))
        self._quota = _Quota(with_standby, len(spec.members))
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        has_state: dict[Task, list[tuple[bool, int, str]]] = {}
        for process_id in sorted({member.process_id for member in spec.members.values()}):
            self._processes[process_id] = _Process(len(self._processes))
        for member_id in sorted(spec.members):
            member = spec.members[member_id]
            self._processes[member.process_id].add_member(member_id)
            for task in _each(member.active.items()):
                self._had_active[task] = member_id
            for task, is_standby, offset in _states(member):
                has_state.setdefault(task, []).append((not is_standby, -offset, member_id))
        self._had_state = {
            task: [member_id for _, _, member_id in sorted(members)]
            for task, members in has_state.items()
        }

    def give_active_tasks(self) -> None:
        """Every task goes to one member."""
        left = []
        # Partitions first: if there are quotas left for some partitions only, it is the same ones
        # in all subtopologies, as in a range.
        for task in sorted(self._tasks, key=_by_partition):
            member_id = self._had_active.get(task)
            if member_id is None or not self._give_active_if_room(member_id, task):
                left.append(task)
        rest = []
        for task in left:
            member_id = self._best_with_state(task)
            if member_id is None or not self._give_active_if_room(member_id, task):
                rest.append(task)
        heap = self._heap_of_processes()
        for task in sorted(rest):
            process = heap[0][1]
            self._give(process, process.least_loaded_member(), task, self._active)
            heapreplace(heap, (process.place, process))

    def give_standby_tasks(self) -> None:
        """Every stateful task goes to as many members as there are replicas, if there can be."""
        left = []
        for task in sorted(self._stateful_tasks, key=_by_partition, reverse=True):
            for replica in range(self._spec.standby_replicas):
                member_id = self._holder_with_room(task)
                if member_id is None:
                    left.append((task, self._spec.standby_replicas - replica))
                    break
                self._give(self._process_of(member_id), member_id, task, self._standby)
        heap = self._heap_of_processes()
        for task, replicas in sorted(left, reverse=True):
            for _ in range(replicas):
                if not self._give_standby_to_least_loaded(heap, task):
                    break

    def result(self) -> dict[str, MemberTasks]:
        """What every member was given."""
        assert sum(map(len, self._active.values())) == len(self._tasks), "every task has an owner"
        return {
            member_id: MemberTasks(
                _by_subtopology(self._active[member_id]), _by_subtopology(self._standby[member_id])
            )
            for member_id in self._spec.members
        }

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._spec.members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process_of(member_id).counts[member_id]

    def _give(
        self, process: _Process, member_id: str, task: Task, given: dict[str, list[Task]]
    ) -> None:
        count = process.give(member_id, task)
        given[member_id].append(task)
        if given is self._active:
            self._active_quota.note(count)
        self._quota.note(count)

    def _give_active_if_room(self, member_id: str, task: Task) -> bool:
        has_room = self._count(member_id) < self._active_quota.per_member
        if has_room:
            self._give(self._process_of(member_id), member_id, task, self._active)
        return has_room

    def _best_with_state(self, task: Task, *, without_it: bool = False) -> str | None:
        """The member with the furthest state, unless another one, and its process, has less to do.

        With ``without_it``, only members of processes that weren't given this task.
        """
        best = None
        for member_id in self._had_state.get(task, ()):
            process = self._process_of(member_id)
            if without_it and task in process.tasks:
                continue
            count = process.counts[member_id]
            if best is None or (process.load < best[0] and count < best[1]):
                best = process.load, count, member_id
        return None if best is None else best[2]

    def _holder_with_room(self, task: Task) -> str | None:
        """A member that had the task, active or standby, and may have it as a standby task."""
        had_active = self._had_active.get(task)
        if had_active is not None and task in self._process_of(had_active).tasks:
            had_active = None
        for member_id in (had_active, self._best_with_state(task, without_it=True)):
            if member_id is not None and self._count(member_id) < self._quota.per_member:
                return member_id
        return None

    def _heap_of_processes(self) -> list[tuple[tuple[float, int, int], _Process]]:
        # A place is different for every process, so processes themselves are never compared.
        heap = [(process.place, process) for process in self._processes.values()]
        heapify(heap)
        return heap

    def _give_standby_to_least_loaded(
        self, heap: list[tuple[tuple[float, int, int], _Process]], task: Task
    ) -> bool:
        """False if all processes have the task."""
        passed = []  # no more than the task has replicas
        while heap and task in heap[0][1].tasks:
            passed.append(heappop(heap))
        found = bool(heap)
        if found:
            process = heap[0][1]
            self._give(process, process.least_loaded_member(), task, self._standby)
            heapreplace(heap, (process.place, process))
        for entry in passed:
            heappush(heap, entry)
        return found


def _each(tasks: Iterable[tuple[str, Iterable[int]]]) -> Iterable[Task]:
    for subtopology_id, partitions in tasks:
        for partition in partitions:
            yield subtopology_id, partition


def _states(member: TaskMember) -> Iterable[tuple[Task, bool, int]]:
    """The tasks whose state a member has: whether as standby tasks, and how far it is."""
    standby = set(_each(member.standby.items()))
    for task in standby:
        yield task, True, member.task_offsets.get(task, 0)
    for task, offset in member.task_offsets.items():
        if task not in standby:
            yield task, False, offset


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def _by_subtopology(tasks: list[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for subtopology_id, partition in tasks:
        found.setdefault(subtopology_id, set()).add(partition)
    return {subtopology_id: frozenset(found[subtopology_id]) for subtopology_id in sorted(found)}
