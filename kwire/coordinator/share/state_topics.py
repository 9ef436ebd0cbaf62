"""The partitions of a share group that have a share state, or are about to have or to lose one.

Rules:

- A partition is *initializing* from the moment its state is asked for, and *initialized* once the
  state exists. Only then members get it. A state that is begun anew, at another offset, makes an
  initialized partition initializing as well.
- A topic is *deleting* while the states of its partitions are deleted, after which it is forgotten.
- An object never changes: a change makes a new one.

Source: ShareGroupStatePartitionMetadataInfo, and GroupMetadataManager's methods on it, of Kafka.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kwire.coordinator.records import CoordinatorRecord
from kwire.coordinator.share.records import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
    state_partition_metadata,
)


class StateTopic(NamedTuple):
    """Partitions of a topic, and the topic's name."""

    name: str
    partitions: frozenset[int]


StatesByTopic: TypeAlias = Mapping[bytes, StateTopic]

_NOTHING: StatesByTopic = MappingProxyType({})
_NO_TOPICS: Mapping[bytes, str] = MappingProxyType({})


class StateTopics(NamedTuple):
    """Topics by id: their partitions, or of topics that are deleted their names."""

    initializing: StatesByTopic = _NOTHING
    initialized: StatesByTopic = _NOTHING
    deleting: Mapping[bytes, str] = _NO_TOPICS

    def begin(self, asked: StatesByTopic) -> "StateTopics":
        """Partitions whose state is asked for; if they are being deleted, they no longer are."""
        return StateTopics(
            _union(self.initializing, asked),
            self.initialized,
            {t: name for t, name in self.deleting.items() if t not in asked},
        )

    def succeed(self, done: StatesByTopic) -> "StateTopics":
        """Partitions that have their state now."""
        assert done.keys() <= self.initializing.keys()
        return StateTopics(
            _difference(self.initializing, done), _union(self.initialized, done), self.deleting
        )

    def fail(self, failed: StatesByTopic) -> "StateTopics":
        """Partitions that didn't get a state: they may be asked for again."""
        return self._replace(initializing=_difference(self.initializing, failed))

    def delete(self, topics: Mapping[bytes, str]) -> "StateTopics":
        """Topics whose states are about to be deleted."""
        return StateTopics(
            _without(self.initializing, topics),
            _without(self.initialized, topics),
            {**self.deleting, **topics},
        )

    def delete_initialized(self, topics: Mapping[bytes, str]) -> "StateTopics":
        """Topics whose states are about to be deleted, as far as they have any."""
        return StateTopics(
            self.initializing,
            _without(self.initialized, topics),
            {**self.deleting, **topics},
        )

    def forget(self, topic_ids: Collection[bytes]) -> "StateTopics":
        """Topics that are gone, with their states."""
        return StateTopics(
            _without(self.initializing, topic_ids),
            _without(self.initialized, topic_ids),
            {t: name for t, name in self.deleting.items() if t not in topic_ids},
        )

    def deleted(self, topic_ids: Collection[bytes]) -> "StateTopics":
        """Topics whose states have been deleted."""
        left = {t: name for t, name in self.deleting.items() if t not in topic_ids}
        return self._replace(deleting=left)

    @property
    def all_states(self) -> StatesByTopic:
        """The partitions that have a state, or may have one."""
        return _union(self.initialized, self.initializing)

    @property
    def topic_ids(self) -> set[bytes]:
        """The topics that are mentioned at all."""
        return {*self.initializing, *self.initialized, *self.deleting}

    def record(self, group_id: str) -> CoordinatorRecord:
        """The record that holds all this."""
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_record(self.initializing),
            initialized_topics=_to_record(self.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(self.deleting.items())
            ],
        )
        return state_partition_metadata(group_id, value)

    @classmethod
    def from_record(cls, value: ShareGroupStatePartitionMetadataValue) -> "StateTopics":
        """What a record holds."""
        return cls(
            _from_record(value.initializing_topics),
            _from_record(value.initialized_topics),
            {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        )


def _union(some: StatesByTopic, more: StatesByTopic) -> StatesByTopic:
    both = dict(some)
    for topic_id, (name, partitions) in more.items():
        known = both.get(topic_id)
        both[topic_id] = StateTopic(name, partitions | known.partitions if known else partitions)
    return both


def _difference(some: StatesByTopic, taken: StatesByTopic) -> StatesByTopic:
    left = dict(some)
    for topic_id in some.keys() & taken.keys():
        name, partitions = some[topic_id]
        kept = partitions - taken[topic_id].partitions
        if kept:
            left[topic_id] = StateTopic(name, kept)
        else:
            del left[topic_id]
    return left


def _without(some: StatesByTopic, topic_ids: Collection[bytes]) -> StatesByTopic:
    return {topic_id: topic for topic_id, topic in some.items() if topic_id not in topic_ids}


def _to_record(topics: StatesByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, (name, partitions) in sorted(topics.items())
    ]


def _from_record(topics: Iterable[TopicPartitionsInfo]) -> StatesByTopic:
    return {t.topic_id: StateTopic(t.topic_name, frozenset(t.partitions)) for t in topics}
