"""The typed changes that turn a metadata image into the next one, and their form in a store.

Rules:

- Only a change alters an image. So a store that keeps the changes can rebuild any image by replay.
- A change states the result of a decision, not its reasons. ``apply`` never refuses a change.
- A store keeps a change as JSON: ``{"type": class name, fields…}``, bytes as hexadecimal.
- A partition is a list of its fields. The fields after the partition epoch are left out if all have
  their defaults. They are stored only in a cluster with level 2 of ``kwire.changes``.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from kwire.metadata import access_changes as access
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
    TopicImage,
)


class ClusterNamed(NamedTuple):
    """The cluster got its id, which never changes."""

    cluster_id: str


class BrokerRegistered(NamedTuple):
    """A broker started; clients reach it at these endpoints."""

    broker: BrokerImage


class BrokerChanged(NamedTuple):
    """A registered broker was fenced or unfenced, or began to shut down."""

    node_id: int
    is_fenced: bool
    is_shutting_down: bool


class BrokerUnregistered(NamedTuple):
    """A broker has left the cluster for good."""

    node_id: int


class ControllerElected(NamedTuple):
    """A broker became the controller."""

    controller_id: int
    controller_epoch: int


class TopicCreated(NamedTuple):
    """A topic was created with its partitions."""

    topic: TopicImage


class TopicDeleted(NamedTuple):
    """The topic with this id was deleted, and its configs with it."""

    topic_id: bytes


class PartitionsAdded(NamedTuple):
    """A topic got more partitions, whose numbers follow those of its older partitions."""

    topic_id: bytes
    partitions: tuple[PartitionImage, ...]


class PartitionsChanged(NamedTuple):
    """Partitions of a topic have new leaders, replicas or epochs: (number, new image)."""

    topic_id: bytes
    rows: tuple[tuple[int, PartitionImage], ...]


class ConfigChanged(NamedTuple):
    """A dynamic config of a resource has a new ``value``; None removes the config."""

    resource_type: ConfigResourceType
    resource_name: str
    name: str
    value: str | None


class ProducerIdsAllocated(NamedTuple):
    """All producer ids below ``next_producer_id`` are allocated."""

    next_producer_id: int


class FeatureLevelChanged(NamedTuple):
    """A feature has a new finalised level; 0 removes the level."""

    name: str
    level: int


class TakenOver(NamedTuple):
    """kwire took over the metadata of Apache Kafka, whose metadata log ended at this offset."""

    kafka_metadata_end_offset: int


Change: TypeAlias = (
    ClusterNamed
    | BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | ControllerElected
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionsChanged
    | ConfigChanged
    | ProducerIdsAllocated
    | FeatureLevelChanged
    | TakenOver
    | access.AccessChange
)


SHORT_ROW = 5
"""The number of fields of a row in which the other fields have their defaults."""

_DEFAULTS = PartitionImage(-1, 0, (), ())[SHORT_ROW:]

CHANGE_BYTES = 150
PARTITION_BYTES = 30
"""About how many bytes each change or partition takes in a store, without its texts."""


def size_of(changes: Iterable[Change]) -> int:
    """About how many bytes the changes take in a store; an estimate that costs little."""
    return sum(map(_size, changes))


def _size(change: Change) -> int:
    if isinstance(change, ConfigChanged):
        texts = change.resource_name, change.name, change.value or ""
        return CHANGE_BYTES + sum(map(len, texts))
    if isinstance(change, access.ACCESS):
        return CHANGE_BYTES + access.size_of_access(change)
    partitions = 0
    if isinstance(change, TopicCreated):
        partitions = len(change.topic.partitions)
    elif isinstance(change, PartitionsAdded):
        partitions = len(change.partitions)
    elif isinstance(change, PartitionsChanged):
        partitions = len(change.rows)
    return CHANGE_BYTES + PARTITION_BYTES * partitions


def apply(image: MetadataImage, changes: Iterable[Change], revision: int) -> MetadataImage:
    """The image that ``changes`` make out of ``image``; its revision is ``revision``."""
    # Brokers compare images by their revisions; a draft within one commit keeps its revision.
    assert revision >= image.revision, (revision, image.revision)
    draft = _Draft(image)
    for change in changes:
        draft.apply(change)
    return draft.image._replace(revision=revision)


class _Draft:
    """A new image under construction; it copies a mapping when the first change touches it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._copied: set[str] = set()

    def _own_mapping(self, name: str) -> dict[Any, Any]:
        """The draft's own copy of one of the image's mappings."""
        mapping = getattr(self.image, name)
        if name not in self._copied:
            mapping = dict(mapping)
            replaced: dict[str, Any] = {name: mapping}
            self.image = self.image._replace(**replaced)
            self._copied.add(name)
        assert isinstance(mapping, dict)
        return mapping

    def apply(self, change: Change) -> None:
        if isinstance(change, TopicCreated):
            self._put_topic(change.topic)
        elif isinstance(change, TopicDeleted):
            self._delete_topic(change.topic_id)
        elif isinstance(change, PartitionsAdded | PartitionsChanged):
            self._change_partitions(change)
        elif isinstance(change, ConfigChanged):
            self._change_config(change)
        elif isinstance(change, BrokerRegistered | BrokerChanged | BrokerUnregistered):
            self._change_broker(change)
        elif isinstance(change, FeatureLevelChanged):
            self._change_feature(change)
        elif isinstance(change, access.ACCESS):
            access.apply_access(self._own_mapping(access.mapping_of(change)), change)
        elif isinstance(change, ProducerIdsAllocated | TakenOver | ControllerElected):
            self.image = self.image._replace(**change._asdict())
        else:
            self.image = self.image._replace(cluster_id=change.cluster_id)

    def _put_topic(self, topic: TopicImage) -> None:
        self._own_mapping("topics_by_name")[topic.name] = topic
        self._own_mapping("topics_by_id")[topic.topic_id] = topic

    def _change_partitions(self, change: PartitionsAdded | PartitionsChanged) -> None:
        topic = self.image.topics_by_id.get(change.topic_id)
        if topic is None:
            return  # an earlier change of the same commit has deleted the topic
        if isinstance(change, PartitionsAdded):
            partitions = topic.partitions + change.partitions
        else:
            rebuilt = list(topic.partitions)
            for index, partition in change.rows:
                rebuilt[index] = partition
            partitions = tuple(rebuilt)
        self._put_topic(topic._replace(partitions=partitions))

    def _change_broker(self, change: BrokerRegistered | BrokerChanged | BrokerUnregistered) -> None:
        brokers = self._own_mapping("brokers")
        if isinstance(change, BrokerRegistered):
            brokers[change.broker.node_id] = change.broker
        elif isinstance(change, BrokerUnregistered):
            del brokers[change.node_id]
        else:
            node_id, is_fenced, is_shutting_down = change
            brokers[node_id] = brokers[node_id]._replace(
                is_fenced=is_fenced, is_shutting_down=is_shutting_down
            )

    def _delete_topic(self, topic_id: bytes) -> None:
        topic = self._own_mapping("topics_by_id").pop(topic_id)
        del self._own_mapping("topics_by_name")[topic.name]
        self._own_mapping("configs").pop((ConfigResourceType.TOPIC, topic.name), None)

    def _change_feature(self, change: FeatureLevelChanged) -> None:
        features = self._own_mapping("features")
        if change.level:
            features[change.name] = change.level
        else:
            features.pop(change.name, None)

    def _change_config(self, change: ConfigChanged) -> None:
        configs = self._own_mapping("configs")
        resource = (change.resource_type, change.resource_name)
        values = dict(configs.get(resource, {}))
        if change.value is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)


