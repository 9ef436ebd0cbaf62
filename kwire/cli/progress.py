"""Progress of long commands, on stderr: one line that is rewritten, and one that stays.

Nothing is drawn when stderr isn't a terminal; the last line is printed there too.
"""

import sys
import time

_INTERVAL_S = 0.2


class Progress:
    """Shows how many records and how much of the input are done, and how fast."""

    def __init__(self, verb: str, *, is_on: bool = True) -> None:
        self._verb = verb
        self._is_on = is_on
        self._draws = is_on and sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._next_s = self._started_s + _INTERVAL_S
        self._read_bytes = 0
        self._total_bytes: int | None = None
        self._has_drawn = False

    def take_input(self, size_bytes: int, total_bytes: int | None) -> None:
        """Count bytes of the input that were read."""
        self._read_bytes += size_bytes
        self._total_bytes = total_bytes

    def advance(self, records: int) -> None:
        """Draw the line again, a few times a second; ``records`` is the count so far."""
        now_s = time.monotonic()
        if self._draws and now_s >= self._next_s:
            self._next_s = now_s + _INTERVAL_S
            share = ""
            if self._total_bytes:
                share = f", {min(self._read_bytes / self._total_bytes, 1):.0%} of the input"
            self._has_drawn = True
            sys.stderr.write(f"\r\x1b[K{self._text(records)}{share}")
            sys.stderr.flush()

    def finish(self, records: int) -> None:
        """Print the last line."""
        if self._is_on:
            start = "\r\x1b[K" if self._has_drawn else ""
            sys.stderr.write(f"{start}{self._text(records)}\n")

    def _text(self, records: int) -> str:
        took_s = max(time.monotonic() - self._started_s, 1e-6)
        rate = f", {records / took_s:,.0f}/s" if took_s > 1 else ""
        return f"{records:,} record{'s' * (records != 1)} {self._verb}{rate}"


class Bar:
    """How much of a known number is done: a bar at a terminal, nothing elsewhere."""

    _WIDTH = 30

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._draws = sys.stderr.isatty()

    def __enter__(self) -> "Bar":
        return self

    def show(self, done: int) -> None:
        """Draw the bar again."""
        if self._draws:
            full = self._WIDTH * done // self._total
            bar = "#" * full + "." * (self._WIDTH - full)
            sys.stderr.write(f"\r\x1b[K[{bar}] {done:,} of {self._total:,} {self._what}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        """End the line."""
        if self._draws:
            sys.stderr.write("\n")
