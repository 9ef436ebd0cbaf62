"""Changes of a share group: the next epoch, assignments, states of partitions, and their results.

Rules:

- An operation fills an update, goes to the next epoch if it has to, and finishes the update.
- A partition is given to members once it has a state. A heartbeat that meets a partition without a
  state asks for it (``StateWork``); the group goes to its next epoch when the state is there. If
  there is no answer, or an error, it is asked for again.
- A topic's states begin where ``share.auto.offset.reset`` says, as its partitions' leaders know.
  Partitions that are added to a topic later begin at their first record, so that none is missed.
  That a topic has states says that these are added later, so all states of a topic begin or none.
- An assignment that takes long is a ``Job``; a group has at most one. Its result is taken even if
  the group has changed meanwhile, because a partition that several members have does no harm. Then
  the next assignment follows.
- A group without news isn't looked at: such a heartbeat costs the same, whatever the group's size.

Source: GroupMetadataManager of Kafka 4.4 (maybeCreateInitializeShareGroupStateRequest,
initializedAssignmentPending, initializeShareGroupState); KIP-1263 for assignments.
"""

from collections.abc import Mapping
from functools import partial

from kwire.coordinator.assignors.spec import Shares
from kwire.coordinator.consumer.changes import RETRY_MS, Surroundings
from kwire.coordinator.consumer.timers import Assigning
from kwire.coordinator.effects import Effects, Failures, Job, StateWork, Turn
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.state_topics import StatesByTopic, StateTopic, StateTopics
from kwire.coordinator.share.update import ShareUpdate

LEFT_TO_LEADER = -1
"""The start offset of a state whose partition's leader decides where it begins."""

FIRST_OFFSET = 0


