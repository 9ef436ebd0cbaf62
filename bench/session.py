"""A run: brokers are started, warmed up, and loaded in turn, row after row and round after round.

Each broker is started anew as often as there are rounds, to measure that; the last one stays. In
every round each row is measured on one broker and then on the other, the first one in turn. Before
a load starts, what the load before wrote is on the disk, so that nobody pays for somebody else.
A row that can't be measured is noted, and the run goes on.
"""

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path

from rich.progress import Progress

from bench.brokers import MeasuredBroker, new_broker
from bench.limits import measured_limits
from bench.load import Generator, new_generator
from bench.machine import machine
from bench.report import Run
from bench.rows import ROWS, START
from bench.rows.common import NotHere, Row, Running, create_topic, next_offset, produce_request
from bench.rows.memory import IDLE_ROWS
from bench.rows.warm_up import warm_up


def selected(rows: list[Row], text: str | None) -> list[Row]:
    """The rows whose name has ``text``, all of them without one."""
    return [row for row in rows if text is None or text in row.name]


def started(broker: MeasuredBroker) -> float:
    """Start a broker; the seconds until it has acknowledged a record."""
    before = time.monotonic()
    broker.start()
    create_topic(broker.bootstrap, "first")
    next_offset(broker.bootstrap, produce_request("first", 1, 100))
    return time.monotonic() - before


def note(run: Run, row: Row, name: str, running: Running) -> None:
    """Measure a row of one broker."""
    try:
        value = row.measure(running)
    except NotHere as reason:
        message = f"{row.name}: {reason}"
    except (RuntimeError, AssertionError, OSError) as error:
        message = f"{row.name} on {name}: {type(error).__name__}: {error}"
        run["failed"] = True
    else:
        run["rows"].setdefault(row.name, {}).setdefault(name, []).append(value)
        return
    if message not in run["notes"]:
        run["notes"].append(message)


class Session:
    """One run and what it needs: the generator, the brokers, and the numbers so far."""

    def __init__(self, options: argparse.Namespace, brokers: list[str], progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._rows = selected(ROWS, options.only)
        self._task = progress.add_task("", total=len(brokers) * self._steps())
        self.run: Run = {
            "brokers": brokers,
            "options": {
                "rounds": options.rounds,
                "seconds": options.seconds,
                "warm_up": options.warm_up,
            },
            "machine": machine(),
            "limits": {},
            "rows": {},
            "limited": {},
            "notes": [],
        }

    def measure(self) -> Run:
        """All of it."""
        with contextlib.ExitStack() as stack:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            generator = new_generator(root)
            all_running: dict[str, Running] = {}
            for n in range(self._options.rounds):
                last = n == self._options.rounds - 1
                for name in self.run["brokers"]:
                    running = self._new_running(name, root / f"{name}-{n}", generator)
                    with contextlib.ExitStack() as soon:
                        (stack if last else soon).callback(running.broker.stop)
                        self._start(name, running)
                    all_running[name] = running
            for name, running in all_running.items():
                self._show(f"{name}: warm-up")
                warm_up(running, self._options.warm_up, self._rows)
            for n in range(self._options.rounds):
                self._round(n, all_running)
        return self.run

    def _steps(self) -> int:
        """How many steps the run has for each broker."""
        return 1 + self._options.rounds * (1 + len(self._rows))

    def _show(self, what: str) -> None:
        self._progress.update(self._task, description=what)
        self._progress.advance(self._task)

    def _new_running(self, name: str, directory: Path, generator: Generator) -> Running:
        options = self._options
        sizes = {"mix_seconds": options.mix_seconds, "spark_mb": options.spark_mb}
        return Running(new_broker(name, directory), generator, options.seconds, **sizes)

    def _start(self, name: str, running: Running) -> None:
        """Start a broker, and measure that and how it is when idle."""
        self._show(f"{name}: start")
        taken = started(running.broker)
        if selected([START], self._options.only):
            self.run["rows"].setdefault(START.name, {}).setdefault(name, []).append(taken)
        for row in selected(IDLE_ROWS, self._options.only):
            note(self.run, row, name, running)

    def _round(self, n: int, all_running: dict[str, Running]) -> None:
        """Every row on every broker once; who is first alternates."""
        turn = list(all_running.items())
        if n % 2:
            turn.reverse()
        for running in all_running.values():
            running.forget()
        for row in self._rows:
            for name, running in turn:
                self._show(f"round {n + 1}, {name}: {row.name}")
                if row.load not in running.runs:
                    os.sync()
                note(self.run, row, name, running)
                self.run["limited"][name] = sorted(running.limited)


def limits_of_the_machine(seconds: float) -> dict[str, tuple[float, str]]:
    """The machine's own limits, with files where the brokers have theirs."""
    with tempfile.TemporaryDirectory(prefix="bench-limits-") as directory:
        return measured_limits(Path(directory), seconds)
