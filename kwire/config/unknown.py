"""Names of settings that nobody knows, most often slips of the keyboard.

Rules:

- A name is known if the table of the broker's settings has it, if the authorizer reads it, or if
  Kafka reads it although its table doesn't have it (``OUTSIDE_THE_TABLE``).
- A name for one listener (``listener.name.…``) is known if the listener can have such a setting.
- ``kwire serve`` ignores unknown names with a warning, as Kafka does. ``kwire.testing`` refuses
  them: a test of a setting that doesn't exist proves nothing.
"""

from collections.abc import Mapping

from kwire.config.authorizer import AUTHORIZER_SETTINGS
from kwire.config.settings import BROKER, settings

OF_A_LISTENER = "listener.name."


def unknown_names(properties: Mapping[str, str]) -> list[str]:
    """Those of the names that are unknown; ConfigError for a bad value of a listener's setting."""
    known, of_listeners = settings(BROKER), _of_listeners(properties)
    return [
        name
        for name in properties
        if name not in known
        and name not in AUTHORIZER_SETTINGS
        and not _is_outside_the_table(name, of_listeners)
    ]


def hint(name: str) -> str:
    """``; did you mean num.partitions?``, the end of a sentence; empty if no name is like this."""
    from difflib import get_close_matches

    close = get_close_matches(name, settings(BROKER), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _of_listeners(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that single listeners have; in their names the listener is in lower case."""
    if not any(name.startswith(OF_A_LISTENER) for name in properties):
        return {}
    from kwire.config.listener_settings import prefixed_settings

    return prefixed_settings(properties)


def _is_outside_the_table(name: str, of_listeners: Mapping[str, str]) -> bool:
    from kwire.config.without_effect import OUTSIDE_THE_TABLE, is_among

    if name.startswith(OF_A_LISTENER):
        listener, _, rest = name.removeprefix(OF_A_LISTENER).partition(".")
        return f"{OF_A_LISTENER}{listener.lower()}.{rest}" in of_listeners
    return is_among(name, OUTSIDE_THE_TABLE)
