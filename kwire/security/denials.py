"""How many denials of one client the audit log has, so that no client pushes out others' lines.

Rules:

- In ``WINDOW_S`` a principal at one address has ``MOST_LINES`` lines. Further denials are counted,
  and when the time is over one line says how many were left out.
- ``MOST_CLIENTS`` are told apart. All others share one such count.
"""

import logging
import time
from collections.abc import Callable

log = logging.getLogger("kwire.authorizer")

WINDOW_S = 10.0
MOST_LINES = 100
MOST_CLIENTS = 1000

OTHERS = ("others", "several addresses")


class _Window:
    """What one client was denied since ``ends_s - WINDOW_S``."""

    __slots__ = ("ends_s", "lines", "unsaid")

    def __init__(self, ends_s: float) -> None:
        self.ends_s = ends_s
        self.lines = self.unsaid = 0


class Denials:
    """The denials of the last seconds by (principal, address); ``now_s`` never goes back."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._windows: dict[tuple[str, str], _Window] = {}  # the oldest first

    def has_line(self, principal: str, host: str) -> bool:
        """Count a denial; return whether the audit log has a line for it."""
        self.tell()
        who = principal, host
        if who not in self._windows and len(self._windows) >= MOST_CLIENTS:
            who = OTHERS
        window = self._windows.get(who)
        if window is None:
            window = self._windows[who] = _Window(self._now_s() + WINDOW_S)
        if window.lines < MOST_LINES:
            window.lines += 1
            return True
        window.unsaid += 1
        return False

    def tell(self) -> None:
        """Log how many denials were left out in the windows that are over."""
        now_s = self._now_s()
        while self._windows:
            who, window = next(iter(self._windows.items()))
            if now_s < window.ends_s:
                return
            del self._windows[who]
            if window.unsaid:
                principal, host = who
                log.info(
                    "Principal = %s from host = %s: %d more denials like these within %g s",
                    *(principal, host, window.unsaid, WINDOW_S),
                    extra={
                        "fields": {"principal": principal, "host": host, "left_out": window.unsaid}
                    },
                )
