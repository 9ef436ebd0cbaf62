"""Runs the parts of ``make test`` one after the other and sums them up in one table.

Before it starts it says what it will do, how long each part usually takes, and how much it
downloads. Every part runs, also after one that failed: one run tells all that is wrong. A part is a
target of the Makefile; what it prints is passed on as it comes, and pytest's last lines in it are
counted for the table.

A test that fails runs once more, as Apache Kafka's own build does it: thousands of tests with other
programs and real clocks share two cores, and one of them may wait too long for its turn. The table
counts these tests, pytest names them, and a part with more than ``MOST_AGAIN`` of them has failed:
then it isn't bad luck.
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Part(NamedTuple):
    """A target of the Makefile; the time is that of two cores with everything downloaded."""

    target: str
    what: str
    usual: str
    downloads: str = ""


PARTS = (
    Part("check", "format, lint, types, structure, unit tests", "1 to 2 min"),
    Part("processes", "tests that start other programs", "1 to 2 min"),
    Part("worst-cases", "hostile clients, the largest requests, a long life", "1 min"),
    Part("short-fuzz", "property tests with new examples", "1 min"),
    Part("short-simulation", "clusters in virtual time under faults, seeded bugs", "3 min"),
    Part("compat", "stock clients and Kafka's Java tools", "7 min", "160 MB, Java tools"),
    Part("short-compat-secured", "stock clients with TLS, a login, an authorizer", "30 s"),
    Part("compat-cluster", "groups, transactions, Streams on three brokers", "3 min"),
    Part("spark", "PySpark, two versions of it", "11 min", "about 1 GB, PySpark and Java"),
    Part("browser", "the page in Chromium", "1 min", "150 MB, Chromium, in CI"),
)

MOST_AGAIN = 3
"""So many tests of a part may fail once and pass when they are run again."""
AGAIN = "--reruns=1 -rR"

OUTCOMES = ("passed", "skipped", "failed", "error", "errors", "rerun")
SUMMARY = re.compile(
    rb"^(?:\x1b\[[\d;]*m|=| )*((?:\x1b\[[\d;]*m|, |\d+ [a-z]+)+?)(?:\x1b\[[\d;]*m)* in [\d.]+s\b"
)
COLOR = re.compile(rb"\x1b\[[\d;]*m")
LONGEST_LINE = 1000
"""Bytes; a longer line is no summary and needn't be kept until it ends."""


class Result(NamedTuple):
    """How a part ended: the exit status of its command, and its tests by outcome."""

    part: Part
    status: int
    seconds: float
    tests: Counter[str]


class Tally:
    """Counts the tests in the output of any number of runs of pytest, however it is cut."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self._line = b""

    def feed(self, output: bytes) -> None:
        """Take the next bytes of the output."""
        *lines, rest = (self._line + output).split(b"\n")
        for line in lines:
            self._count(line)
        self._line = rest[:LONGEST_LINE]

    def _count(self, line: bytes) -> None:
        found = SUMMARY.match(line)
        if found is None:
            return
        for number, outcome in re.findall(rb"(\d+) ([a-z]+)", COLOR.sub(b"", found[1])):
            if outcome.decode() in OUTCOMES:
                self.tests[outcome.decode().rstrip("s")] += int(number)


def run_part(command: Sequence[str], write: Callable[[bytes], object]) -> tuple[int, Counter[str]]:
    """Run a command and pass on what it prints; its exit status, and the tests it ran."""
    tally = Tally()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        while output := os.read(process.stdout.fileno(), 65_536):
            write(output)
            tally.feed(output)
    tally.feed(b"\n")
    return process.returncode, tally.tests


def plan(parts: Sequence[Part]) -> Table:
    """What will be done."""
    table = Table(title="make test", title_justify="left")
    table.add_column("part", no_wrap=True)  # a name in two pieces can't be copied
    for name in ("what", "usually takes", "downloads once"):
        table.add_column(name, overflow="fold")
    for part in parts:
        table.add_row(part.target, part.what, part.usual, part.downloads or "nothing more")
    return table


def duration(seconds: float) -> str:
    """As people read it: ``4 s``, ``2 min 05 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def summary(results: Sequence[Result], parts: Sequence[Part]) -> Table:
    """What ran, and what didn't since the run was interrupted."""
    table = Table(title="what ran", title_justify="left")
    table.add_column("part", no_wrap=True)
    table.add_column("result", overflow="fold")
    for name in ("passed", "skipped", "failed", "run again", "time"):
        table.add_column(name, justify="right", overflow="fold")
    for part, status, seconds, tests in results:
        bad = tests["failed"] + tests["error"]
        result = "[green]ok[/]" if status == 0 else f"[red]failed ({status})[/]"
        shown = (tests["passed"], tests["skipped"], bad, tests["rerun"])
        counts = [str(n or "") for n in shown]
        table.add_row(part.target, result, *counts, duration(seconds))
    for part in parts[len(results) :]:
        table.add_row(part.target, "[yellow]not run[/]")
    table.caption = f"{duration(sum(result.seconds for result in results))} in all"
    return table


def run_all(
    parts: Sequence[Part],
    command: Callable[[Part], Sequence[str]],
    console: Console,
    write: Callable[[bytes], object],
) -> int:
    """Run every part and show the table; 0 if all went well, 130 if interrupted, else 1."""
    console.print(plan(parts))
    results: list[Result] = []
    is_interrupted = False
    for number, part in enumerate(parts, 1):
        console.rule(f"{number} of {len(parts)}: {part.target}")
        console.print(f"{part.what}; {part.usual}", justify="center", overflow="fold")
        started = time.monotonic()
        try:
            status, tests = run_part(command(part), write)
        except KeyboardInterrupt:
            is_interrupted = True
            break
        if tests["rerun"] > MOST_AGAIN:
            status = status or 1
        results.append(Result(part, status, time.monotonic() - started, tests))
    console.print(summary(results, parts))
    if is_interrupted:
        return 130
    return int(any(result.status for result in results))


def make_command(part: Part) -> list[str]:
    """Pytest names each file of tests while it works; several processes of it show dots."""
    make = os.environ.get("MAKE", "make")
    return [make, "--no-print-directory", part.target, "QUIET=", f"AGAIN={AGAIN}"]


def write_out(output: bytes) -> None:
    """Pass on what a part prints at once."""
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
