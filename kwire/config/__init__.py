"""Kafka's settings under Kafka's names: tables, parsing, and the effective value of each.

- ``values``: reads, checks and prints the text of a value.
- ``settings``: the table of all settings (``settings.tsv``).
- ``properties``: Java's ``.properties`` syntax.
- ``broker``: the static settings of one broker, with kwire's profile of defaults.
- ``exposure``: the warning about ports that are open to the network.
- ``groups``: checks the broker's settings of groups against each other.
- ``without_effect``: the settings that no code of kwire reads, and the warnings about them.
- ``documentation``: a text for each setting that says what the setting does
  (``documentation.tsv``).
- ``topic``: the effective settings of a topic.
- ``synonyms``: the broker settings that are the defaults of the topic settings.
"""

from kwire.config.broker import BrokerConfig
from kwire.config.properties import parse_properties
from kwire.config.settings import BROKER, GROUP, TOPIC, ConfigError, Setting, settings
from kwire.config.topic import topic_settings

__all__ = [
    "BROKER",
    "GROUP",
    "TOPIC",
    "BrokerConfig",
    "ConfigError",
    "Setting",
    "parse_properties",
    "settings",
    "topic_settings",
]
