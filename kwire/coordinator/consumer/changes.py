"""Changes of a consumer group: the next epoch, assignments, and the changed group in its place.

Rules:

- An operation fills an update, goes to the next epoch if it has to, and finishes the update.
- An assignment or a match of regular expressions that takes long is a ``Job``. The group keeps its
  old target until the job hands its result in. A group has at most one job of each kind.
- If the group changes during an assignment, the assignment is computed again. If the group changes
  during ``OVERTAKEN_AT_MOST`` assignments in a row, it takes the next one all the same, so that a
  group which changes all the time still gets assignments.
- A result for a group that is gone, or that another coordinator has loaded, is dropped.

Source: GroupMetadataManager of Kafka 4.3; CoordinatorExecutor, which Kafka matches expressions
with; KIP-1263 for assignments.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.classic_protocol import fail_join, fail_sync, prepare_rebalance
from kwire.coordinator.consumer.assigning import Assignment
from kwire.coordinator.consumer.conversion import downgrade, may_downgrade
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.group_update import GroupUpdate
from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches, answer
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.consumer.timers import Assigning
from kwire.coordinator.consumer.topics import Topics, TopicSet
from kwire.coordinator.effects import Effects, Job, JobKind, Turn
from kwire.coordinator.group import Group, GroupRegistry
from kwire.coordinator.share.settings import ShareSettings
from kwire.errors import ErrorCode

RETRY_MS = 1_000
"""The time after which a group tries again to write records."""

NOTHING_EPOCH = 1
"""The epoch of the empty target before a group's first assignment: members need an epoch."""

OVERTAKEN_AT_MOST = 1
"""How many assignments in a row are computed again because the group has changed meanwhile."""


class Surroundings(NamedTuple):
    """The broker as its consumer groups know it; ``settings_of`` takes a group's id.

    All groups of the broker share ``matches``: the topics that regular expressions match.
    """

    topics: Callable[[], Topics]
    settings_of: Callable[[str], ConsumerSettings]
    heartbeats: BrokerHeartbeats
    matches: RegexMatches
    share_settings_of: Callable[[str], ShareSettings] = lambda group_id: ShareSettings()

    @classmethod
    def of_nothing(cls) -> "Surroundings":
        """A cluster without topics, with Kafka's settings."""
        return cls(
            TopicSet, lambda group_id: ConsumerSettings(), BrokerHeartbeats(), RegexMatches()
        )


class Changes:
    """Makes the changes of one coordinator's consumer groups."""

    def __init__(self, registry: GroupRegistry, surroundings: Surroundings) -> None:
        self._registry = registry
        self._around = surroundings

    def start_update(self, group: ConsumerGroup, turn: Turn) -> GroupUpdate:
        """Begin a change of a group."""
        settings = self._around.settings_of(group.group_id)
        return GroupUpdate(group, turn, self._around.topics(), settings)

    def go_on(self, update: GroupUpdate, original: ConsumerGroup, *, is_certain: bool) -> None:
        """Go to the next epoch if that is certain or if the topics have changed; then assign."""
        revision = update.topics.revision
        is_newer = revision != original.seen_revision or update.has_new_view
        if is_certain or is_newer or update.is_changed:
            update.resolve_regexes(self._around.matches, anew=is_newer)
            update.drop_unused_regexes()
            update.next_epoch(is_certain=is_certain)
            if self._match(update, original):
                original.seen_revision = revision
            update.turn.effects.undo.append(lambda _: _look_again(original))
        self.assign(update)

    # Long work

    def assign(self, update: GroupUpdate, overtaken: int = 0) -> None:
        """Compute the target of the group's epoch, now or as soon as the settings allow it.

        ``overtaken`` counts the assignments in a row during which the group has changed.
        """
        timers = update.group.timers
        before_ms = timers.assignment_ms
        update.assign_in_time()
        if before_ms is not None or update.to_assign is not None:
            update.turn.effects.undo.append(lambda turn: _assign_later(update.group, turn))
        question = update.to_assign
        if question is None:
            return
        if update.group.target_epoch == 0:
            update.set_target_epoch(NOTHING_EPOCH, timestamp_ms=0)
        group = update.group
        timers.assigning = assigning = Assigning(
            group.epoch, frozenset(question.members), overtaken
        )
        take = partial(self._take_assignment, group.group_id, assigning, question.assignor)
        name = f"the assignment of group {group.group_id} at epoch {group.epoch}"
        work = partial(question.answer_with_records, group.group_id)
        update.turn.effects.start_job(Job(name, work, take))

    def _take_assignment(
        self,
        group_id: str,
        assigning: Assigning,
        assignor: str,
        assignment: Assignment | Exception,
        now_ms: int,
    ) -> Effects:
        """Take an assignment that was computed; if that failed, try again after a while."""
        turn = self._registry.turn(now_ms)
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or group.timers.assigning is not assigning:
            return turn.effects
        group.timers.assigning = None
        if isinstance(assignment, Exception):
            turn.note(group_id, f"could not be assigned partitions: {assignment!r}")
            _assign_later(group, turn)
            self._registry.reschedule(group)
            return turn.effects
        update = self.start_update(group, turn)
        is_overtaken = assigning.epoch != group.epoch or assigning.member_ids != set(group.members)
        if is_overtaken and assigning.overtaken < OVERTAKEN_AT_MOST:
            self.assign(update, assigning.overtaken + 1)
        elif group.members:
            update.take_assignment(assigning.epoch, assignor, assignment)
            if is_overtaken and assigning.epoch == group.epoch:
                # A static member came back under another id: only another epoch assigns it again.
                update.next_epoch(is_certain=True)
            turn.effects.undo.append(lambda undone: _assign_later(group, undone))
            self.assign(update)
        self.finish(update, group)
        return turn.effects

    def _match(self, update: GroupUpdate, original: ConsumerGroup) -> bool:
        """Begin to match expressions that take long; False if a match of the group is under way."""
        timers = update.group.timers
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
        self._match(update, group)
        self.finish(update, group)
        return turn.effects

    # The end of a change

    def finish(self, update: GroupUpdate, original: ConsumerGroup) -> Group:
        """End an operation: put the group in its place, converted if it has to be."""
        if not update.is_changed:
            self._registry.reschedule(original)
            return original
        update.group.heartbeat_interval.start_anew(update.turn.now_ms)
        group: Group = original
        if may_downgrade(update.group, update.settings):
            group = downgrade(update, original)
        self._put_in_place(group, update.turn)
        if isinstance(group, ClassicGroup):
            prepare_rebalance(group, "only classic members are left", update.turn)
        self._registry.reschedule(group)
        return group

    def _put_in_place(self, group: Group, turn: Turn) -> None:
        known = self._registry.groups.get(group.group_id)
        if known is group:
            return
        if isinstance(known, ClassicGroup):
            for member in known.members.values():
                fail_join(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
                fail_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, turn.effects)
        if known is not None:
            group.scheduled_ms = None
        self._registry.groups[group.group_id] = group
        turn.effects.undo.append(lambda _: self._put_back(group, known))

    def _put_back(self, group: Group, known: Group | None) -> None:
        if self._registry.groups.get(group.group_id) is not group:
            return
        if known is None:
            del self._registry.groups[group.group_id]
        else:
            self._registry.groups[group.group_id] = known


def _look_again(group: ConsumerGroup) -> None:
    group.seen_revision = -1


def _assign_later(group: ConsumerGroup, turn: Turn) -> None:
    group.timers.assigning = None
    group.timers.assignment_ms = turn.now_ms + RETRY_MS


def _match_again(group: ConsumerGroup) -> None:
    group.timers.is_matching = False
