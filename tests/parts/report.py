"""Notes each test that has run, for the tables at the end of `make test`.

A run of pytest appends a line of JSON for each test to the file that the environment names: its
name, how it ended, and the seconds of its setup, call and teardown. With pytest-xdist the process
that starts the others does so. The variable isn't passed on, so a pytest that a test starts notes
nothing.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

REPORT = "KWIRE_TEST_REPORT"
"""The variable with the name of the file."""


class Noted(NamedTuple):
    """A test that has run: its name, ``passed``, ``skipped`` or ``failed``, and its seconds."""

    test: str
    outcome: str
    seconds: float


class Report:
    """The plugin: one line for each test, when its teardown is done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._running: dict[str, Noted] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended; the worst outcome of its phases counts."""
        test = report.nodeid
        before = self._running.pop(test, Noted(test, "passed", 0.0))
        outcome = before.outcome if report.passed else report.outcome
        noted = Noted(test, outcome, before.seconds + report.duration)
        if report.when in ("setup", "call"):
            self._running[test] = noted
        else:  # the teardown, or the process in which the test ran has died
            self._write(noted)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be imported is a failure, one that is skipped counts as one test."""
        if not report.passed:
            self._write(Noted(report.nodeid, report.outcome, 0.0))

    def _write(self, noted: Noted) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(noted._asdict()) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Note tests if a file is named and this process isn't one of those that xdist starts."""
    path = os.environ.pop(REPORT, "")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(Path(path)), "kwire-report")


def read_report(path: Path) -> Iterator[Noted]:
    """What the runs of pytest have noted in a file, which isn't there if there was none."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield Noted(**json.loads(line))
