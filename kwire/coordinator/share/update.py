"""A planned change of a share group: the group as it will be, and the records for it.

Rules (besides those of ``PlannedChange``):

- Members are given only partitions that have a state (``StateTopics.initialized``).
- Only differences become records.

Source: GroupMetadataManager (the shareGroup… methods), TargetAssignmentBuilder and
ShareGroupAssignmentBuilder of Kafka 4.4.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kwire.coordinator.assignors.simple import ShareSpec, assign_simply
from kwire.coordinator.assignors.spec import Shares
from kwire.coordinator.consumer.member import Partitions
from kwire.coordinator.consumer.planned_change import PlannedChange
from kwire.coordinator.consumer.topics import Topic
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.member import NO_PARTITIONS, ShareMember
from kwire.coordinator.share.settings import ShareSettings
from kwire.coordinator.share.state_topics import StateTopic, StateTopics

ASSIGNOR = "simple"
"""The only assignor of share groups, here as in Kafka."""

QUICK_COST = 1_000
"""The highest cost of a quick assignment, in members and partitions; it takes one or two ms."""


class ShareQuestion(NamedTuple):
    """The question to the assignor: it holds only data that doesn't change."""

    spec: ShareSpec

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes no longer than one or two ms."""
        reads, topics = self.spec.reads, self.spec.topics
        pools = sum(map(len, reads.values())) if len(set(reads.values())) > 1 else 0
        return pools + len(reads) + sum(map(len, topics.values())) <= QUICK_COST

    @property
    def member_ids(self) -> Iterable[str]:
        """The members that are assigned to."""
        return self.spec.reads

    def answer_with_records(self, group_id: str) -> Shares:
        """The assignment; its records are made later, because they hold few partitions."""
        return self.answer()

    def answer(self) -> Shares:
        """The partitions that each member is to have."""
        return assign_simply(self.spec)


class ShareUpdate(PlannedChange[ShareGroup, ShareSettings, ShareQuestion]):
    """One operation on one group."""

    # Members

    def reconcile(self, member: ShareMember, *, resubscribed: bool) -> ShareMember:
        """Give a member its target, as far as it subscribes to it; write it if that is a change."""
        group = self.group
        if member.epoch == group.target_epoch and not resubscribed:
            return member
        subscribed = {topic.topic_id for topic in self._known(member.topics)}
        target = group.target_of(member.member_id)
        updated = member._replace(
            assigned={topic_id: p for topic_id, p in target.items() if topic_id in subscribed}
        )
        if member.epoch != group.target_epoch:
            updated = updated._replace(epoch=group.target_epoch, previous_epoch=member.epoch)
        if updated != member:
            self.settle(updated)
        return updated

    # The group

    def set_states(self, states: StateTopics) -> None:
        """Set which partitions have a state."""
        if states != self.group.states:
            self._write(states.record(self.group.group_id)).states = states

    def _known(self, names: Iterable[str]) -> list[Topic]:
        found = (self.topics.by_name(name) for name in names)
        return [topic for topic in found if topic is not None]

    # The target

    def assignable(self) -> dict[bytes, frozenset[int]]:
        """The partitions to assign: those of subscribed topics that have a state."""
        found: dict[bytes, frozenset[int]] = {}
        for topic in self._known(self.group.subscribed_topics()):
            state = self.group.states.initialized.get(topic.topic_id)
            if state is not None:
                found[topic.topic_id] = state.partitions.intersection(range(topic.partitions))
        return found

    def has_unassigned(self) -> bool:
        """Whether the target of the group's epoch isn't about all partitions with a state."""
        group = self.group
        if group.epoch > group.target_epoch or not group.members:
            return False  # an assignment is about to come anyway
        assigned: dict[bytes, set[int]] = {}
        for target in group.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            assigned.get(topic_id, frozenset()) != partitions
            for topic_id, partitions in self.assignable().items()
        )

    def assign_in_time(self) -> None:
        """Compute the target of the group's epoch, now or at the end of the assignment interval.

        Long work is left in ``to_assign``; while it is computed, no other assignment begins.
        """
        group = self.group
        if not group.members and group.epoch > group.target_epoch:
            self.set_target_epoch(group.epoch, timestamp_ms=0)
        if not self.is_time_to_assign():
            return
        question = self._question()
        if question.is_quick:
            self.take_assignment(group.epoch, question.answer())
        else:
            self.to_assign = question

    def _question(self) -> ShareQuestion:
        assignable = self.assignable()
        ids: dict[tuple[str, ...], frozenset[bytes]] = {
            names: frozenset(topic.topic_id for topic in self._known(names))
            for names in self.group.subscriptions
        }
        reads = {member_id: ids[one.topics] for member_id, one in self.group.members.items()}
        topics = {topic_id: sorted(partitions) for topic_id, partitions in assignable.items()}
        return ShareQuestion(ShareSpec(reads, self.group.targets.frozen(), topics))

    def take_assignment(self, epoch: int, shares: Mapping[str, Partitions]) -> None:
        """Set the targets that the assignor computed for an epoch of the group.

        The group may be at a later epoch by now. A member that joined meanwhile has no partitions
        until the next assignment.
        """
        for member_id in sorted(self.group.members):
            partitions = shares.get(member_id, NO_PARTITIONS)
            if partitions != self.group.targets.get(member_id):
                self.set_target(member_id, partitions)
        # An assignment of nothing delays no other: the partitions' states may be there in a moment.
        self.set_target_epoch(epoch, self.turn.date_ms if any(shares.values()) else 0)
        self.note(f"assigned at epoch {epoch} to {len(shares)} members, {ASSIGNOR}")

    # The partitions' states

    def without_state(self) -> dict[bytes, StateTopic]:
        """The partitions of subscribed topics whose state nobody has asked for yet, or in vain."""
        found: dict[bytes, StateTopic] = {}
        states, asked = self.group.states, self.group.looked.asked_again_ms
        for topic in self._known(sorted(self.group.subscribed_topics())):
            missing = set(range(topic.partitions))
            for known in (states.initialized, states.initializing):
                is_late = asked.get(topic.topic_id, 0) <= self.turn.now_ms
                if topic.topic_id in known and (known is states.initialized or not is_late):
                    missing -= known[topic.topic_id].partitions
            if missing:
                found[topic.topic_id] = StateTopic(topic.name, frozenset(missing))
        return found
