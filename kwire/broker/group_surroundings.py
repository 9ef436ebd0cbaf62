"""The broker as its consumer groups see it: topics, settings, and a budget of heartbeats.

Rules:

- Topics are those of the image in force. A topic that was looked up is kept while it is unchanged.
- A group's own configs count before the broker's settings.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

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
        _settings_of(broker, consumer_settings, "consumer"),
        BrokerHeartbeats(),
        RegexMatches(),
        _settings_of(broker, share_settings, "share"),
        _settings_of(broker, streams_settings, "streams"),
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
    broker: BrokerView, of_broker: Callable[[Mapping[str, Value]], _S], kind: str
) -> Callable[[str], _S]:
    """The settings of a group: those ``of_broker``, or the group's own of this kind."""
    common, made_from = of_broker(broker.settings), broker.settings

    def settings_of(group_id: str) -> _S:
        nonlocal common, made_from
        if made_from is not broker.settings:
            common, made_from = of_broker(broker.settings), broker.settings
        own = broker.image.config(ConfigResourceType.GROUP, group_id)
        return _with_own(common, own, kind) if own else common

    return settings_of


def consumer_settings(values: Mapping[str, Value]) -> ConsumerSettings:
    """The settings of groups without configs of their own."""

    def integer(name: str) -> int:
        return _integer(values, name)

    policy = str(values["group.consumer.migration.policy"]).lower()
    return ConsumerSettings(
        session_timeout_ms=integer("consumer.session.timeout.ms"),
        heartbeat_interval_ms=integer("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=integer("consumer.assignment.interval.ms"),
        max_size=integer("consumer.max.size"),
        classic_max_size=integer("max.size"),
        assignors=assignors(values),
        migration_policy=MigrationPolicy(policy),
    )


def share_settings(values: Mapping[str, Value]) -> ShareSettings:
    """The settings of share groups without configs of their own."""

    def integer(name: str) -> int:
        return _integer(values, name)

    return ShareSettings(
        session_timeout_ms=integer("share.session.timeout.ms"),
        heartbeat_interval_ms=integer("share.heartbeat.interval.ms"),
        assignment_interval_ms=integer("share.assignment.interval.ms"),
        initialize_retry_interval_ms=integer("share.initialize.retry.interval.ms"),
        max_size=integer("share.max.size"),
    )


def streams_settings(values: Mapping[str, Value]) -> StreamsSettings:
    """The settings of streams groups without configs of their own."""

    def integer(name: str) -> int:
        return _integer(values, name)

    tags = values["group.streams.rack.aware.assignment.tags"]
    return StreamsSettings(
        session_timeout_ms=integer("streams.session.timeout.ms"),
        heartbeat_interval_ms=integer("streams.heartbeat.interval.ms"),
        assignment_interval_ms=integer("streams.assignment.interval.ms"),
        initial_rebalance_delay_ms=integer("streams.initial.rebalance.delay.ms"),
        max_size=integer("streams.max.size"),
        standby_replicas=integer("streams.num.standby.replicas"),
        rack_aware_tags=tuple(tags) if isinstance(tags, list) else (),
        task_offset_interval_ms=integer("streams.task.offset.interval.ms"),
        acceptable_recovery_lag=integer("streams.acceptable.recovery.lag"),
    )


def _integer(values: Mapping[str, Value], name: str) -> int:
    value = values[f"group.{name}"]
    assert isinstance(value, int)
    return value


def _with_own(common: _S, own: Mapping[str, str], kind: str) -> _S:
    known = settings(GROUP)
    values = {name: known[name].parse(text) for name, text in own.items() if name in known}

    def integer(name: str, default: int) -> int:
        value = values.get(f"{kind}.{name}", default)
        assert isinstance(value, int)
        return value

    changed = common._replace(
        session_timeout_ms=integer("session.timeout.ms", common.session_timeout_ms),
        heartbeat_interval_ms=integer("heartbeat.interval.ms", common.heartbeat_interval_ms),
        assignment_interval_ms=integer("assignment.interval.ms", common.assignment_interval_ms),
    )
    if not isinstance(changed, StreamsSettings):
        return changed
    tags = values.get("streams.rack.aware.assignment.tags")
    return changed._replace(
        initial_rebalance_delay_ms=integer(
            "initial.rebalance.delay.ms", changed.initial_rebalance_delay_ms
        ),
        standby_replicas=integer("num.standby.replicas", changed.standby_replicas),
        rack_aware_tags=tuple(tags) if isinstance(tags, list) else changed.rack_aware_tags,
        task_offset_interval_ms=integer("task.offset.interval.ms", changed.task_offset_interval_ms),
        acceptable_recovery_lag=integer("acceptable.recovery.lag", changed.acceptable_recovery_lag),
    )
