"""What administrators do to the offsets of a share group: its partitions' share states.

Rules:

- Offsets of a group with members don't change: the members' brokers have them in use.
- A change has two steps. The first writes what is about to happen, and gives ``StateWork`` for the
  persister. The second, ``work.hand_in``, writes what came of it. What a crash leaves between them
  can be done again.

Source: GroupMetadataManager of Kafka 4.4 (alterShareGroupOffsets, sharePartitionsEligibleForOffset-
Deletion, completeDeleteShareGroupOffsets, shareGroupBuildPartitionDeleteRequest).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kwire.coordinator.consumer.topics import Topic, Topics
from kwire.coordinator.effects import Effects, Failures, StateWork
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.share.changes import ShareChanges, states_after
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.state_topics import StatesByTopic, StateTopic


class Begun(NamedTuple):
    """The first step of a change, and the work after it; None if there is nothing to do."""

    effects: Effects
    work: StateWork | None


class ShareOffsets:
    """Changes the offsets of one coordinator's share groups."""

    def __init__(self, registry: GroupRegistry, changes: ShareChanges) -> None:
        self._registry = registry
        self._changes = changes

    def alter(
        self, group: ShareGroup, starts: Mapping[bytes, Mapping[int, int]], now_ms: int
    ) -> Begun:
        """Begin the states of partitions anew at these offsets; the group may be a new one.

        Raises KafkaError: NON_EMPTY_GROUP.
        """
        group.check_delete()
        turn = self._registry.turn(now_ms)
        if not starts:
            return Begun(turn.effects, None)
        update = self._changes.start_update(group, turn)
        asked = {
            topic_id: StateTopic(topic.name, frozenset(offsets))
            for topic_id, offsets in starts.items()
            if (topic := update.topics.by_id(topic_id)) is not None
        }
        self._changes.wait_for_states(update, asked)
        self._changes.finish(update)
        flat = {(t, i): start for t in asked for i, start in starts[t].items()}
        take = partial(self._take_altered, group.group_id, asked)
        return Begun(turn.effects, StateWork(group.group_id, group.epoch, flat, take))

    def _take_altered(
        self, group_id: str, asked: StatesByTopic, failures: Failures, now_ms: int
    ) -> Effects:
        turn = self._registry.turn(now_ms)
        group = self._registry.groups.get(group_id)
        if isinstance(group, ShareGroup):
            update = self._changes.start_update(group, turn)
            done: dict[bytes, StateTopic] = {}
            failed: dict[bytes, StateTopic] = {}
            for topic_id, topic in asked.items():
                some = frozenset(p for p in topic.partitions if (topic_id, p) in failures)
                failed[topic_id] = StateTopic(topic.name, some)
                if some < topic.partitions:
                    done[topic_id] = StateTopic(topic.name, topic.partitions - some)
            update.set_states(states_after(update, done).fail(failed))
            self._changes.finish(update)
        return turn.effects

    def delete(self, group: ShareGroup, topics: Iterable[Topic], now_ms: int) -> Begun:
        """End the states of topics that have any; the work names those topics.

        Raises KafkaError: NON_EMPTY_GROUP.
        """
        group.check_delete()
        turn = self._registry.turn(now_ms)
        update = self._changes.start_update(group, turn)
        states = group.states
        found: dict[bytes, StateTopic] = {}
        for topic in topics:
            if topic.topic_id in states.initialized:
                found[topic.topic_id] = states.initialized[topic.topic_id]
            elif topic.topic_id in states.deleting:
                found[topic.topic_id] = _whole(topic)
        names = {topic_id: topic.name for topic_id, topic in found.items()}
        update.set_states(states.delete_initialized(names))
        self._changes.finish(update)
        return Begun(turn.effects, self._deletion(group, found))

    def delete_all(self, group: ShareGroup, now_ms: int) -> Begun:
        """End all states of a group that is about to be deleted; KafkaError (NON_EMPTY_GROUP)."""
        group.check_delete()
        turn = self._registry.turn(now_ms)
        update = self._changes.start_update(group, turn)
        found = {**_known(group.states.deleting, update.topics), **group.states.all_states}
        names = {topic_id: topic.name for topic_id, topic in found.items()}
        update.set_states(group.states.delete(names))
        self._changes.finish(update)
        return Begun(turn.effects, self._deletion(group, found))

    def _deletion(self, group: ShareGroup, topics: StatesByTopic) -> StateWork | None:
        if not topics:
            return None
        flat = {(t, i): None for t, topic in topics.items() for i in sorted(topic.partitions)}
        take = partial(self._take_deleted, group.group_id, frozenset(topics))
        return StateWork(group.group_id, group.epoch, flat, take)

    def _take_deleted(
        self, group_id: str, topic_ids: frozenset[bytes], failures: Failures, now_ms: int
    ) -> Effects:
        turn = self._registry.turn(now_ms)
        group = self._registry.groups.get(group_id)
        if isinstance(group, ShareGroup):
            update = self._changes.start_update(group, turn)
            failed = {topic_id for topic_id, _ in failures}
            update.set_states(group.states.deleted(topic_ids - failed))
            self._changes.finish(update)
        return turn.effects

    def forget_topics(self, group: ShareGroup, topics: Topics, now_ms: int) -> Effects:
        """Forget the states of topics that are deleted; the share coordinator ends them itself."""
        turn = self._registry.turn(now_ms)
        gone = {one for one in group.states.topic_ids if topics.by_id(one) is None}
        if gone:
            update = self._changes.start_update(group, turn)
            update.set_states(group.states.forget(gone))
            self._changes.finish(update)
        return turn.effects


def _whole(topic: Topic) -> StateTopic:
    return StateTopic(topic.name, frozenset(range(topic.partitions)))


def _known(topic_ids: Iterable[bytes], topics: Topics) -> dict[bytes, StateTopic]:
    found = (topics.by_id(topic_id) for topic_id in topic_ids)
    return {topic.topic_id: _whole(topic) for topic in found if topic is not None}
