"""An estimate of the remaining time of a run: each step's usual seconds, scaled to this run.

A step's usual seconds come from the published run, or are a guess. After the first rows, the scale
shows whether this machine is slower or faster.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bench.published import NUMBERS, read_run

TRUSTED_AFTER_S = 30.0
"""The estimate ignores this run's speed until steps of this usual length are done."""

TELL_EVERY_S = 60.0

Step = tuple[str, str]
"""A row or load, and the broker on which it is measured."""


def usual_seconds(file: Path = NUMBERS) -> dict[Step, float]:
    """The mean seconds of each step in the rounds of the published run."""
    run = read_run(file) or {}
    return {
        (what, broker): sum(taken) / len(taken)
        for what, brokers in run.get("seconds", {}).items()
        for broker, taken in brokers.items()
        if taken
    }


class Pace:
    """The steps of a run, and how much of them is done."""

    def __init__(self, steps: Iterable[Step], usual: dict[Step, float], guess_s: float) -> None:
        self._usual, self._guess_s = usual, guess_s
        self.total_s = sum(map(self._expected, steps))
        self.done_s = 0.0

    def _expected(self, step: Step) -> float:
        return self._usual.get(step, self._guess_s)

    def finish(self, step: Step) -> None:
        """Note that a step is done."""
        self.done_s += self._expected(step)

    def left_s(self, spent_s: float) -> float:
        """The remaining seconds, given the seconds that the finished steps took."""
        factor = spent_s / self.done_s if self.done_s > TRUSTED_AFTER_S else 1.0
        return max(0.0, self.total_s - self.done_s) * factor


def minutes(seconds: float) -> str:
    """A time as text: whole minutes, or seconds below one minute."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


class Teller:
    """Shows what is being measured and how long the run will still take.

    A terminal gets one line that changes; a file gets a line about every minute.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (BarColumn(), TextColumn("{task.fields[left]} left, {task.description}"))
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=1.0, left="")
        self._pace = Pace([], {}, 0.0)
        self._started_s = self._told_s = time.monotonic()

    @contextmanager
    def telling(self, pace: Pace) -> Iterator[None]:
        """Show the progress of a run with this pace, during the block."""
        self._pace = pace
        self._started_s = time.monotonic()
        self._told_s = self._started_s - TELL_EVERY_S
        with self._progress:
            yield

    def tell(self, what: str) -> None:
        """Show that a step begins."""
        now_s = time.monotonic()
        left = minutes(self._pace.left_s(now_s - self._started_s))
        if self._console.is_terminal:
            done = self._pace.done_s / max(self._pace.total_s, 1e-9)
            self._progress.update(self._task, completed=done, description=what, left=left)
        elif now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            self._console.print(f"{left} left, {what}", highlight=False)
