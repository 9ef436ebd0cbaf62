"""An object made from a listener's keys and certificates, such as a TLS context. When the keys or
certificates change, the object is made anew.

Rules:

- The first object is made when the broker starts, so that a missing file stops the start.
- If a file or a dynamic config (``listener.name.…``) has changed, a new object is made, and new
  connections use it. If it can't be made, the log says so, and the old object stays in use.

Source: DynamicBrokerReconfiguration, SslFactory of Kafka.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from kwire.config.listener_settings import ListenerSettings, check_tls_values
from kwire.config.settings import ConfigError
from kwire.security.stores import files_of

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 5.0
"""Files are checked for changes at most this often, and only while clients connect."""


class Configured(Protocol):
    """The settings of a broker, from which the settings of one listener can be taken."""

    def of_listener(self, name: str, dynamic: Mapping[str, str] = ..., /) -> ListenerSettings:
        """The settings of a listener; ``dynamic`` configs override the others."""


class OwnKeys(Generic[T]):
    """Keeps the object that ``make`` makes from a listener's settings.

    ``dynamic`` returns the broker's own dynamic configs. Raises ConfigError if the first object
    can't be made.
    """

    def __init__(
        self,
        name: str,
        config: Configured,
        dynamic: Callable[[], Mapping[str, str]],
        make: Callable[[ListenerSettings], T],
    ) -> None:
        self._name = name
        self._config = config
        self._dynamic = dynamic
        self._make = make
        self._dynamic_seen: Mapping[str, str] = {}
        self._look_due_s = 0.0
        self._made, self._file_times = self._read(config.of_listener(name))

    def current(self, now_s: float) -> T:
        """The object that a new connection uses."""
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + LOOK_INTERVAL_S
            self._renew_if_changed()
        return self._made

    def _renew_if_changed(self) -> None:
        """Make a new object if keys or certificates have changed."""
        dynamic = self._dynamic()
        if dynamic == self._dynamic_seen and self._file_times == _times(self._file_times):
            return
        try:
            settings = self._config.of_listener(self._name, dynamic)
            check_tls_values(settings)
            self._made, self._file_times = self._read(settings)
        except Exception as error:  # a client may have written anything into a dynamic config
            self._file_times = _times(self._file_times)
            told = error if isinstance(error, ConfigError) else type(error).__name__
            log.error("the listener %s keeps its old certificate: %s", self._name, told)
        else:
            log.info("the listener %s has read its certificates again", self._name)
        self._dynamic_seen = dynamic

    def _read(self, settings: ListenerSettings) -> tuple[T, dict[str, float]]:
        times = _times(
            files_of(settings)
        )  # taken before reading, so that a change meanwhile is noticed
        return self._make(settings), times


def _times(names: Iterable[str]) -> dict[str, float]:
    """The time of the last change of each file; -1 for a file that can't be read."""
    times = {}
    for name in names:
        try:
            times[name] = os.stat(name).st_mtime
        except (OSError, ValueError):  # ValueError: a name that no file can have
            times[name] = -1.0
    return times
