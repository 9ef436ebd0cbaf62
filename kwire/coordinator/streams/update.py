"""A planned change of a streams group: the group as it will be, and the records for it.

Rules (besides those of ``PlannedChange``):

- A topology is compared with the cluster's topics when these have changed (``look``). Tasks of a
  topology whose topics aren't all there aren't assigned: each member's target is empty then.
- The next epoch follows a change of a member, of the topics, or of the settings of assignments.
- Only differences become records.

Source: GroupMetadataManager (the streamsGroup… methods) and TargetAssignmentBuilder of Kafka 4.4.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.coordinator.consumer.planned_change import PlannedChange
from kwire.coordinator.consumer.topics import hash_topics
from kwire.coordinator.streams.assignors import TASK_ASSIGNORS
from kwire.coordinator.streams.assignors.spec import MemberTasks, TaskAssignmentSpec, TaskMember
from kwire.coordinator.streams.group import (
    NO_EPOCH,
    Configured,
    StreamsGroup,
    TaskOffsets,
    Topology,
)
from kwire.coordinator.streams.member import NO_TARGET, StreamsMember
from kwire.coordinator.streams.reconciliation import Target, reconcile
from kwire.coordinator.streams.records import (
    KeyValue,
    StreamsGroupMetadataValue,
    topology,
)
from kwire.coordinator.streams.settings import StreamsSettings
from kwire.coordinator.streams.topology.configuration import configure_topology
from kwire.coordinator.streams.topology.configured import ConfiguredTopology
from kwire.errors import ErrorCode, KafkaError

QUICK_COST = 500
"""The highest cost of a quick assignment, in members and tasks; it takes one or two ms."""


MOST_TASKS = 50_000
"""The most tasks of a group: the records of an assignment, which are one batch, have room for them.

