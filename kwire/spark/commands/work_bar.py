"""The progress of ``verify``, ``compact``, ``expire`` and ``replay``: a bar on stderr.

It shows what is being done, how much of it, and the time that is left. What Spark does is shown by
the tasks of its running stages. At a terminal the package rich draws the bar, if it is installed;
otherwise nothing is printed.
"""

import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

POLL_S = 0.3
"""How often Spark is asked for the state of its stages."""


class WorkBar:
    """A bar for one command; any thread may call ``show``."""

    def __init__(self, name: str, *, is_on: bool, console: "Console | None" = None) -> None:
        self._name = name
        self._is_on = is_on
        self._console = console
        self._progress: Any = None
        self._task: Any = None
        self._shown = ""
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._watch: threading.Thread | None = None

    def __enter__(self) -> "WorkBar":
        is_terminal = self._console.is_terminal if self._console else sys.stderr.isatty()
        if self._is_on and is_terminal:
            self._progress = _rich_progress(self._console)
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task(self._name, total=None, amount="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        if self._watch is not None:
            self._watch.join()
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """Draw how much is done of what; the time that is left is counted anew for another what."""
        if self._progress is None:
            return
        with self._lock:
            if what != self._shown:
                self._shown = what
                self._progress.reset(self._task, description=f"{self._name}: {what}")
            amount = f"{done:,} of {total:,}" if total else ""
            self._progress.update(self._task, completed=done, total=total or None, amount=amount)

    def watch(self, spark: "SparkSession") -> None:
        """Show the tasks of Spark's stages from now on, until the end."""
        if self._progress is None or self._watch is not None:
            return
        self._watch = threading.Thread(target=self._poll, args=(spark,), daemon=True)
        self._watch.start()

    def _poll(self, spark: "SparkSession") -> None:
        tracker = spark.sparkContext.statusTracker()
        while not self._end.wait(POLL_S):
            with suppress(Exception):  # of the connection: Spark may end before the command
                found = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
                stages = [one for one in found if one is not None]
                if stages:
                    done = sum(one.numCompletedTasks for one in stages)
                    self.show("Spark's tasks", done, sum(one.numTasks for one in stages))


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
        TextColumn("{task.fields[amount]}"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )
