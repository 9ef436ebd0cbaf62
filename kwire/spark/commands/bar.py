"""The progress of a running pipeline on stderr: a bar while a backlog is read, then a summary.

Where no bar can be drawn (``rich_bar``), only the summary is printed.
"""

import sys
import time
from typing import TYPE_CHECKING

from kwire.spark.commands.rich_bar import RichBar

if TYPE_CHECKING:
    from rich.console import Console

    from kwire.spark.progress import Status

_COLUMN = "{task.percentage:>3.0f}% · {task.fields[rows]} rows · {task.fields[rate]}"


class Bar(RichBar):
    """A bar with rows, rate and remaining time, computed from the offsets still to read."""

    def __init__(self, name: str, *, is_on: bool, console: "Console | None" = None) -> None:
        super().__init__(name, _COLUMN, {"rows": "0", "rate": ""}, is_on=is_on, console=console)
        self._started_s = time.monotonic()
        self._first: int | None = None

    def show(self, status: "Status") -> None:
        """Draw the progress once it is known: with a start by time, after the first batch."""
        if not self.is_drawn or not status.ends or not status.next:
            return
        done = sum(status.next.get(one, 0) for one in status.ends)
        if self._first is None:
            self._first = done
        self.draw(
            done - self._first,
            done - self._first + status.lag,
            rows=f"{status.records:,}",
            rate=f"{_rate(status, self._started_s):,.0f}/s",
        )

    def finish(self, status: "Status") -> None:
        """Print the summary."""
        if not self.is_on:
            return
        self.close()
        parts = [f"{status.records:,} records in {status.batches:,} batches"]
        if status.dead_letters:
            parts.append(f"{status.dead_letters:,} dead letters")
        if status.lost_offsets:
            parts.append(f"{status.lost_offsets:,} offsets lost")
        rate = _rate(status, self._started_s)
        parts += [f"{rate:,.0f}/s", f"{status.lag:,} left"]
        print(f"{self.name}: {', '.join(parts)}", file=sys.stderr)


def _rate(status: "Status", started_s: float) -> float:
    return status.records / max(time.monotonic() - started_s, 1e-6)