class ShareChanges:
    """Makes the changes of one coordinator's share groups."""

    def __init__(self, registry: GroupRegistry, surroundings: Surroundings) -> None:
        self._registry = registry
        self._around = surroundings

    def start_update(self, group: ShareGroup, turn: Turn) -> ShareUpdate:
        """Begin a change of a group."""
        settings = self._around.share_settings_of(group.group_id)
        return ShareUpdate(group, turn, self._around.topics(), settings)

    def go_on(self, update: ShareUpdate, *, is_certain: bool) -> bool:
        """Go to the next epoch if that is certain or if there is news; then assign.

        Returns whether there may be partitions without a state.
        """
        looked = update.group.looked
        revision, states = update.topics.revision, update.group.states
        is_news = revision != looked.revision or states is not looked.states
        looks = is_certain or is_news or update.is_changed
        if looks:
            update.next_epoch(is_certain=is_certain or update.has_unassigned())
            looked.revision, looked.states = revision, states
            update.turn.effects.undo.append(lambda _: _look_again(update.group))
        self.assign(update)
        now_ms = update.turn.now_ms
        return looks or any(looked.asked_again_ms.get(t, 0) <= now_ms for t in states.initializing)

    # Assignments

    def assign(self, update: ShareUpdate) -> None:
        """Compute the target of the group's epoch, now or as soon as the settings allow it."""
        timers = update.group.timers
        before_ms = timers.assignment_ms
        update.assign_in_time()
        if before_ms is not None or update.to_assign is not None:
            update.turn.effects.undo.append(lambda turn: _assign_later(update.group, turn))
        question = update.to_assign
        if question is None:
            return
        group = update.group
        timers.assigning = assigning = Assigning(group.epoch, frozenset(question.spec.reads), 0)
        take = partial(self._take_assignment, group.group_id, assigning)
        name = f"the assignment of group {group.group_id} at epoch {group.epoch}"
        update.turn.effects.start_job(Job(name, question.answer, take))

    def _take_assignment(
        self, group_id: str, assigning: Assigning, shares: Shares | Exception, now_ms: int
    ) -> Effects:
        """Take an assignment that was computed; if that failed, try again after a while."""
        turn = self._registry.turn(now_ms)
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.timers.assigning is not assigning:
            return turn.effects
        group.timers.assigning = None
        if isinstance(shares, Exception):
            turn.note(group_id, f"could not be assigned partitions: {shares!r}")
            _assign_later(group, turn)
            self._registry.reschedule(group)
            return turn.effects
        if assigning.epoch <= group.target_epoch:
            return turn.effects  # all members have left meanwhile
        turn.effects.undo.append(lambda undone: _assign_later(group, undone))
        update = self.start_update(group, turn)
        update.take_assignment(assigning.epoch, shares)
        if update.has_unassigned():
            update.next_epoch(is_certain=True)
        self.assign(update)
        self.finish(update, group)
        return turn.effects

    # The partitions' states

    def ask_for_states(self, update: ShareUpdate) -> None:
        """Ask for the states of partitions that have none."""
        missing = update.without_state()
        if not missing:
            return
        group = update.group
        starts = {
            (topic_id, index): (
                FIRST_OFFSET if topic_id in group.states.initialized else LEFT_TO_LEADER
            )
            for topic_id, topic in missing.items()
            for index in sorted(topic.partitions)
        }
        self.wait_for_states(update, missing)
        take = partial(self._take_states, group.group_id, missing)
        work = StateWork(group.group_id, update.group.epoch, starts, take)
        update.turn.effects.start_state_work(work)

    def wait_for_states(self, update: ShareUpdate, asked: StatesByTopic) -> None:
        """Note that partitions are about to have a state."""
        group = update.group
        # What is there needs no asking, unless somebody begins it anew, which is for empty groups.
        assert not group.members or not any(
            topic.partitions & group.states.initialized[topic_id].partitions
            for topic_id, topic in asked.items()
            if topic_id in group.states.initialized
        ), group.group_id
        again_ms = update.turn.now_ms + update.settings.initialize_retry_interval_ms
        group.looked.asked_again_ms.update(dict.fromkeys(asked, again_ms))
        update.turn.effects.undo.append(lambda _: _ask_again(group, asked))
        update.set_states(group.states.begin(asked))

    def _take_states(
        self, group_id: str, asked: StatesByTopic, failures: Failures, now_ms: int
    ) -> Effects:
        """Take the states that are there now; those that failed are asked for again."""
        turn = self._registry.turn(now_ms)
        group = self._registry.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return turn.effects
        update = self.start_update(group, turn)
        again = group.looked.asked_again_ms
        for topic_id in asked:
            again.pop(topic_id, None)
        for (topic_id, _), error in failures.items():
            if topic_id not in again:
                again[topic_id] = now_ms + RETRY_MS
                update.note(f"{asked[topic_id].name} got no share state: {error}")
        done = {topic_id: topic for topic_id, topic in asked.items() if topic_id not in again}
        update.set_states(states_after(update, done))
        self.go_on(update, is_certain=False)
        self.finish(update, group)
        return turn.effects

    # The end of a change

    def finish(self, update: ShareUpdate, original: ShareGroup) -> None:
        """End an operation: put a new group in its place, and plan the next look at the group."""
        known = self._registry.groups.get(original.group_id, original)
        assert known is original, original.group_id
        if update.is_changed:
            update.group.heartbeat_interval.start_anew(update.turn.now_ms)
            if original.group_id not in self._registry.groups:
                self._registry.groups[original.group_id] = original
                update.turn.effects.undo.append(lambda _: self._remove(original))
        self._registry.reschedule(original)

    def _remove(self, group: ShareGroup) -> None:
        if self._registry.groups.get(group.group_id) is group:
            del self._registry.groups[group.group_id]


def states_after(update: ShareUpdate, done: StatesByTopic) -> StateTopics:
    """The group's states after partitions have got one, unless that is no longer wanted."""
    states = update.group.states
    wanted: dict[bytes, StateTopic] = {}
    for topic_id, topic in done.items():
        asked = states.initializing.get(topic_id)
        if asked is not None and update.topics.by_id(topic_id) is not None:
            wanted[topic_id] = StateTopic(topic.name, asked.partitions & topic.partitions)
    return states.succeed(wanted)


def _look_again(group: ShareGroup) -> None:
    group.looked.revision = -1


def _assign_later(group: ShareGroup, turn: Turn) -> None:
    group.timers.assigning = None
    group.timers.assignment_ms = turn.now_ms + RETRY_MS


def _ask_again(group: ShareGroup, topics: Mapping[bytes, StateTopic]) -> None:
    for topic_id in topics:
        group.looked.asked_again_ms.pop(topic_id, None)
