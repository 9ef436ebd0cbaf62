"""The progress of a running pipeline on stderr: a bar while a backlog is read, then a summary.

At a terminal the package rich draws the bar, if it is installed. Otherwise only the summary is
printed. If a program prints with a rich Console of its own while the bar is there, it has to give
this Console to the bar. The output of two Consoles on one terminal would be mixed up.
"""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from kwire.spark.progress import Status


class Bar:
    """A bar with rows, rate and remaining time, computed from the offsets still to read."""

    def __init__(self, name: str, *, is_on: bool, console: "Console | None" = None) -> None:
        self._name = name
        self._is_on = is_on
        self._console = console
        self._started_s = time.monotonic()
        self._progress: Any = None
        self._task: Any = None
        self._first: int | None = None

    def __enter__(self) -> "Bar":
        is_terminal = self._console.is_terminal if self._console else sys.stderr.isatty()
        if self._is_on and is_terminal:
            self._progress = _rich_progress(self._console)
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task(self._name, total=None, rows="0", rate="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, status: "Status") -> None:
        """Draw the progress once it is known: with a start by time, after the first batch."""
        if self._progress is None or not status.ends or not status.next:
            return
        done = sum(status.next.get(one, 0) for one in status.ends)
        if self._first is None:
            self._first = done
        self._progress.update(
            self._task,
            completed=done - self._first,
            total=done - self._first + status.lag,
            rows=f"{status.records:,}",
            rate=f"{_rate(status, self._started_s):,.0f}/s",
            refresh=True,
        )

    def finish(self, status: "Status") -> None:
        """Print the summary."""
        if not self._is_on:
            return
        self.__exit__(None, None, None)
        self._progress = None
        parts = [f"{status.records:,} records in {status.batches:,} batches"]
        if status.dead_letters:
            parts.append(f"{status.dead_letters:,} dead letters")
        if status.lost_offsets:
            parts.append(f"{status.lost_offsets:,} offsets lost")
        rate = _rate(status, self._started_s)
        parts += [f"{rate:,.0f}/s", f"{status.lag:,} left"]
        print(f"{self._name}: {', '.join(parts)}", file=sys.stderr)


def _rate(status: "Status", started_s: float) -> float:
    return status.records / max(time.monotonic() - started_s, 1e-6)


def _rich_progress(console: "Console | None") -> Any:
    """A bar of rich; None without rich."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        return None
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% · {task.fields[rows]} rows · {task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )
