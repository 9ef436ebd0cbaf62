"""The configs that DescribeConfigs shows for a resource: each with its value and its sources.

Rules:

- The sources of a value, the strongest first: the resource's own config, this broker's dynamic
  config, the dynamic config of all brokers, the static config, the default. The synonyms of a
  config are the values of all its sources.
- kwire's own defaults (``config.broker.profile_of``) count as static: they differ from Kafka's.
- DescribeConfigs never shows a sensitive value.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import NamedTuple

from kwire.broker.broker import Broker
from kwire.config.broker import profile_of
from kwire.config.settings import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    READ_ONLY,
    TOPIC,
    Setting,
    settings,
)
from kwire.config.synonyms import SYNONYMS
from kwire.config.topic import from_broker
from kwire.metadata.config_checks import base_name, find_setting
from kwire.metadata.image import ConfigResourceType


class ConfigSource(IntEnum):
    """The source of a value; the numbers are Kafka's."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A value from one source, under the name it has there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config of a resource."""

    name: str
    value: str | None
    source: ConfigSource
    type_number: int
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]


UNKNOWN_TYPE = 0
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

# Groups of broker settings that stand for each other; the first one that is set counts.
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


def topic_configs(broker: Broker, own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The configs of a topic; ``own`` has the configs that the topic sets itself."""
    for name, setting in settings(TOPIC).items():
        behind = SYNONYMS.get(name, ())
        synonyms = _broker_synonyms(broker, behind[0].name) if behind else []
        if name in own:
            value = setting.to_text(setting.parse(own[name]))
            synonyms.insert(0, Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        elif setting.is_internal:
            continue
        else:
            value = setting.to_text(from_broker(name, broker.settings))
        yield _entry(setting, value, synonyms)


def broker_configs(broker: Broker) -> Iterator[ConfigEntry]:
    """The configs of this broker that are in force now."""
    own = _dynamic(broker, str(broker.node_id)), _dynamic(broker, ""), broker.config.given
    for name, setting in settings(BROKER).items():
        if setting.is_internal and not any(name in values for values in own):
            continue
        value = setting.to_text(broker.setting(name))
        yield _entry(setting, value, _broker_synonyms(broker, name))
    for name in sorted({*own[0], *own[1]} - settings(BROKER).keys()):
        yield _dynamic_entry(name, _broker_synonyms(broker, name))


def default_broker_configs(broker: Broker) -> Iterator[ConfigEntry]:
    """The dynamic configs of all brokers; only configs that are set."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, value in sorted(_dynamic(broker, "").items()):
        yield _dynamic_entry(name, [Synonym(name, value, source)])


_BEHIND_GROUPS = {"streams.assignor.name": "group.streams.assignors"}
"""The broker settings behind settings of groups that have another name; else it is the same one."""


def group_configs(broker: Broker, own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The configs of a group; ``own`` has the configs that the group sets itself."""
    for name, setting in settings(GROUP).items():
        if setting.is_internal and name not in own:
            continue
        behind = _BEHIND_GROUPS.get(name, f"group.{name}")
        if behind in settings(BROKER):
            value = setting.to_text(broker.setting(behind))
            synonyms = _broker_synonyms(broker, behind)
        else:
            value = setting.default
            synonyms = [Synonym(name, value, ConfigSource.DEFAULT_CONFIG)]
        if name in own:
            value = setting.to_text(setting.parse(own[name]))
            synonyms.insert(0, Synonym(name, value, ConfigSource.GROUP_CONFIG))
        yield _entry(setting, value, synonyms)


def client_metrics_configs(own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The configs of a client-metrics subscription; ``own`` has the configs that it sets itself."""
    for name, setting in settings(CLIENT_METRICS).items():
        if name in own:
            synonyms = [Synonym(name, own[name], ConfigSource.CLIENT_METRICS_CONFIG)]
            yield _entry(setting, own[name], synonyms)
        else:
            yield _entry(setting, setting.default, [])


def _dynamic(broker: Broker, name: str) -> Mapping[str, str]:
    """The dynamic configs of one broker, or of all brokers (``""``)."""
    return broker.image.config(ConfigResourceType.BROKER, name)


def _entry(setting: Setting, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if setting.is_sensitive:
        value = None
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(
        setting.name,
        value,
        source,
        TYPE_NUMBERS[setting.type],
        setting.mode == READ_ONLY,
        setting.is_sensitive,
        tuple(synonyms),
    )


def _dynamic_entry(name: str, synonyms: list[Synonym]) -> ConfigEntry:
    """A config whose first synonym counts. An unknown config may be a secret, so it is hidden.

    A config of one listener is shown like the same config without the listener's name.
    """
    setting = find_setting(ConfigResourceType.BROKER, base_name(name))
    first = synonyms[0]
    if setting is not None:
        entry = _entry(setting, first.value, synonyms)
        return entry if name == setting.name else entry._replace(name=name, read_only=True)
    hidden = tuple(synonym._replace(value=None) for synonym in synonyms)
    return ConfigEntry(name, None, first.source, UNKNOWN_TYPE, True, True, hidden)


def _broker_synonyms(broker: Broker, name: str) -> list[Synonym]:
    """The values behind a broker setting, source by source.

    Values before the setting's own first value belong to other names, and are left out.
    """
    names = _BROKER_SYNONYMS.get(name, (name,))
    given = broker.config.given
    sources: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, _dynamic(broker, str(broker.node_id))),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, _dynamic(broker, "")),
        (ConfigSource.STATIC_BROKER_CONFIG, {**profile_of(given), **given}),
    )
    found = [
        Synonym(synonym, values[synonym], source)
        for source, values in sources
        for synonym in names
        if synonym in values
    ]
    known = settings(BROKER)
    found += [
        Synonym(synonym, default, ConfigSource.DEFAULT_CONFIG)
        for synonym in names
        if synonym in known and (default := known[synonym].default) is not None
    ]
    return list(dropwhile(lambda synonym: synonym.name != name, found))
