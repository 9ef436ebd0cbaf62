"""The changes that turn one image into another, if the commits between them are gone; pure.

Rules:

- After these changes, a broker has the same partitions and settings as after the commits. The
  changes don't contain intermediate steps that left nothing behind.
- A topic that was deleted and created again is deleted and created here, too, because its id has
  changed.
"""

from collections.abc import Iterator

from kwire.metadata.access_changes import access_difference
from kwire.metadata.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureLevelChanged,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    TakenOver,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.image import EMPTY, ConfigResourceType, MetadataImage, TopicImage


def difference(old: MetadataImage, new: MetadataImage) -> list[Change]:
    """The changes from ``old`` to ``new``; deletions come first."""
    changes: list[Change] = [
        TopicDeleted(topic_id) for topic_id in old.topics_by_id if topic_id not in new.topics_by_id
    ]
    changes += _configs(old, new)
    for topic_id, topic in new.topics_by_id.items():
        before = old.topics_by_id.get(topic_id)
        if before is None:
            changes.append(TopicCreated(topic))
        elif before is not topic:
            changes += _topic(before, topic)
    changes += [BrokerUnregistered(node) for node in old.brokers if node not in new.brokers]
    changes += [
        BrokerRegistered(broker)
        for node, broker in new.brokers.items()
        if old.brokers.get(node) != broker
    ]
    return [*changes, *_levels(old, new), *access_difference(old, new), *_values(old, new)]


def _topic(old: TopicImage, new: TopicImage) -> Iterator[Change]:
    count = len(old.partitions)
    rows = tuple(
        (index, after)
        for index, (before, after) in enumerate(
            zip(old.partitions, new.partitions[:count], strict=True)
        )
        if before != after
    )
    if rows:
        yield PartitionsChanged(new.topic_id, rows)
    if new.partitions[count:]:
        yield PartitionsAdded(new.topic_id, new.partitions[count:])


def _configs(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    for resource in {**old.configs, **new.configs}:
        before, after = old.configs.get(resource, EMPTY), new.configs.get(resource, EMPTY)
        topic = old.topics_by_name.get(resource[1])
        is_gone = topic is not None and topic.topic_id not in new.topics_by_id
        if is_gone and resource[0] == ConfigResourceType.TOPIC:
            before = EMPTY  # the configs were deleted with the topic
        for name in {**before, **after}:
            if before.get(name) != after.get(name):
                yield ConfigChanged(*resource, name, after.get(name))


def _levels(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    for name in {**old.features, **new.features}:
        if old.feature_level(name) != new.feature_level(name):
            yield FeatureLevelChanged(name, new.feature_level(name))


def _values(old: MetadataImage, new: MetadataImage) -> Iterator[Change]:
    if old.cluster_id != new.cluster_id:
        yield ClusterNamed(new.cluster_id)
    if old.next_producer_id != new.next_producer_id:
        yield ProducerIdsAllocated(new.next_producer_id)
    if old.kafka_metadata_end_offset != new.kafka_metadata_end_offset:
        yield TakenOver(new.kafka_metadata_end_offset)
    if old.controller_epoch != new.controller_epoch:
        yield ControllerElected(new.controller_id, new.controller_epoch)
