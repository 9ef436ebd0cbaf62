"""Moves a member from its present tasks to its target, step by step.

Rules:

- Revocation comes first: a member stays at its epoch, with the tasks that it keeps, until it no
  longer reports the tasks that it has to give back.
- A member gets an active task only when no process runs it any more, and any task only when no
  other member of its own process has the task, because they share the task's directory. Until then
  the member is at the new epoch, has the free tasks of its target, and waits for the others.
- A task that a member has already changes its role without a pause: a standby task becomes a
  warm-up task, or the other way round, at once; an active task becomes a standby task while the
  member gives the active role back; and a standby or warm-up task that is to be active stays until
  the active role is free.

Source: CurrentAssignmentBuilder of Kafka 4.4; KIP-1071.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kwire.coordinator.streams.assignors.spec import MemberTasks, Tasks
from kwire.coordinator.streams.member import MemberState, OwnedTasks, StreamsMember
from kwire.errors import ErrorCode, KafkaError

NOTHING: frozenset[int] = frozenset()


class Processes(NamedTuple):
    """The processes that have a task at the moment, by subtopology and partition."""

    of_active: Callable[[str, int], str | None]
    of_standby: Callable[[str, int], frozenset[str]]
    of_warmup: Callable[[str, int], frozenset[str]]


class Target(NamedTuple):
    """A member's target: an epoch, and the tasks at that epoch."""

    epoch: int
    tasks: MemberTasks


def check_state(member: StreamsMember, reported: MemberTasks | None) -> None:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) for a state that a newer broker has written.

    Then the member has to come back without tasks.
    """
    if member.state is MemberState.UNKNOWN and reported != MemberTasks():
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its "
            "tasks and rejoin.",
        )


def reconcile(
    member: StreamsMember, target: Target, processes: Processes, reported: MemberTasks | None
) -> StreamsMember:
    """The member one step further towards its target, or unchanged if it can't get further.

    ``reported`` are the tasks that it says it has, None if it doesn't say. ``check_state`` comes
    first.
    """
    if member.is_reconciled_to(target.epoch):
        return member
    if member.state is MemberState.UNKNOWN:
        assert reported == MemberTasks(), member.member_id
        return _Step(member, target, processes, reported).next_member(target.epoch)
    if member.state is MemberState.UNREVOKED_TASKS:
        if _still_has(member.revoking, reported):
            return member
        # Its commits of the epoch before are those of tasks that it had then.
        return _Step(member, target, processes, reported).next_member(member.epoch + 1)
    return _Step(member, target, processes, reported).next_member(member.epoch)


def _still_has(revoking: OwnedTasks, reported: MemberTasks | None) -> bool:
    """Whether a member still has a task it has to give back; without a report, it does."""
    return reported is None or revoking.has_any_of(reported)


class _Step:
    """One step of one member. Of each role: tasks ``kept``, to be ``revoked``, and ``free``."""

    def __init__(
        self,
        member: StreamsMember,
        target: Target,
        processes: Processes,
        reported: MemberTasks | None,
    ) -> None:
        self._member = member
        self._target = target
        self._processes = processes
        self._reported = reported

    def next_member(self, epoch: int) -> StreamsMember:
        """The member's next state; ``epoch`` is the one at which it stays while it revokes."""
        has, wanted = self._member.assigned, self._target.tasks
        active = _Change(
            {s: frozenset(tasks) for s, tasks in has.active.items()}, wanted.active, self._is_run
        )
        standby = _Change(has.standby, wanted.standby, self._is_kept_as_standby)
        warmup = _Change(has.warmup, wanted.warmup, self._is_warmed_up)
        standby.take_over({s: frozenset(tasks) for s, tasks in has.active.items()}, None)
        warmup.take_over(has.standby, standby)
        standby.take_over(has.warmup, warmup)
        for tasks, change in ((has.standby, standby), (has.warmup, warmup)):
            change.keep_promoted(tasks, wanted.active)
        revoking = OwnedTasks(
            _with_epochs(active.revoked, has.active),
            _without_empty(standby.revoked),
            _without_empty(warmup.revoked),
        )
        revokes = not revoking.is_empty and _still_has(revoking, self._reported)
        for tasks, change in ((has.standby, standby), (has.warmup, warmup)):
            change.hold_until_granted(tasks, wanted.active, {} if revokes else active.free)
        kept_active = _with_epochs(active.kept, has.active)
        if revokes:
            return self._member.moved_to(epoch)._replace(
                state=MemberState.UNREVOKED_TASKS,
                assigned=OwnedTasks(
                    kept_active, _without_empty(standby.kept), _without_empty(warmup.kept)
                ),
                revoking=revoking,
            )
        waits = active.waits or standby.waits or warmup.waits
        return self._member.moved_to(self._target.epoch)._replace(
            state=MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE,
            assigned=OwnedTasks(
                self._with_new(kept_active, active.free),
                _without_empty(_union(standby.kept, standby.free)),
                _without_empty(_union(warmup.kept, warmup.free)),
            ),
            revoking=OwnedTasks(),
        )

    def _with_new(
        self, kept: Mapping[str, Mapping[int, int]], free: Mapping[str, set[int]]
    ) -> dict[str, dict[int, int]]:
        merged = {s: dict(tasks) for s, tasks in kept.items()}
        for subtopology_id, tasks in free.items():
            if tasks:
                new = dict.fromkeys(sorted(tasks), self._target.epoch)
                merged[subtopology_id] = {**merged.get(subtopology_id, {}), **new}
        return merged

    # Whether a task of the target isn't free yet

    def _is_run(self, subtopology_id: str, partition: int) -> bool:
        return (
            self._processes.of_active(subtopology_id, partition) is not None
            or self._others_have_standby(subtopology_id, partition)
            or self._others_have_warmup(subtopology_id, partition)
        )

    def _is_kept_as_standby(self, subtopology_id: str, partition: int) -> bool:
        process = self._member.about.process_id
        own = self._member.assigned.active.get(subtopology_id, {})
        runs = self._processes.of_active(subtopology_id, partition) == process
        return (
            (runs and partition not in own)
            or process in self._processes.of_standby(subtopology_id, partition)
            or self._others_have_warmup(subtopology_id, partition)
        )

    def _is_warmed_up(self, subtopology_id: str, partition: int) -> bool:
        process = self._member.about.process_id
        return (
            self._processes.of_active(subtopology_id, partition) == process
            or self._others_have_standby(subtopology_id, partition)
            or process in self._processes.of_warmup(subtopology_id, partition)
        )

    def _others_have_standby(self, subtopology_id: str, partition: int) -> bool:
        own = self._member.assigned.standby.get(subtopology_id, NOTHING)
        processes = self._processes.of_standby(subtopology_id, partition)
        return self._member.about.process_id in processes and partition not in own

    def _others_have_warmup(self, subtopology_id: str, partition: int) -> bool:
        own = self._member.assigned.warmup.get(subtopology_id, NOTHING)
        processes = self._processes.of_warmup(subtopology_id, partition)
        return self._member.about.process_id in processes and partition not in own


class _Change:
    """The change of one role's tasks; ``waits`` says that one of the target isn't free."""

    def __init__(self, has: Tasks, wanted: Tasks, is_taken: Callable[[str, int], bool]) -> None:
        self.kept: dict[str, set[int]] = {}
        self.revoked: dict[str, set[int]] = {}
        self.free: dict[str, set[int]] = {}
        self.waits = False
        for subtopology_id in {*has, *wanted}:
            mine, target = (t.get(subtopology_id, NOTHING) for t in (has, wanted))
            self.kept[subtopology_id] = set(mine & target)
            self.revoked[subtopology_id] = set(mine - target)
            missing = target - mine
            free = {p for p in missing if not is_taken(subtopology_id, p)}
            self.free[subtopology_id] = free
            self.waits = self.waits or len(free) < len(missing)

    def take_over(self, tasks: Tasks, former: "_Change | None") -> None:
        """Give the member at once what it has in another role; ``former`` needn't revoke it."""
        for subtopology_id, partitions in tasks.items():
            granted = self.free.get(subtopology_id, set()) & partitions
            if granted:
                self.free[subtopology_id] -= granted
                self.kept.setdefault(subtopology_id, set()).update(granted)
                if former is not None:
                    former.revoked.get(subtopology_id, set()).difference_update(granted)

    def keep_promoted(self, tasks: Tasks, wanted_active: Tasks) -> None:
        """Don't revoke what is to become active."""
        for subtopology_id in tasks:
            promoted = wanted_active.get(subtopology_id, NOTHING)
            self.revoked.get(subtopology_id, set()).difference_update(promoted)

    def hold_until_granted(
        self, tasks: Tasks, wanted_active: Tasks, granted: Mapping[str, set[int]]
    ) -> None:
        """Keep what is to become active until the active role is granted."""
        for subtopology_id, partitions in tasks.items():
            promoted = partitions & wanted_active.get(subtopology_id, NOTHING)
            held = promoted - granted.get(subtopology_id, set())
            if held:
                self.kept.setdefault(subtopology_id, set()).update(held)


def _with_epochs(
    tasks: Mapping[str, set[int]], epochs: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    return {
        subtopology_id: {p: epochs[subtopology_id][p] for p in sorted(partitions)}
        for subtopology_id, partitions in tasks.items()
        if partitions
    }


def _union(some: Mapping[str, set[int]], others: Mapping[str, set[int]]) -> dict[str, set[int]]:
    return {s: some.get(s, set()) | others.get(s, set()) for s in {*some, *others}}


def _without_empty(tasks: Mapping[str, set[int]]) -> Tasks:
    return {s: frozenset(partitions) for s, partitions in tasks.items() if partitions}
