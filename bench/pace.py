"""How long a run will still take: each step's usual seconds, corrected by how this run goes.

What is usual is what the published run took, or a guess; a machine that is half as fast is known
after the first rows.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bench.published import NUMBERS, read_run

TRUSTED_AFTER_S = 30.0
"""Before so much of what is usual has been done, the usual is believed, and not this run."""

TELL_EVERY_S = 60.0

Step = tuple[str, str]
"""What is measured, and on which broker."""


def usual_seconds(file: Path = NUMBERS) -> dict[Step, float]:
    """How long each step has taken in the published run, in the mean of its rounds."""
    run = read_run(file) or {}
    return {
        (what, broker): sum(taken) / len(taken)
        for what, brokers in run.get("seconds", {}).items()
        for broker, taken in brokers.items()
        if taken
    }


class Pace:
    """The steps of a run, and which of them are done."""

    def __init__(self, steps: Iterable[Step], usual: dict[Step, float], guess_s: float) -> None:
        self._usual, self._guess_s = usual, guess_s
        self.total_s = sum(map(self._expected, steps))
        self.done_s = 0.0

    def _expected(self, step: Step) -> float:
        return self._usual.get(step, self._guess_s)

    def finish(self, step: Step) -> None:
        """A step is done."""
        self.done_s += self._expected(step)

    def left_s(self, spent_s: float) -> float:
        """Seconds that are left, when so many have been spent on the steps that are done."""
        factor = spent_s / self.done_s if self.done_s > TRUSTED_AFTER_S else 1.0
        return max(0.0, self.total_s - self.done_s) * factor


def minutes(seconds: float) -> str:
    """A time for people: whole minutes, or seconds below one."""
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


class Teller:
    """Tells what is being measured and how long all of it will still take.

    On a terminal that is one line that changes; in a file it is a line every minute or so.
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
        """From here on a run of this pace goes on."""
        self._pace = pace
        self._started_s = time.monotonic()
        self._told_s = self._started_s - TELL_EVERY_S
        with self._progress:
            yield

    def tell(self, what: str) -> None:
        """A step begins."""
        now_s = time.monotonic()
        left = minutes(self._pace.left_s(now_s - self._started_s))
        if self._console.is_terminal:
            done = self._pace.done_s / max(self._pace.total_s, 1e-9)
            self._progress.update(self._task, completed=done, description=what, left=left)
        elif now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            self._console.print(f"{left} left, {what}", highlight=False)
