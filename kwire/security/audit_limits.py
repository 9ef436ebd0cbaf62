"""Limits how many answers of one kind the audit log records: denials, permissions, logins, or
failed logins.

Without limits, one client that is denied again and again would push all other lines out of the log,
and many clients together would fill the disk.

Rules:

- A client is a principal at one IP address. In a window of ``WINDOW_S`` seconds, the audit log
  records at most ``MOST_LINES`` answers to one client. Further answers are only counted, and a line
  after the end of the window says how many were left out.
- At most ``MOST_CLIENTS`` clients have a window of their own at a time. All others share one
  window.
- All clients together have at most ``MOST_PER_SECOND`` lines in a second. Further answers are only
  counted, and a line after that second says how many were left out.
- Names in a line come from clients, so they are shortened (``shown``).
"""

import logging
from collections.abc import Callable

from kwire.clock import steady_clock_ms

log = logging.getLogger("kwire.authorizer")

WINDOW_S = 10.0
MOST_LINES = 100
MOST_CLIENTS = 1000
MOST_PER_SECOND = 200
MOST_CHARACTERS = 300

OTHERS = ("others", "several addresses")


class _Window:
    """The answers to one client in the ``WINDOW_S`` seconds before ``ends_s``."""

    __slots__ = ("ends_s", "lines", "unsaid")

    def __init__(self, ends_s: float) -> None:
        self.ends_s = ends_s
        self.lines = self.unsaid = 0


class AuditLimits:
    """The limits of one kind of answers: ``kind`` is its plural, ``level`` the level of its lines.

    The logger ``told_by`` logs how many answers were left out.

    ``steady_ms`` is the broker's steady clock.
    """

    def __init__(
        self,
        kind: str,
        level: int = logging.INFO,
        steady_ms: Callable[[], int] = steady_clock_ms,
        told_by: logging.Logger = log,
    ) -> None:
        self._kind = kind
        self._level = level
        self._log = told_by
        self._steady_ms = steady_ms
        self._windows: dict[tuple[str, str], _Window] = {}  # the oldest window first
        self._second = -1
        self._lines = self._unsaid = 0  # in this second, of all clients

    def has_line(self, principal: str, host: str) -> bool:
        """Count an answer. Return whether the audit log may record it."""
        self.log_left_out()
        who = principal, host
        if who not in self._windows and len(self._windows) >= MOST_CLIENTS:
            who = OTHERS
        window = self._windows.get(who)
        if window is None:
            window = self._windows[who] = _Window(self._steady_ms() / 1000 + WINDOW_S)
        if window.lines >= MOST_LINES:
            window.unsaid += 1
            return False
        if self._lines >= MOST_PER_SECOND:
            self._unsaid += 1
            return False
        window.lines += 1
        self._lines += 1
        return True

    def log_left_out(self) -> None:
        """Close the second and the windows that have ended; log how many answers each left out."""
        now_s = self._steady_ms() / 1000
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._tell_second()
        while self._windows:
            who, window = next(iter(self._windows.items()))
            if now_s < window.ends_s:
                return
            del self._windows[who]
            if window.unsaid:
                principal, host = who
                self._log.log(
                    self._level,
                    "Principal = %s from host = %s: %d more %s like these within %g s",
                    *(principal, host, window.unsaid, self._kind, WINDOW_S),
                    extra={
                        "fields": {"principal": principal, "host": host, "left_out": window.unsaid}
                    },
                )

    def _tell_second(self) -> None:
        unsaid, self._lines, self._unsaid = self._unsaid, 0, 0
        if unsaid:
            self._log.log(
                self._level,
                "%d more %s within a second, beyond %d of all principals",
                *(unsaid, self._kind, MOST_PER_SECOND),
                extra={"fields": {"left_out": unsaid}},
            )


def shown(text: str) -> str:
    """Shorten a text from a client, and escape it if it can't be printed in one line."""
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
