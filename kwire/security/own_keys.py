"""What is made of a listener's keys and certificates, and made again when these have changed.

Rules:

- The first one is made when the broker starts, so that a missing file stops the start.
- New connections use new certificates: files that have changed are read again, and so are dynamic
  configs (``listener.name.…``). What can't be read is told in the log, and the old ones stay.

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
"""How often files are looked at while there are new connections."""


class Configured(Protocol):
    """A broker's settings, for code that needs those of one listener."""

    def of_listener(self, name: str, dynamic: Mapping[str, str] = ..., /) -> ListenerSettings:
        """The settings of a listener, with dynamic configs before the others."""


class OwnKeys(Generic[T]):
    """What ``make`` makes of a listener's settings; ``dynamic`` gives the broker's own configs.

    ConfigError if it can't be made at first.
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
        """What counts for a new connection."""
        if now_s >= self._look_due_s:
            self._look_due_s = now_s + LOOK_INTERVAL_S
            self._look()
        return self._made

    def _look(self) -> None:
        """Make it again if keys or certificates have changed."""
        dynamic = self._dynamic()
        if dynamic == self._dynamic_seen and self._file_times == _times(self._file_times):
            return
        try:
            settings = self._config.of_listener(self._name, dynamic)
            check_tls_values(settings)
            self._made, self._file_times = self._read(settings)
        except Exception as error:  # whatever a client may have written into a dynamic config
            self._file_times = _times(self._file_times)
            told = error if isinstance(error, ConfigError) else type(error).__name__
            log.error("the listener %s keeps its old certificate: %s", self._name, told)
        else:
            log.info("the listener %s has read its certificates again", self._name)
        self._dynamic_seen = dynamic

    def _read(self, settings: ListenerSettings) -> tuple[T, dict[str, float]]:
        times = _times(files_of(settings))  # before: what changes meanwhile is read again
        return self._make(settings), times


def _times(names: Iterable[str]) -> dict[str, float]:
    """When each file was changed; -1 for one that can't be looked at."""
    times = {}
    for name in names:
        try:
            times[name] = os.stat(name).st_mtime
        except (OSError, ValueError):  # ValueError: no file has this name
            times[name] = -1.0
    return times
