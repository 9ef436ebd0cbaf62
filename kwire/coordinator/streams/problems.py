"""What keeps the members of a streams group from working, and what to do: for people.

The statuses are those that the answers to heartbeats have (``StatusCode``); besides, each member
that is on its way to its target, and the tasks that hold it up.
"""

from collections.abc import Iterable, Iterator, Mapping

from kwire.coordinator.streams.assignors.spec import Task, Tasks
from kwire.coordinator.streams.group import StreamsGroup, iter_tasks
from kwire.coordinator.streams.member import MemberState, OwnedTasks, StreamsMember
from kwire.coordinator.streams.topology.configured import StatusCode

SHOWN = 10
"""So many tasks are named, and so many members."""

_ADVICE: Mapping[StatusCode, str] = {
    StatusCode.MISSING_SOURCE_TOPICS: (
        "create them (kwire topics create); members get tasks with their next heartbeats"
    ),
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS: (
        "topics that are joined need the same number of partitions: add some to the smaller ones; "
        "an internal topic of another number has to be deleted while the application is stopped"
    ),
    StatusCode.MISSING_INTERNAL_TOPICS: (
        "the next heartbeat of a member creates them; if they stay missing, the application's log "
        "has the reason, such as a right to CREATE that its user lacks"
    ),
}


def problems_of(group: StreamsGroup) -> list[str]:
    """A line for each problem; none for a group whose members have what they are to have."""
    return [*_of_topology(group), *_of_members(group)]


def _of_topology(group: StreamsGroup) -> Iterator[str]:
    known, shutdown_by = group.unrecorded.configured, group.unrecorded.shutdown_by
    if group.members and known is None:
        yield "no member has sent a heartbeat since this broker coordinates the group"
    if known is not None and known.result.error is not None:
        code, detail = known.result.error
        yield f"{code.name}: {detail.rstrip('.')}: {_ADVICE[code]}"
    if shutdown_by is not None:
        yield (
            f"{StatusCode.SHUTDOWN_APPLICATION.name}: {shutdown_by} has asked all members to end: "
            "its log has the reason; start them again when it is mended"
        )
    stale = [m for m in group.members.values() if _is_stale(group, m)]
    if stale:
        yield (
            f"{StatusCode.STALE_TOPOLOGY.name}: {_some(m.member_id for m in stale)} run an older "
            "topology than the group has: they get no other tasks until they run the new one"
        )


def _is_stale(group: StreamsGroup, member: StreamsMember) -> bool:
    return group.topology is not None and member.about.topology_epoch < group.topology.epoch


def _of_members(group: StreamsGroup) -> Iterator[str]:
    unsettled = [m for m in group.members.values() if m.state is not MemberState.STABLE]
    for member in unsettled[:SHOWN]:
        if member.state is MemberState.UNREVOKED_TASKS:
            yield f"{member.member_id} has yet to give back {_named(_tasks_of(member.revoking))}"
        else:
            waits = [*_waited_for(group, member)]
            yield f"{member.member_id} waits for {_some(waits) or 'its next heartbeat'}"
    if len(unsettled) > SHOWN:
        yield f"and {len(unsettled) - SHOWN} more members are on their way to their tasks"


def _waited_for(group: StreamsGroup, member: StreamsMember) -> Iterator[str]:
    """The active tasks that a member is to have and others still have."""
    had = set(member.assigned.iter_active())
    for task in sorted({*iter_tasks(group.target_of(member.member_id).active)} - had):
        process = group.runs.get(task)
        if process is not None:
            yield f"{_name(task)} of process {process}"


def _tasks_of(owned: OwnedTasks) -> Iterator[Task]:
    yield from owned.iter_active()
    roles: tuple[Tasks, ...] = (owned.standby, owned.warmup)
    for tasks in roles:
        yield from iter_tasks(tasks)


def _named(tasks: Iterable[Task]) -> str:
    return _some(_name(task) for task in sorted(set(tasks)))


def _name(task: Task) -> str:
    """The name that Kafka Streams has for a task."""
    return f"{task[0]}_{task[1]}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {more} more" if more > 0 else "")
