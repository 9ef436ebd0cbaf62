"""The progress of ``verify``, ``compact``, ``expire`` and ``replay``: a bar on stderr.

It shows what is being done, how much of it, and the time that is left. What Spark does is shown by
the tasks of its running stages. Where no bar can be drawn (``rich_bar``), nothing is printed.
"""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from kwire.spark.commands.rich_bar import RichBar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

POLL_S = 0.3
"""How often Spark is asked for the state of its stages."""


class WorkBar(RichBar):
    """A bar for one command; any thread may call ``show``."""

    def __init__(self, name: str, *, is_on: bool, console: "Console | None" = None) -> None:
        column, fields = "{task.fields[amount]}", {"amount": ""}
        super().__init__(name, column, fields, is_on=is_on, console=console)
        self._shown = ""
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._watch: threading.Thread | None = None

    def close(self) -> None:
        """Take the bar away; Spark is no longer asked."""
        self._end.set()
        if self._watch is not None:
            self._watch.join()
        super().close()

    def show(self, what: str, done: int, total: int) -> None:
        """Draw how much is done of what."""
        with self._lock:
            if not self.is_drawn:
                return
            if what != self._shown:
                self._shown = what
                self.restart(what)
            self.draw(done, total or None, amount=f"{done:,} of {total:,}" if total else "")

    def watch(self, spark: "SparkSession") -> None:
        """Show the tasks of Spark's stages from now on, until the end."""
        if not self.is_drawn or self._watch is not None:
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
