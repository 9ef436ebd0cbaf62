"""Changes of a consumer group: the next epoch, assignments, and the changed group in its place.

Rules (besides those of ``ModernChanges``):

- A match of regular expressions that takes long is a ``Job``, too; a group has at most one.
- If the group changes during an assignment, the assignment is computed again. If the group changes
  during ``OVERTAKEN_AT_MOST`` assignments in a row, it takes the next one all the same, so that a
  group which changes all the time still gets assignments.

Source: GroupMetadataManager of Kafka 4.3; CoordinatorExecutor, which Kafka matches expressions
with; KIP-1263 for assignments.
"""

from collections.abc import Mapping
from functools import partial

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.classic_protocol import fail_join, fail_sync, prepare_rebalance
from kwire.coordinator.consumer.assigning import Assignment, AssignmentQuestion
from kwire.coordinator.consumer.conversion import downgrade, may_downgrade
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.regexes import answer
from kwire.coordinator.consumer.timers import Assigning
from kwire.coordinator.effects import Effects, Job, JobKind, Turn
from kwire.coordinator.group import Group
from kwire.coordinator.modern_changes import ModernChanges, assign_later
from kwire.errors import ErrorCode

OVERTAKEN_AT_MOST = 1
"""How many assignments in a row are computed again because the group has changed meanwhile."""


class Changes(ModernChanges[ConsumerGroup, GroupUpdate]):
    """Makes the changes of one coordinator's consumer groups."""

    def start_update(self, group: ConsumerGroup, turn: Turn) -> GroupUpdate:
        """Begin a change of a group."""
        settings = self._around.settings_of(group.group_id)
        return GroupUpdate(group, turn, self._around.topics(), settings)

    def go_on(self, update: GroupUpdate, *, is_certain: bool) -> bool:
        """Go to the next epoch if that is certain or if the topics have changed; then assign."""
        revision, original = update.topics.revision, update.original
        is_newer = revision != original.seen_revision or update.has_new_view
        looks = is_certain or is_newer or update.is_changed
        if looks:
            update.resolve_regexes(self._around.matches, anew=is_newer)
            update.drop_unused_regexes()
            update.next_epoch(is_certain=is_certain)
            if self._match(update):
                original.seen_revision = revision
            update.turn.effects.undo.append(lambda _: _look_again(original))
        self.assign(update)
        return looks

    # Long work

    def _take(
        self,
        update: GroupUpdate,
        assigning: Assigning,
        question: AssignmentQuestion,
        assignment: Assignment,
    ) -> None:
        group = update.original
        is_overtaken = assigning.epoch != group.epoch or assigning.member_ids != set(group.members)
        if is_overtaken and assigning.overtaken < OVERTAKEN_AT_MOST:
            self.assign(update, assigning.overtaken + 1)
        elif group.members:
            update.take_assignment(assigning.epoch, question.assignor, assignment)
            if is_overtaken and assigning.epoch == group.epoch:
                # A static member came back under another id: only another epoch assigns it again.
                update.next_epoch(is_certain=True)
            update.turn.effects.undo.append(lambda undone: assign_later(group, undone))
            self.assign(update)

    def _match(self, update: GroupUpdate) -> bool:
        """Begin to match expressions that take long; False if a match of the group is under way."""
        timers, original = update.group.timers, update.original
        if not update.to_match:
            return True
        if timers.is_matching:
            return False
        timers.is_matching = True
        update.turn.effects.undo.append(lambda _: _match_again(original))
        name = f"matching {len(update.to_match)} expressions of group {update.group.group_id}"
        version = self._around.matches.version
        take = partial(self._take_matches, original, version)
        work = partial(answer, update.to_match)
        update.turn.effects.start_job(Job(name, work, take, JobKind.MATCHING))
        return True

    def _take_matches(
        self,
        asking: ConsumerGroup,
        version: int,
        found: Mapping[str, frozenset[str]] | Exception,
        now_ms: int,
    ) -> Effects:
        """Take the topics that expressions match into the group that asked for them."""
        turn = self._registry.turn(now_ms)
        asking.timers.is_matching = False
        if isinstance(found, Exception):
            turn.note(asking.group_id, f"could not match its expressions: {found!r}")
            _look_again(asking)
            return turn.effects
        self._around.matches.remember(found, version)
        group = self._registry.groups.get(asking.group_id)
        if not isinstance(group, ConsumerGroup) or group.timers is not asking.timers:
            return turn.effects
        update = self.start_update(group, turn)
        is_certain = update.take_matches(found)
        if update.resolve_regexes(self._around.matches, anew=False) or is_certain:
            update.next_epoch(is_certain=True)
            turn.effects.undo.append(lambda _: _look_again(group))
            self.assign(update)
        self._match(update)
        self.finish(update)
        return turn.effects

    # The end of a change

    def _place(self, update: GroupUpdate) -> Group:
        group: Group = update.original
        if may_downgrade(update.group, update.settings):
            group = downgrade(update)
        self._put_in_place(group, update.turn)
        if isinstance(group, ClassicGroup):
            prepare_rebalance(group, "only classic members are left", update.turn)
        return group

    def _put_in_place(self, group: Group, turn: Turn) -> None:
        known = self._registry.groups.get(group.group_id)
        if isinstance(known, ClassicGroup) and known is not group:
            for member in known.members.values():
                fail_join(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
                fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
        super()._put_in_place(group, turn)


def _look_again(group: ConsumerGroup) -> None:
    group.seen_revision = -1


def _match_again(group: ConsumerGroup) -> None:
    group.timers.is_matching = False
