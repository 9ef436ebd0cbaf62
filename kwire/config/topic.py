"""The effective settings of a topic: its own value, else the value of the broker's synonym."""

from collections.abc import Mapping

from kwire.config.settings import TOPIC, Value, settings
from kwire.config.synonyms import SYNONYMS


def topic_settings(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> dict[str, Value]:
    """The effective, parsed settings of a topic.

    ``overrides`` are the topic's own settings, as text. ``broker`` maps broker settings to their
    effective values. If a setting has several synonyms, the first one that isn't None counts.
    """
    effective = {}
    for name, setting in settings(TOPIC).items():
        text = overrides.get(name)
        effective[name] = setting.parse(text) if text is not None else from_broker(name, broker)
    return effective


def from_broker(name: str, broker: Mapping[str, Value]) -> Value:
    """The value of a topic setting for a topic that doesn't set it."""
    for synonym in SYNONYMS.get(name, ()):
        value = broker[synonym.name]
        if value is None:
            continue
        if synonym.factor != 1 and isinstance(value, int):
            return value * synonym.factor if value >= 0 else value
        return value
    setting = settings(TOPIC)[name]
    return setting.parse(setting.default)
