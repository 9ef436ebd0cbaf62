"""A run: brokers are started, warmed up, and loaded in turn, row after row and round after round.

Each broker is started once per round, to measure its start; the last start stays up. In every round
each row is measured on all brokers, and the first broker changes from round to round. Slow rows are
measured only in the first rounds. Before a load starts, the data of the load before is synced and
its deleted files are gone, so that no load pays for another. If a row can't be measured, a note
says so and the run goes on.
"""

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.brokers import Maker, MeasuredBroker
from bench.limits import measured_limits
from bench.load import Generator, new_generator
from bench.machine import machine
from bench.pace import Pace, Step, Teller, usual_seconds
from bench.report import Run
from bench.rows import ROWS, SLOW, START
from bench.rows.common import (
    DELETED,
    NotHere,
    Row,
    Running,
    create_topic,
    load_codecs,
    next_offset,
    produce_request,
)
from bench.rows.memory import IDLE_ROWS
from bench.rows.warm_up import warm_up, warm_up_of

DELETED_S = 10.0
"""How long the files of deleted topics may take to disappear."""

GUESS_MORE_S = 2.0
"""The time of an unknown row besides its load."""


def selected(rows: list[Row], text: str | None) -> list[Row]:
    """The rows whose name contains ``text`` or one of its parts between ``|``; all for None."""
    parts = [""] if text is None else text.split("|")
    return [row for row in rows if any(part in row.name for part in parts)]


def started(broker: MeasuredBroker) -> float:
    """Start a broker; returns the seconds until it has acknowledged a record."""
    record = produce_request("first", 1, 100)
    load_codecs()  # the client's codecs, whose loading would count for the first broker
    before = time.monotonic()
    broker.start()
    create_topic(broker.bootstrap, "first")
    next_offset(broker.bootstrap, record)
    return time.monotonic() - before


def note(run: Run, row: Row, name: str, running: Running) -> None:
    """Measure a row on one broker, and store its number or a note."""
    try:
        value = row.measure(running)
    except NotHere as reason:
        message = f"{row.name}: {reason}"
    except Exception as error:  # the rows after this one still have to be measured
        message = f"{row.name} on {name}: {type(error).__name__}: {error}"
        run["failed"] = True
    else:
        run["rows"].setdefault(row.name, {}).setdefault(name, []).append(value)
        return
    if message not in run["notes"]:
        run["notes"].append(message)


def settle(run: Run, running: Running) -> None:
    """Wait until a broker's deleted files are gone and its data is on the disk."""
    broker = running.broker
    logs = Path(broker.data_dir, "logs")  # Apache Kafka's
    directory = logs if logs.exists() else broker.data_dir
    names = tuple(f"{name}-" for name in DELETED.pop(broker.bootstrap, []))
    limit = time.monotonic() + DELETED_S
    while any(name.startswith(names) for name in os.listdir(directory)):
        if time.monotonic() > limit:
            run["notes"].append(f"deleted files in {directory} still exist after {DELETED_S} s")
            break
        time.sleep(0.01)
    os.sync()


def spent(run: Run, what: str, name: str, started_s: float) -> None:
    """Store how long a step took."""
    taken = round(time.monotonic() - started_s, 3)
    run["seconds"].setdefault(what, {}).setdefault(name, []).append(taken)


class Session:
    """One run: the options, the brokers, and the numbers so far."""

    def __init__(
        self, options: argparse.Namespace, makers: dict[str, Maker], teller: Teller
    ) -> None:
        self._options = options
        self._makers = makers
        self._teller = teller
        self._rows = selected(ROWS, options.only)
        guess_s = options.seconds + GUESS_MORE_S
        self._pace = Pace(self._steps(), usual_seconds(), guess_s)
        self.run: Run = {
            "brokers": list(makers),
            "options": {
                "rounds": options.rounds,
                "slow_rounds": options.slow_rounds,
                "seconds": options.seconds,
                "warm_up": options.warm_up,
            },
            "machine": machine(),
            "limits": {},
            "rows": {},
            "limited": {},
            "notes": [],
            "seconds": {},
        }

    @property
    def usual_s(self) -> float:
        """The expected seconds of the whole run."""
        return self._pace.total_s

    def rounds(self) -> Iterator[int]:
        """Measure every round; after each of them ``run`` has the numbers so far."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._teller.telling(self._pace))
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            all_running = self._started(root, stack)
            for name, running in all_running.items():
                with self._step("warm-up", name):
                    warm_up(running, warm_up_of(name, self._options.warm_up), self._rows)
                settle(self.run, running)
            for n in range(self._options.rounds):
                self._round(n, all_running)
                yield n

    def _started(self, root: Path, stack: contextlib.ExitStack) -> dict[str, Running]:
        """Start every broker once per round; returns the last ones, which stay up."""
        generator = new_generator(root)
        all_running: dict[str, Running] = {}
        for n in range(self._options.rounds):
            last = n == self._options.rounds - 1
            for name in self._makers:
                running = self._new_running(name, root / f"{name}-{n}", generator)
                with contextlib.ExitStack() as soon, self._step("start", name):
                    (stack if last else soon).callback(running.broker.stop)
                    self._start(name, running)
                all_running[name] = running
        return all_running

    def rows_of(self, n: int) -> list[Row]:
        """The rows of a round."""
        slow = n < self._options.slow_rounds
        return [row for row in self._rows if slow or row.name not in SLOW]

    def _steps(self) -> list[Step]:
        """The steps of the run; rows that share a load are one step."""
        rounds = self._options.rounds
        whats = [*["start"] * rounds, "warm-up"]
        for n in range(rounds):
            whats += dict.fromkeys(row.load or row.name for row in self.rows_of(n))
        return [(what, name) for what in whats for name in self._makers]

    @contextlib.contextmanager
    def _step(self, what: str, name: str, when: str = "") -> Iterator[None]:
        """Show a step, and store how long it takes."""
        self._teller.tell(f"{when}{name}: {what}")
        started = time.monotonic()
        yield
        spent(self.run, what, name, started)
        self._pace.finish((what, name))

    def _new_running(self, name: str, directory: Path, generator: Generator) -> Running:
        options, make = self._options, self._makers[name]
        sizes = {"mix_seconds": options.mix_seconds, "spark_mb": options.spark_mb}
        return Running(make(directory), make, generator, options.seconds, **sizes)

    def _start(self, name: str, running: Running) -> None:
        """Start a broker, and measure the start and the idle broker."""
        taken = started(running.broker)
        if selected([START], self._options.only):
            self.run["rows"].setdefault(START.name, {}).setdefault(name, []).append(taken)
        for row in selected(IDLE_ROWS, self._options.only):
            note(self.run, row, name, running)

    def _round(self, n: int, all_running: dict[str, Running]) -> None:
        """Measure every row on every broker once; the first broker changes with the round."""
        turn = list(all_running.items())
        turn = turn[n % len(turn) :] + turn[: n % len(turn)]
        for running in all_running.values():
            running.forget()
        done: set[Step] = set()
        for row in self.rows_of(n):
            for name, running in turn:
                what = row.load or row.name
                if (what, name) in done:
                    note(self.run, row, name, running)
                    continue
                done.add((what, name))
                with self._step(what, name, f"round {n + 1}, "):
                    note(self.run, row, name, running)
                settle(self.run, running)
                self.run["limited"][name] = sorted(running.limited)


def limits_of_the_machine(seconds: float) -> dict[str, tuple[float, str]]:
    """The machine's own limits, measured with files where the brokers have theirs."""
    with tempfile.TemporaryDirectory(prefix="bench-limits-") as directory:
        return measured_limits(Path(directory), seconds)
