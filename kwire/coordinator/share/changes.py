"""Changes of a share group: the next epoch, assignments, states of partitions, and their results.

Rules (besides those of ``ModernChanges``):

- A partition is given to members once it has a state. A heartbeat that meets a partition without a
  state asks for it (``StateWork``); the group goes to its next epoch when the state is there. If
  there is no answer, or an error, it is asked for again.
- A topic's states begin where ``share.auto.offset.reset`` says, as its partitions' leaders know.
  Partitions that are added to a topic later begin at their first record, so that none is missed.
  That a topic has states says that these are added later, so all states of a topic begin or none.
- An assignment is taken even if the group has changed while it was computed, because a partition
  that several members have does no harm. Then the next assignment follows.
- A group without news isn't looked at: such a heartbeat costs the same, whatever the group's size.

Source: GroupMetadataManager of Kafka 4.4 (maybeCreateInitializeShareGroupStateRequest,
initializedAssignmentPending, initializeShareGroupState); KIP-1263 for assignments.
"""

from collections.abc import Mapping
from functools import partial

from kwire.coordinator.assignors.spec import Shares
from kwire.coordinator.consumer.timers import Assigning
from kwire.coordinator.effects import Effects, Failures, StateWork, Turn
from kwire.coordinator.modern_changes import RETRY_MS, ModernChanges, assign_later
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.state_topics import StatesByTopic, StateTopic, StateTopics
from kwire.coordinator.share.update import ShareQuestion, ShareUpdate

LEFT_TO_LEADER = -1
"""The start offset of a state whose partition's leader decides where it begins."""

FIRST_OFFSET = 0


class ShareChanges(ModernChanges[ShareGroup, ShareUpdate]):
    """Makes the changes of one coordinator's share groups."""

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

    def _take(
        self, update: ShareUpdate, assigning: Assigning, question: ShareQuestion, assignment: Shares
    ) -> None:
        group = update.original
        if assigning.epoch <= group.target_epoch:
            return  # all members have left meanwhile
        update.turn.effects.undo.append(lambda undone: assign_later(group, undone))
        update.take_assignment(assigning.epoch, assignment)
        if update.has_unassigned():
            update.next_epoch(is_certain=True)
        self.assign(update)

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
        self.finish(update)
        return turn.effects


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


def _ask_again(group: ShareGroup, topics: Mapping[bytes, StateTopic]) -> None:
    for topic_id in topics:
        group.looked.asked_again_ms.pop(topic_id, None)
