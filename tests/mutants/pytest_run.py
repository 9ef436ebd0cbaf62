"""One run of pytest in a forked process, which has pytest and the libraries in memory already.

The process first forgets this checkout: modules of ``kwire`` and ``tests`` are imported from the
copy of the tree. What happens is written to a file at once, since a bug may end the process.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[2]
MEMORY_BYTES = 4 << 30
# A test may take so much longer than usual, in seconds of its processor and of the clock, in which
# the time that it waits for a processor on a busy machine doesn't count.
CPU_S, CLOCK_S, SLOWER = 10.0, 60.0, 10.0
LEAST_WAIT_S = 1.0
LIBRARIES = "trio pytest_trio hypothesis.stateful sqlite3 zstandard lz4.frame snappy crc32c re2"
OPTIONS = ["-q", "-p", "no:cacheprovider", "--tb=short"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def warm_up() -> None:
    """Import what every run needs, once."""
    for name in LIBRARIES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _waited_s() -> float:
    """How long this process has waited for a processor that others used."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


class Profile:
    """Property tests: so many examples, and a failing one isn't made small."""

    def __init__(self, examples: int) -> None:
        self.examples = examples

    def pytest_configure(self) -> None:
        """After the tree's conftest.py has chosen its own."""
        settings.register_profile(
            "mutants",
            settings(),
            max_examples=self.examples,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")


class Recorder(Profile):
    """Notes which functions of kwire each test calls, and how long the test takes."""

    def __init__(self, tree: Path, file: Path) -> None:
        super().__init__(examples=10)
        self.folder, self.file = f"{tree}/", file
        self.called: dict[int, CodeType] = {}
        self.found: dict[str, tuple[float, list[str]]] = {}
        self.left_out: dict[str, set[str]] = {"failed": set(), "skipped": set()}

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        self.called[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch a test with its fixtures."""
        self.called.clear()
        began = time.process_time()
        threading.settrace(self._note)
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            took_s = time.process_time() - began
            codes = [c for c in self.called.values() if c.co_filename.startswith(self.folder)]
            names = {f"{c.co_filename[len(self.folder) :]}:{c.co_firstlineno}" for c in codes}
            kwire = sorted(name for name in names if name.startswith("kwire/"))
            self.found[item.nodeid] = (round(took_s, 3), kwire)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, or is skipped, without any bug can't catch one."""
        if not report.passed:
            self.left_out[report.outcome].add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep what was found."""
        left_out = set().union(*self.left_out.values())
        found = {name: seen for name, seen in self.found.items() if name not in left_out}
        lists = {why: sorted(names) for why, names in self.left_out.items()}
        self.file.write_text(json.dumps({"tests": found, **lists}))


class Chosen(Profile):
    """Runs some tests, in an order of its own, each within its limit of time."""

    def __init__(self, tests: dict[str, float], file: Path) -> None:
        super().__init__(examples=30)
        self.usual_s, self.file = tests, file
        self._limit(0.0)

    def _limit(self, usual_s: float) -> None:
        self.waited_s = _waited_s()
        signal.signal(signal.SIGALRM, self._end_unless_it_waited)
        signal.setitimer(signal.ITIMER_REAL, CLOCK_S + 2 * SLOWER * usual_s)
        signal.setitimer(signal.ITIMER_PROF, CPU_S + SLOWER * usual_s)

    def _end_unless_it_waited(self, number: int, frame: FrameType | None) -> None:
        """End this process, or give a test the time back that it waited for a processor."""
        before_s, self.waited_s = self.waited_s, _waited_s()
        if self.waited_s - before_s > LEAST_WAIT_S:
            signal.setitimer(signal.ITIMER_REAL, self.waited_s - before_s)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _say(self, line: str) -> None:
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those that were chosen, in their order."""
        places = {name: place for place, name in enumerate(self.usual_s)}
        chosen = [item for item in items if item.nodeid in places]
        items[:] = sorted(chosen, key=lambda item: places[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The time of the next test begins."""
        self._limit(self.usual_s[nodeid])
        self._say(f"CUT {nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """This one has caught the bug."""
        if report.failed:
            self._say(f"FAILED {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A bug may already be caught by an import."""
        if report.failed:
            self._say(f"ERROR {report.nodeid}")


def run(
    tree: Path, temporary: Path, arguments: list[str], plugin: Callable[[], Profile]
) -> int | None:
    """Run pytest in a process of its own and in ``tree``; its exit code, negative for a signal."""
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    process: Any = multiprocessing.get_context("fork").Process(
        target=_in_child, args=(tree, temporary, arguments, plugin)
    )
    process.start()
    process.join()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # brokers that the tests started
    return process.exitcode


def _in_child(
    tree: Path, temporary: Path, arguments: list[str], plugin: Callable[[], Profile]
) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with (temporary / "said").open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    os.chdir(tree)
    os.environ |= {"TMPDIR": str(temporary), "PYTHONPATH": str(tree)}
    tempfile.tempdir = None
    sys.path[:] = [str(tree), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("kwire", "tests")]:
        del sys.modules[name]
    options = [*OPTIONS, f"--basetemp={temporary / 'pytest'}"]
    if not (tree / "kwire" / "testing").exists():
        options += ["-p", "no:kwire"]  # the tree of a test has no plugin
    code = pytest.main([*options, *arguments], plugins=[plugin()])
    sys.stdout.flush()
    os._exit(code)
