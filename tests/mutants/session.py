"""A session of pytest that collects the tests once, and runs some of them in forked processes.

The modules of ``kwire`` and ``tests`` are those of the copy of the tree. What happens to a test is
written to a file at once, since a bug may end the process.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType

import pytest
from hypothesis import Phase, settings

from tests.mutants.seeding import forget

ROOT = Path(__file__).parents[2]
# A test may take so much longer than usual, in seconds of its processor and of the clock, in which
# the time that it waits for a processor on a busy machine doesn't count.
CPU_S, CLOCK_S, SLOWER = 10.0, 60.0, 10.0
LEAST_WAIT_S = 1.0
LIBRARIES = "trio pytest_trio hypothesis.stateful sqlite3 zstandard lz4.frame snappy crc32c re2"
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "--tb=short", "--assert=plain"]
OPTIONS += ["-m", "not processes and not worst_cases"]
"""Tests that work in other programs or for minutes: what they call isn't seen or takes too long."""


def warm_up() -> None:
    """Import what every run needs, once."""
    for name in LIBRARIES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _waited_s() -> float:
    """How long this process has waited for a processor that others used."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


class Calls:
    """Which functions of kwire are called while it watches, as ``kwire/log/disk.py:12``."""

    def __init__(self, tree: Path) -> None:
        self._folder = f"{tree}/"
        self._called: dict[int, CodeType] = {}

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self._called[id(frame.f_code)] = frame.f_code

    def begin(self) -> None:
        """Watch this thread, and those that it starts."""
        self._called.clear()
        threading.settrace(self._note)
        sys.settrace(self._note)

    def end(self) -> set[str]:
        """What was called since then."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        called = list(self._called.values())  # at once: threads may go on
        files = [(code.co_filename, code.co_firstlineno) for code in called]
        names = {
            f"{file.removeprefix(self._folder)}:{line}"
            for file, line in files
            if file.startswith(f"{self._folder}kwire/")
        }
        self._called.clear()
        return names


class Recorder:
    """Notes which functions of kwire each test calls, and how long the test takes."""

    def __init__(self, tree: Path) -> None:
        self._calls = Calls(tree)
        self.found: dict[str, tuple[float, list[str]]] = {}
        self.left_out: dict[str, set[str]] = {"failed": set(), "skipped": set()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test with its fixtures."""
        began = time.process_time()
        self._calls.begin()
        try:
            return (yield)
        finally:
            called = sorted(self._calls.end())
            self.found[item.nodeid] = (round(time.process_time() - began, 3), called)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, or is skipped, without any bug can't catch one."""
        if not report.passed:
            self.left_out[report.outcome].add(report.nodeid)

    def write(self, file: Path) -> None:
        """Keep what was found."""
        left_out = set().union(*self.left_out.values())
        found = {name: seen for name, seen in self.found.items() if name not in left_out}
        lists = {why: sorted(names) for why, names in self.left_out.items()}
        file.write_text(json.dumps({"tests": found, **lists}))


class Watcher:
    """Keeps each test within its limit of time, and writes down which one fails."""

    def __init__(self, usual_s: Mapping[str, float], outcomes: Path) -> None:
        self._usual_s, self._outcomes = usual_s, outcomes
        self.has_failed = False
        self._waited_s = 0.0

    def limit(self, usual_s: float) -> None:
        """The time of a test begins, or that of an import."""
        self._waited_s = _waited_s()
        signal.signal(signal.SIGALRM, self._end_unless_it_waited)
        signal.setitimer(signal.ITIMER_REAL, CLOCK_S + 2 * SLOWER * usual_s)
        signal.setitimer(signal.ITIMER_PROF, CPU_S + SLOWER * usual_s)

    def _end_unless_it_waited(self, number: int, frame: FrameType | None) -> None:
        """End this process, or give a test the time back that it waited for a processor."""
        before_s, self._waited_s = self._waited_s, _waited_s()
        if self._waited_s - before_s > LEAST_WAIT_S:
            signal.setitimer(signal.ITIMER_REAL, self._waited_s - before_s)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _say(self, line: str) -> None:
        with self._outcomes.open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The time of the next test begins."""
        self.limit(self._usual_s[nodeid])
        self._say(f"CUT {nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """This one has caught the bug."""
        if report.failed:
            self.has_failed = True
            self._say(f"FAILED {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A bug may already be caught by an import."""
        if report.failed:
            self.has_failed = True
            self._say(f"ERROR {report.nodeid}")


class Session:
    """A plugin that does ``work`` instead of running the tests that were collected."""

    def __init__(self, tree: Path, work: Callable[["Session"], object]) -> None:
        self.tree, self._work = tree, work
        self._has_worked = False
        self.items: dict[str, pytest.Item] = {}
        self.left_out: dict[str, list[str]] = {"failed": [], "skipped": []}

    def pytest_configure(self) -> None:
        """Property tests: as many examples as always, and a failing one isn't made small."""
        settings.register_profile(
            "mutants", settings(), phases=[Phase.explicit, Phase.generate]
        )  # after the tree's conftest.py has chosen its own
        settings.load_profile("mutants")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that can't be imported catches no bug."""
        if not report.passed:
            self.left_out[report.outcome].append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All tests are collected."""
        self.items = {item.nodeid: item for item in session.items}
        self._has_worked = True
        self._work(self)
        return True

    def run(self, names: Iterable[str], plugin: Recorder | Watcher) -> None:
        """Run tests in this order, until one fails before a watcher's eyes."""
        items = [self.items[name] for name in names if name in self.items]
        if items and not items[0].config.pluginmanager.is_registered(plugin):
            items[0].config.pluginmanager.register(plugin)
        for item, following in zip(items, [*items[1:], None], strict=True):
            if isinstance(plugin, Watcher) and plugin.has_failed:
                break
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def start(self, arguments: list[str], *plugins: object) -> None:
        """Enter the tree and collect the tests of files and folders, as if nothing was imported."""
        os.chdir(self.tree)
        os.environ["PYTHONPATH"] = str(self.tree)
        sys.path[:] = [str(self.tree), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
        forget("kwire", "tests")
        options = list(OPTIONS)
        if not (self.tree / "kwire" / "testing").exists():
            options += ["-p", "no:kwire"]  # the tree of a test has no plugin
        code = pytest.main([*options, *arguments], plugins=[self, *plugins])
        if not self._has_worked or code == pytest.ExitCode.INTERNAL_ERROR:
            sys.exit(code or 1)
