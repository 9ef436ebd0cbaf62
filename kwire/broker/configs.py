"""What DescribeConfigs tells of a resource: every config, its value, and where that comes from.

Rules:

- The sources of a value, first the one that counts: the resource's own, this broker's dynamic one,
  that of all brokers, the static one, the default. All that have one are its synonyms.
- kwire's own defaults (``config.broker.PROFILE``) count as static: they differ from Kafka's.
- A sensitive value is never told.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from kwire.broker.broker import Broker
from kwire.config.broker import PROFILE
from kwire.config.settings import BROKER, GROUP, READ_ONLY, TOPIC, Setting, settings
from kwire.config.topic import SYNONYMS, from_broker
from kwire.metadata.image import ConfigResourceType


class ConfigSource(IntEnum):
    """Where a value comes from; Kafka's numbers."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A value from one source, under the name it has there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config of a resource."""

    setting: Setting
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[Synonym, ...]


TYPE_NUMBERS = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}

# Broker settings that stand for each other, the one that counts first in front.
_BROKER_SYNONYMS = {
    name: names
    for names in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in names
}


def topic_configs(broker: Broker, topic: str) -> Iterator[ConfigEntry]:
    """The configs of a topic."""
    own = broker.image.config(ConfigResourceType.TOPIC, topic)
    for name, setting in settings(TOPIC).items():
        synonyms = []
        if name in own:
            synonyms.append(Synonym(name, own[name], ConfigSource.DYNAMIC_TOPIC_CONFIG))
        names = tuple(synonym.name for synonym in SYNONYMS.get(name, ()))
        if names:
            synonyms += _broker_synonyms(broker, names)
            value = own.get(name, setting.to_text(from_broker(name, broker.settings)))
        else:
            value = own.get(name, setting.default)
            synonyms.append(Synonym(name, setting.default, ConfigSource.DEFAULT_CONFIG))
        yield _entry(setting, value, synonyms, read_only=False)


def broker_configs(broker: Broker) -> Iterator[ConfigEntry]:
    """The configs of this broker, in force now."""
    for name, setting in settings(BROKER).items():
        names = _BROKER_SYNONYMS.get(name, (name,))
        synonyms = _broker_synonyms(broker, (name, *(n for n in names if n != name)))
        value = setting.to_text(broker.setting(name))
        yield _entry(setting, value, synonyms, read_only=setting.mode == READ_ONLY)


def default_broker_configs(broker: Broker) -> Iterator[ConfigEntry]:
    """The dynamic configs of all brokers: only those that are set."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, value in broker.image.config(ConfigResourceType.BROKER, "").items():
        yield _entry(settings(BROKER)[name], value, [Synonym(name, value, source)], read_only=False)


def group_configs(broker: Broker, group_id: str) -> Iterator[ConfigEntry]:
    """The configs of a group."""
    own = broker.image.config(ConfigResourceType.GROUP, group_id)
    for name, setting in settings(GROUP).items():
        synonyms = [Synonym(name, own[name], ConfigSource.GROUP_CONFIG)] if name in own else []
        synonyms.append(Synonym(name, setting.default, ConfigSource.DEFAULT_CONFIG))
        yield _entry(setting, own.get(name, setting.default), synonyms, read_only=False)


def _entry(
    setting: Setting, value: str | None, synonyms: list[Synonym], *, read_only: bool
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if setting.is_sensitive:
        value = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(setting, value, source, read_only, tuple(synonyms))


def _broker_synonyms(broker: Broker, names: tuple[str, ...]) -> list[Synonym]:
    """The values that broker settings of these names have, source by source."""
    image = broker.image
    sources: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
        (
            ConfigSource.DYNAMIC_BROKER_CONFIG,
            image.config(ConfigResourceType.BROKER, str(broker.node_id)),
        ),
        (
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            image.config(ConfigResourceType.BROKER, ""),
        ),
        (ConfigSource.STATIC_BROKER_CONFIG, PROFILE | dict(broker.config.given)),
    )
    found = [
        Synonym(name, values[name], source)
        for source, values in sources
        for name in names
        if name in values
    ]
    defaults = ((name, settings(BROKER)[name].default) for name in names)
    found += [
        Synonym(name, default, ConfigSource.DEFAULT_CONFIG)
        for name, default in defaults
        if default is not None
    ]
    return found
