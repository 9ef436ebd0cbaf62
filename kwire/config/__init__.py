"""Kafka's settings under Kafka's names: tables, parsing, and the effective value of each.

- ``values``: how the text of a value is read, checked and printed.
- ``settings``: what settings exist (``settings.tsv``).
- ``properties``: Java's ``.properties`` syntax.
- ``broker``: the static settings of one broker, with kwire's profile of defaults.
- ``without_effect``: the settings that nothing here goes by, and what is said of them.
- ``documentation``: what each setting is for (``documentation.tsv``).
- ``topic``: settings of a topic, and which broker settings stand behind them.
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