def snapshot(image: MetadataImage) -> list[Change]:
    """The changes that make ``image`` out of an empty one."""
    changes: list[Change] = [ClusterNamed(image.cluster_id)]
    changes += [BrokerRegistered(broker) for broker in image.brokers.values()]
    changes += [TopicCreated(topic) for topic in image.topics_by_name.values()]
    changes += [
        ConfigChanged(resource_type, resource_name, name, value)
        for (resource_type, resource_name), values in image.configs.items()
        for name, value in values.items()
    ]
    changes += [FeatureLevelChanged(name, level) for name, level in image.features.items()]
    changes += access.access_snapshot(image)
    changes.append(ProducerIdsAllocated(image.next_producer_id))
    changes.append(TakenOver(image.kafka_metadata_end_offset))
    changes.append(ControllerElected(image.controller_id, image.controller_epoch))
    return changes


def to_json(changes: Sequence[Change]) -> str:
    """The JSON text with which a store keeps the changes of one revision."""
    # One call for each change: a single call for all would hold the interpreter until its end and
    # keep every other thread from running.
    texts = (json.dumps({"type": type(change).__name__, **_fields(change)}) for change in changes)
    return f"[{', '.join(texts)}]"


def _fields(change: Change) -> dict[str, Any]:
    fields: dict[str, Any] = change._asdict()
    if isinstance(change, TopicCreated):
        topic = change.topic
        rows = [_row(partition) for partition in topic.partitions]
        fields = {"name": topic.name, "id": topic.topic_id.hex(), "partitions": rows}
        if topic.hashed_partitions != len(topic.partitions):
            fields["hashed"] = topic.hashed_partitions
        return fields
    if isinstance(change, access.ACCESS):
        return access.access_fields(change)
    if "topic_id" in fields:
        fields["topic_id"] = fields["topic_id"].hex()
    if isinstance(change, PartitionsAdded):
        fields["partitions"] = [_row(partition) for partition in change.partitions]
    elif isinstance(change, PartitionsChanged):
        fields["rows"] = [(index, _row(partition)) for index, partition in change.rows]
    return fields