Each task is a number of 4 bytes in the target of its active and its standby members, and one with
its epoch in what they have.
"""


class TaskQuestion(NamedTuple):
    """The question to the assignor: it holds only data that doesn't change."""

    spec: TaskAssignmentSpec
    topology: ConfiguredTopology
    assignor: str

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes no longer than one or two ms."""
        tasks = sum(one.tasks for one in self.topology.subtopologies.values())
        return len(self.spec.members) + tasks * (1 + self.spec.standby_replicas) <= QUICK_COST

    @property
    def member_ids(self) -> Iterable[str]:
        """The members that are assigned to."""
        return self.spec.members

    def answer(self) -> Mapping[str, MemberTasks]:
        """The tasks that each member is to have."""
        return TASK_ASSIGNORS[self.assignor](self.spec, self.topology)

    def answer_with_records(self, group_id: str) -> Mapping[str, MemberTasks]:
        """The assignment; its records are made later."""
        return self.answer()


class StreamsUpdate(PlannedChange[StreamsGroup, StreamsSettings, TaskQuestion]):
    """One operation on one group."""

    # Members

    def reconcile(self, member: StreamsMember, reported: MemberTasks | None) -> StreamsMember:
        """Take a member a step further towards its target; write it if that is a change."""
        group = self.group
        target = Target(group.target_epoch, group.target_of(member.member_id))
        updated = reconcile(member, target, group.processes, reported)
        if updated is member:
            return member
        had = {*member.assigned.iter_active(), *member.revoking.iter_active()}
        # A task has one owner: two would write to the same changelog.
        for task in {*updated.assigned.iter_active()} - had:
            assert task not in group.runs, (group.group_id, task)
        if updated != member:
            self.settle(updated)
        return updated

    # The group

    def set_topology(self, given: Topology) -> None:
        """Give the group its topology."""
        assert self.group.topology is None, self.group.group_id
        self._write(topology(self.group.group_id, given.value)).topology = given

    def look(self) -> None:
        """Compare the topology with the topics, if these may have changed.

        Raises KafkaError (STREAMS_INVALID_TOPOLOGY) for a topology that can't fit any topics.
        """
        unrecorded, given = self.group.unrecorded, self.group.topology
        known, revision = unrecorded.configured, self.topics.revision
        assert given is not None, self.group.group_id
        if known is not None and unrecorded.revision == revision:
            return
        topics_hash = hash_topics(given.required_topics, self.topics)
        if known is None or known.metadata_hash != topics_hash:
            result = configure_topology(given.value, self._partitions_of)
            tasks = sum(one.tasks for one in result.subtopologies.values())
            if tasks > MOST_TASKS:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"The topology has {tasks} tasks; a group may have {MOST_TASKS}.",
                )
            unrecorded.configured = Configured(topics_hash, result)
            unrecorded.endpoints.clear()
        unrecorded.revision = revision

    def _partitions_of(self, topic: str) -> int | None:
        found = self.topics.by_name(topic)
        return None if found is None else found.partitions

    def next_epoch(self, *, is_certain: bool) -> None:
        """Go to the next epoch if that is certain, or if topics or settings have changed."""
        group = self.group
        why = None if is_certain else self._news()
        if why is not None:
            self.note(why)
        if is_certain or why is not None:
            known = group.unrecorded.configured
            topics_hash = group.metadata_hash if known is None else known.metadata_hash
            self.set_epoch(group.epoch + 1, topics_hash)

    def _news(self) -> str | None:
        """Why the tasks may have to be assigned anew; None if nothing has changed."""
        group, known = self.group, self.group.unrecorded.configured
        if known is not None and known.metadata_hash != group.metadata_hash:
            return "its topics have changed"
        if self._validated_epoch() != group.validated_topology_epoch:
            return "its topics are as its topology needs them, or no longer so"
        if self.settings.assignment_configs != group.assignment_configs:
            return "its settings have changed"
        return None

    def _validated_epoch(self) -> int:
        known = self.group.unrecorded.configured
        if known is None:
            return self.group.validated_topology_epoch
        return known.result.epoch if known.result.ready else NO_EPOCH

    def _metadata(self, epoch: int, topics_hash: int) -> StreamsGroupMetadataValue:
        configs = self.settings.assignment_configs
        return StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=topics_hash,
            validated_topology_epoch=self._validated_epoch(),
            last_assignment_configs=[
                KeyValue(key=key, value=configs[key]) for key in sorted(configs)
            ],
            stored_description_topology_epoch=self.group.stored_description_epoch,
            failed_description_topology_epoch=self.group.failed_description_epoch,
        )

    # The target

    def delay_first_assignment(self) -> None:
        """Have members that join an empty group wait for each other."""
        unrecorded, now_ms = self.group.unrecorded, self.turn.now_ms
        delay_ms = self.settings.initial_rebalance_delay_ms
        if delay_ms > 0 and not self.is_delayed:
            unrecorded.delayed_until_ms = now_ms + delay_ms

    @property
    def is_delayed(self) -> bool:
        """Whether the group is in its initial rebalance delay."""
        until_ms = self.group.unrecorded.delayed_until_ms
        return until_ms is not None and self.turn.now_ms < until_ms

    def assign_in_time(self) -> None:
        """Compute the target of the group's epoch, now or as soon as the settings allow it.

        Long work is left in ``to_assign``; while it is computed, no other assignment begins.
        """
        group, until_ms = self.group, self.group.unrecorded.delayed_until_ms
        if not group.members and group.epoch > group.target_epoch:
            self.set_target_epoch(group.epoch, timestamp_ms=0)
        is_time = self.is_time_to_assign()
        if self.is_delayed and group.members:
            group.timers.assignment_ms = until_ms
        elif is_time:
            question = self._question()
            if question is None:
                self.take_assignment(group.epoch, {})
            elif question.is_quick:
                self.take_assignment(group.epoch, question.answer())
            else:
                self.to_assign = question

    def _question(self) -> TaskQuestion | None:
        """The question to the assignor; None if the topology has no tasks yet."""
        group, known = self.group, self.group.unrecorded.configured
        if known is None or not known.result.ready:
            return None
        reported = group.unrecorded.task_offsets
        # Nothing is copied, for there may be many tasks: a change of a member makes new mappings.
        members = {
            member_id: TaskMember(
                member.about.process_id,
                member.assigned.active,
                member.assigned.standby,
                reported.get(member_id, TaskOffsets()).offsets,
            )
            for member_id, member in group.members.items()
        }
        spec = TaskAssignmentSpec(members, self.settings.standby_replicas)
        return TaskQuestion(spec, known.result, self.settings.assignor)

    def take_assignment(self, epoch: int, assigned: Mapping[str, MemberTasks]) -> None:
        """Set the targets that the assignor computed for an epoch of the group.

        The group may be at a later epoch by now. A member that joined meanwhile has no tasks until
        the next assignment.
        """
        for member_id in sorted(self.group.members):
            target = assigned.get(member_id, NO_TARGET)
            if target != self.group.targets.get(member_id):
                self.set_target(member_id, target)
        # An assignment of nothing delays no other: the topics may be there in a moment.
        has_tasks = any(target.active for target in assigned.values())
        self.set_target_epoch(epoch, self.turn.date_ms if has_tasks else 0)
        self.note(f"assigned at epoch {epoch} to {len(assigned)} members, {self.settings.assignor}")


def check_tasks(known: ConfiguredTopology, reported: MemberTasks | None) -> None:
    """Raise KafkaError (INVALID_REQUEST) if a member reports a task that there isn't."""
    if reported is None or not known.ready:
        return
    for tasks in (reported.active, reported.standby, reported.warmup):
        for subtopology_id, partitions in tasks.items():
            subtopology = known.subtopologies.get(subtopology_id)
            if subtopology is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Subtopology {subtopology_id} does not exist in the topology.",
                )
            for partition in partitions:
                if not 0 <= partition < subtopology.tasks:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {subtopology_id} is invalid. Number of "
                        f"tasks for this subtopology: {subtopology.tasks}",
                    )
