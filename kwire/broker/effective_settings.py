"""The settings in force: those of the broker, and those of a topic's logs.

Rule: a topic's own configs count first, then this broker's dynamic configs, then the dynamic
configs of all brokers, then the configuration that the broker was started with.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.config.settings import BROKER, Value, settings
from kwire.config.topic import topic_settings
from kwire.log.log_config import LogConfig
from kwire.metadata.image import ConfigResourceType, MetadataImage

if TYPE_CHECKING:
    from kwire.broker.replica.throttles import ThrottledBroker, Throttles


def broker_settings(
    config: Mapping[str, Value], image: MetadataImage, node_id: int
) -> dict[str, Value]:
    """The effective settings of a broker that was started with ``config``."""
    known = settings(BROKER)
    dynamic = dict(image.config(ConfigResourceType.BROKER, ""))
    dynamic.update(image.config(ConfigResourceType.BROKER, str(node_id)))
    values = dict(config)
    values.update(
        (name, known[name].parse(text)) for name, text in dynamic.items() if name in known
    )
    return values


def settings_of_topic(
    topic: str, image: MetadataImage, broker: Mapping[str, Value]
) -> dict[str, Value]:
    """The effective settings of a topic; ``broker`` holds the broker's settings."""
    return topic_settings(image.config(ConfigResourceType.TOPIC, topic), broker)


def log_config(topic: str, image: MetadataImage, broker: Mapping[str, Value]) -> LogConfig:
    """The effective settings of a topic, in the form that its logs use."""
    return LogConfig.from_settings(settings_of_topic(topic, image, broker), broker)


def throttles_of(broker: "ThrottledBroker", before: "Throttles | None") -> "Throttles | None":
    """The limits of how fast a broker's replicas catch up; None if no rate is set."""
    image, kind = broker.image, ConfigResourceType.BROKER
    names = (*image.config(kind, ""), *image.config(kind, str(broker.node_id)))
    if not any(name.endswith(".replication.throttled.rate") for name in names):
        return None
    from kwire.broker.replica.throttles import updated

    return updated(before, broker)