def _row(partition: PartitionImage) -> tuple[Any, ...]:
    """A partition's fields, in the form in which a store keeps them."""
    return partition[:SHORT_ROW] if partition[SHORT_ROW:] == _DEFAULTS else partition


def from_json(text: str) -> list[Change]:
    """The changes in a text of ``to_json``; ValueError, TypeError or LookupError for any other."""
    return from_items(json.loads(text))


def from_items(items: object) -> list[Change]:
    """The changes in the parsed JSON of such a text; errors as in ``from_json``."""
    if not isinstance(items, list):
        raise ValueError("the changes of a revision are a list")
    return [_change(item.pop("type"), item) for item in items]


def _broker(node_id: int, rack: str | None, endpoints: list[Any], *others: Any) -> BrokerImage:
    broker = BrokerImage(node_id, rack, tuple((n, h, p) for n, h, p in endpoints), *others)
    return broker._replace(
        features=tuple((n, low, high) for n, low, high in broker.features),
        directories=tuple(broker.directories),
        log_dirs=tuple(broker.log_dirs),
    )


def _partitions(rows: Iterable[Any]) -> tuple[PartitionImage, ...]:
    return tuple(map(_partition, rows))


def _partition(row: list[Any]) -> PartitionImage:
    leader, leader_epoch, replicas, isr, partition_epoch, *others = row
    short = PartitionImage(leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch)
    if not others:
        return short
    adding, removing, elr, last_known_elr, is_recovering = others
    return short._replace(
        adding=tuple(adding),
        removing=tuple(removing),
        elr=tuple(elr),
        last_known_elr=tuple(last_known_elr),
        is_recovering=is_recovering,
    )


def _change(kind: str, item: dict[str, Any]) -> Change:
    match kind:
        case "TopicCreated":
            partitions = _partitions(item["partitions"])
            topic_id, hashed = bytes.fromhex(item["id"]), item.get("hashed", len(partitions))
            return TopicCreated(TopicImage(item["name"], topic_id, partitions, hashed))
        case "TopicDeleted":
            return TopicDeleted(bytes.fromhex(item["topic_id"]))
        case "PartitionsAdded":
            return PartitionsAdded(bytes.fromhex(item["topic_id"]), _partitions(item["partitions"]))
        case "ConfigChanged":
            item["resource_type"] = ConfigResourceType(item["resource_type"])
            return ConfigChanged(**item)
        case "BrokerRegistered":
            return BrokerRegistered(_broker(*item["broker"]))
        case "PartitionsChanged":
            indexes, images = zip(*item["rows"], strict=True)
            rows = tuple(zip(indexes, _partitions(images), strict=True))
            return PartitionsChanged(bytes.fromhex(item["topic_id"]), rows)
    if kind in access.ACCESS_KINDS:
        return access.access_from_json(kind, item)
    if kind not in _PLAIN:
        raise ValueError(f"unknown metadata change {kind}; was it written by a newer kwire?")
    return _PLAIN[kind](**item)


_PLAIN: dict[str, Callable[..., Change]] = {
    kind.__name__: kind
    for kind in (
        BrokerChanged,
        BrokerUnregistered,
        ClusterNamed,
        ControllerElected,
        FeatureLevelChanged,
        ProducerIdsAllocated,
        TakenOver,
    )
}
"""Changes whose JSON has the fields as they are."""
