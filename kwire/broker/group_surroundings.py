"""The broker as its consumer groups see it: topics, settings, and a budget of heartbeats.

Rules:

- Topics are those of the image in force. A topic that was looked up is kept while it is unchanged.
- A group's own configs count before the broker's settings.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kwire.broker.view import BrokerView
from kwire.config.groups import assignors
from kwire.config.settings import GROUP, Value, settings
from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches
from kwire.coordinator.consumer.settings import ConsumerSettings, MigrationPolicy
from kwire.coordinator.consumer.topics import Topic, Topics
from kwire.coordinator.share.settings import ShareSettings
from kwire.coordinator.streams.settings import StreamsSettings
from kwire.coordinator.surroundings import Surroundings
from kwire.metadata.image import ConfigResourceType, MetadataImage, PartitionImage, TopicImage


class ImageTopics:
    """The topics of a metadata image; ``before`` holds the topics of the image before it."""

    def __init__(self, image: MetadataImage, before: "ImageTopics | None" = None) -> None:
        self.image = image
        self._racks = {
            node_id: broker.rack
            for node_id, broker in image.brokers.items()
            if broker.rack is not None
        }
        self._known: dict[bytes, tuple[TopicImage, Topic]] = {}
        if before is not None and before._racks == self._racks:
            self._known = {
                topic_id: known
                for topic_id, known in before._known.items()
                if image.topics_by_id.get(topic_id) is known[0]
            }

    @property
    def revision(self) -> int:
        """The revision of the image."""
        return self.image.revision

    def by_name(self, name: str) -> Topic | None:
        """A topic by its name."""
        found = self.image.topics_by_name.get(name)
        return None if found is None else self._topic(found)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by its id."""
        found = self.image.topics_by_id.get(topic_id)
        return None if found is None else self._topic(found)

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return self.image.topics_by_name

    def _topic(self, found: TopicImage) -> Topic:
        known = self._known.get(found.topic_id)
        if known is not None:
            return known[1]
        racks: tuple[frozenset[str], ...] = ()
        if self._racks:
            racks = tuple(map(self._racks_of, found.partitions))
        topic = Topic(found.name, found.topic_id, len(found.partitions), racks)
        self._known[found.topic_id] = (found, topic)
        return topic

    def _racks_of(self, partition: PartitionImage) -> frozenset[str]:
        return frozenset(self._racks[node] for node in partition.replicas if node in self._racks)


def group_surroundings(broker: BrokerView) -> Surroundings:
    """The broker's topics, settings and budget, for its consumer groups."""
    return Surroundings(
        _topics_of(broker),
        _settings_of(broker, consumer_settings, _CONSUMER),
        BrokerHeartbeats(),
        RegexMatches(),
        _settings_of(broker, share_settings, _SHARE),
        _settings_of(broker, streams_settings, _STREAMS),
    )


def _topics_of(broker: BrokerView) -> Callable[[], Topics]:
    latest = ImageTopics(broker.image)

    def topics() -> Topics:
        nonlocal latest
        if latest.image is not broker.image:
            latest = ImageTopics(broker.image, latest)
        return latest

    return topics


_S = TypeVar("_S", ConsumerSettings, ShareSettings, StreamsSettings)


def _settings_of(
    broker: BrokerView, of_broker: Callable[[Mapping[str, Value]], _S], names: Mapping[str, str]
) -> Callable[[str], _S]:
    """The settings of a group: those ``of_broker``, or the group's own of these names."""
    common, made_from = of_broker(broker.settings), broker.settings

    def settings_of(group_id: str) -> _S:
        nonlocal common, made_from
        if made_from is not broker.settings:
            common, made_from = of_broker(broker.settings), broker.settings
        own = broker.image.config(ConfigResourceType.GROUP, group_id)
        return _with_own(common, own, names) if own else common

    return settings_of


_CONSUMER = {
    "session_timeout_ms": "consumer.session.timeout.ms",
    "heartbeat_interval_ms": "consumer.heartbeat.interval.ms",
    "assignment_interval_ms": "consumer.assignment.interval.ms",
    "max_size": "consumer.max.size",
    "classic_max_size": "max.size",
}
_SHARE = {
    "session_timeout_ms": "share.session.timeout.ms",
    "heartbeat_interval_ms": "share.heartbeat.interval.ms",
    "assignment_interval_ms": "share.assignment.interval.ms",
    "initialize_retry_interval_ms": "share.initialize.retry.interval.ms",
    "max_size": "share.max.size",
}
_STREAMS = {
    "session_timeout_ms": "streams.session.timeout.ms",
    "heartbeat_interval_ms": "streams.heartbeat.interval.ms",
    "assignment_interval_ms": "streams.assignment.interval.ms",
    "initial_rebalance_delay_ms": "streams.initial.rebalance.delay.ms",
    "max_size": "streams.max.size",
    "standby_replicas": "streams.num.standby.replicas",
    "task_offset_interval_ms": "streams.task.offset.interval.ms",
    "acceptable_recovery_lag": "streams.acceptable.recovery.lag",
}
"""The settings with numbers: of the broker they begin with ``group.``; some a group may have."""


def consumer_settings(values: Mapping[str, Value]) -> ConsumerSettings:
    """The settings of groups without configs of their own."""
    policy = str(values["group.consumer.migration.policy"]).lower()
    return ConsumerSettings(
        **_integers(values, _CONSUMER),
        assignors=assignors(values),
        migration_policy=MigrationPolicy(policy),
    )


def share_settings(values: Mapping[str, Value]) -> ShareSettings:
    """The settings of share groups without configs of their own."""
    return ShareSettings(**_integers(values, _SHARE))


def streams_settings(values: Mapping[str, Value]) -> StreamsSettings:
    """The settings of streams groups without configs of their own."""
    tags = values["group.streams.rack.aware.assignment.tags"]
    return StreamsSettings(
        **_integers(values, _STREAMS), rack_aware_tags=tuple(tags) if isinstance(tags, list) else ()
    )


def _integers(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Any]:
    found = {field: values[f"group.{name}"] for field, name in names.items()}
    assert all(isinstance(value, int) for value in found.values()), found
    return found


def _with_own(common: _S, own: Mapping[str, str], names: Mapping[str, str]) -> _S:
    known = settings(GROUP)
    values = {name: known[name].parse(text) for name, text in own.items() if name in known}
    changed: dict[str, Any] = {f: values[name] for f, name in names.items() if name in values}
    assert all(isinstance(value, int) for value in changed.values()), changed
    tags = values.get("streams.rack.aware.assignment.tags")
    if names is _STREAMS and isinstance(tags, list):
        changed["rack_aware_tags"] = tuple(tags)
    return common._replace(**changed)
