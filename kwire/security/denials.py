"""Limits how many denials of one client the audit log records.

Without a limit, one client that is denied again and again would push all other lines out of the
log.

Rules:

- A client is a principal at one IP address. In a window of ``WINDOW_S`` seconds, the audit log
  records at most ``MOST_LINES`` denials of one client. Further denials are only counted, and a line
  after the end of the window says how many were left out.
- At most ``MOST_CLIENTS`` clients have a window of their own at a time. All others share one
  window.
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
    """The denials of one client in the ``WINDOW_S`` seconds before ``ends_s``."""

    __slots__ = ("ends_s", "lines", "unsaid")

    def __init__(self, ends_s: float) -> None:
        self.ends_s = ends_s
        self.lines = self.unsaid = 0


class Denials:
    """The open windows, by principal and address.

    ``now_s`` is a clock in seconds that never goes back.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._windows: dict[tuple[str, str], _Window] = {}  # the oldest window first

    def has_line(self, principal: str, host: str) -> bool:
        """Count a denial. Return whether the audit log may record it."""
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
        """Close the windows that have ended, and log how many denials each left out."""
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
