"""A planned change of a consumer group: the group as it will be, and the records for it.

Rules (besides those of ``PlannedChange``):

- Replay calls the same methods that change the copy here.
- Only differences become records.

Source: GroupCoordinatorRecordHelpers, TargetAssignmentBuilder of Kafka 4.3.
"""

from collections.abc import Mapping, Sequence

from kwire.coordinator.consumer.assigning import Assignment, AssignmentQuestion
from kwire.coordinator.consumer.group import NO_PARTITIONS, ConsumerGroup, ResolvedRegex, View
from kwire.coordinator.consumer.member import (
    ConsumerMember,
    Partitions,
)
from kwire.coordinator.consumer.planned_change import PlannedChange
from kwire.coordinator.consumer.reconciliation import Target, reconcile
from kwire.coordinator.consumer.records import (
    RegularExpressionValue,
    partition_metadata,
    regular_expression,
)
from kwire.coordinator.consumer.regexes import QUICK_COST, Question, RegexMatches, answer
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.consumer.topics import Topics
from kwire.coordinator.effects import Turn
from kwire.coordinator.joining import Visible


class GroupUpdate(PlannedChange[ConsumerGroup, ConsumerSettings, AssignmentQuestion]):
    """One operation on one group.

    ``to_match`` holds matches that take too long to be done here. ``has_new_view`` says that
    another member's rights now decide which topics an expression may match.
    """

    def __init__(
        self, group: ConsumerGroup, turn: Turn, topics: Topics, settings: ConsumerSettings
    ) -> None:
        super().__init__(group, turn, topics, settings)
        self.to_match: Sequence[Question] = ()
        self.has_new_view = False

    # The group

    def drop_unused_regexes(self) -> None:
        """Delete expressions to which no member subscribes any more."""
        used = self.group.subscribed_regexes()
        for regex in sorted(self.group.regexes.keys() - used):
            record = regular_expression(self.group.group_id, regex, None)
            self._write(record).regexes.pop(regex, None)
        for regex in self.group.views.keys() - used:
            del self.group.views[regex]

    def set_view(self, member: ConsumerMember, visible: Visible) -> None:
        """Have a member's expression match only what the member may see.

        Members that subscribe by the same expression share its topics: the first of them counts.
        """
        regex, views, members = member.about.regex, self.group.views, self.group.members
        known = views.get(regex)
        if known is not None and known.member_id != member.member_id:
            first = members.get(known.member_id)
            if first is not None and first.about.regex == regex:
                return
        views[regex] = View(member.member_id, visible)
        if known is None or known.visible != visible:
            self.has_new_view = regex in self.group.regexes

    def resolve_regexes(self, matches: RegexMatches, *, anew: bool) -> bool:
        """Match expressions with topics; with ``anew`` also expressions that have a result.

        Returns whether an expression matches other topics than before. New expressions, and matches
        that take long, are left in ``to_match``. Until then an expression keeps its topics, and a
        new one has none: as in Kafka, a member gets the topics of its names before those of its
        expression, however quickly it is matched.
        """
        used = self.group.subscribed_regexes()
        new = sorted(used - self.group.regexes.keys())
        known = sorted(used & self.group.regexes.keys()) if anew else ()
        if not used:
            return False
        self.to_match = matches.questions(new, self.topics)
        found, questions = matches.look_up(known, self.topics)
        if sum(question.cost for question in questions) > QUICK_COST:
            self.to_match = [*self.to_match, *questions]
        elif questions:
            answers = answer(questions)
            matches.remember(answers, matches.version)
            found.update(answers)
        return self.take_matches(found)

    def take_matches(self, found: Mapping[str, frozenset[str]]) -> bool:
        """Take the topics that expressions match; return whether they differ from before.

        An expression to which no member subscribes any more is passed over.
        """
        changed = False
        used = self.group.subscribed_regexes()
        for regex in sorted(found.keys() & used):
            every, view = found[regex], self.group.views.get(regex)
            topics = every if view is None else view.visible(every)
            known = self.group.regexes.get(regex)
            before = frozenset[str]() if known is None else known.topics
            changed = changed or before != topics
            if known is None or before != topics:
                revision = self.topics.revision
                self._put_regex(regex, ResolvedRegex(topics, revision, self.turn.date_ms))
        return changed

    def _put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        value = RegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.revision,
            timestamp=resolved.timestamp_ms,
        )
        record = regular_expression(self.group.group_id, regex, value)
        self._write(record).regexes[regex] = resolved

    def set_epoch(self, epoch: int, topics_hash: int) -> None:
        """Set the epoch of the group, with what it depends on."""
        super().set_epoch(epoch, topics_hash)
        group = self.group
        if group.has_partition_metadata:
            self._write(partition_metadata(group.group_id, None))
            group.has_partition_metadata = False

    # The target

    def assign_in_time(self) -> None:
        """Compute the target of the group's epoch, now or at the end of the assignment interval.

        Long work is left in ``to_assign``; while it is computed, no other assignment begins.
        """
        if not self.is_time_to_assign():
            return
        question = self._question()
        if question.is_quick:
            epoch = self.group.epoch
            self.take_assignment(epoch, question.assignor, Assignment(question.answer()))
        else:
            self.to_assign = question

    def take_assignment(self, epoch: int, assignor: str, assignment: Assignment) -> None:
        """Set the targets that an assignor computed for an epoch of the group.

        The group may be at a later epoch by now. Members that joined meanwhile have no partitions
        until the next assignment, so that no partition is given to two members.
        """
        for member_id in self.group.members:
            known = self.group.targets.get(member_id)
            partitions: Partitions | None = assignment.shares.get(member_id)
            if partitions is None and known is not None:
                partitions = NO_PARTITIONS
            if partitions is not None and partitions != known:
                record = assignment.records.get(member_id)
                self.set_target(member_id, partitions, record)
        # An assignment of nothing delays no other: an expression's topics may be known in a moment.
        self.set_target_epoch(epoch, self.turn.date_ms if any(assignment.shares.values()) else 0)
        text = f"assigned at epoch {epoch} to {len(assignment.shares)} members, {assignor}"
        self.turn.note(self.group.group_id, text, for_debug=not self.group.members)

    def _question(self) -> AssignmentQuestion:
        group = self.group
        name = group.preferred_assignor(self.settings.assignors[0])
        if name not in self.settings.assignors:
            name = self.settings.assignors[0]
        return AssignmentQuestion(
            name, group.members.frozen(), group.targets.frozen(), dict(group.regexes), self.topics
        )

    # A member's way to the target

    def reconcile(
        self, member: ConsumerMember, reported: Partitions | None, *, resubscribed: bool
    ) -> ConsumerMember:
        """Take a member one step further towards its target; write the member if it has changed."""
        group = self.group
        if member.is_reconciled_to(group.target_epoch) and not resubscribed:
            return member
        subscribed = {
            topic.topic_id
            for name in group.topics_of(member)
            if (topic := self.topics.by_name(name)) is not None
        }
        target = Target(
            group.target_epoch, group.target_of(member.member_id), subscribed, group.is_owned
        )
        updated = reconcile(member, target, reported, resubscribed=resubscribed)
        if updated != member:
            self.settle(updated)
        return updated
