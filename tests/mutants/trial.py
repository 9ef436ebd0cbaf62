"""A copy of the tree whose tests try bugs out, each in a process of its own.

The checkout itself is never changed. Which test calls which function of kwire is recorded before,
so a bug is tried only on tests that call its function: those that import its file first, then the
other ones of its room, and quick ones before slow ones. The first that fails has caught the bug.
A test that takes much longer than usual, or too much memory, has caught it as well.

Nearly all bugs are in functions that no import calls. One session of pytest imports and collects
everything once, and each of these bugs is put into the functions of a process that is forked from
there. The others are tried in sessions of their own, which import the file with the bug in it.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

from tests.mutants.forks import FORK, contained, in_children, temporary
from tests.mutants.mutations import Mutation
from tests.mutants.progress import bar
from tests.mutants.seeding import at_import, functions_by_file, into_functions
from tests.mutants.session import Calls, Recorder, Session, Watcher

# Rooms whose tests use the other rooms of kwire.
USERS = ("protocol", "record", "log", "coordinator", "metadata", "security", "quotas", "budget")
USERS += ("cli", "broker", "handlers", "dispatch", "connection", "server", "metrics", "client")
USERS += ("config", "web")
USERS += ("workers", "testing", "performance")
SLOW_S = 0.3
IMPORT_S = 0.2

Tests = dict[str, float]
"""Tests by name, in the order in which they are to run, with their usual times."""
Seen = dict[str, tuple[float, set[str]]]
"""Tests by name, with their usual times and the functions that they call."""


class Trial:
    """``tree`` is the copy; ``recorded`` has the tests of each file of tests, as they were seen.

    A bug is tried on tests that usually take ``most_s`` in all. Those in ``left_out`` fail or are
    skipped without any bug, so they can't catch one.
    """

    def __init__(self, root: Path, work: Path, *, jobs: int = 1, most_s: float = 60) -> None:
        self.root, self.work = root, work
        self.jobs, self.most_s = jobs, most_s
        self.tree = work / "tree"
        self.recorded: dict[str, Seen] = {}
        self.left_out: dict[str, list[str]] = {"failed": [], "skipped": []}
        self.called_at_import: set[str] = set()
        self._common = b""

    def copy(self) -> None:
        """Copy what git knows of, as it is in the checkout now."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            check=True,
        )
        names = {name for name in listed.stdout.decode().split("\0") if name}
        names = {name for name in names if (self.root / name).is_file()}
        for old in list(self.tree.rglob("*")):
            is_kept = "__pycache__" in old.parts or str(old.relative_to(self.tree)) in names
            if old.is_file() and not is_kept:
                old.unlink()
        common = hashlib.sha256()
        for name in sorted(names):
            target, text = self.tree / name, (self.root / name).read_bytes()
            if not target.exists() or target.read_bytes() != text:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / name, target)
            if name.startswith(("kwire/", "tests/support/")) or name.endswith("conftest.py"):
                common.update(text)
        self._common = common.digest()
        (self.work / "recorded").mkdir(exist_ok=True)

    def collected(self, work: Callable[["Collected"], object]) -> None:
        """Collect all tests in another process, record what isn't recorded, and do work there."""

        kept = self.work / "imports.json"
        kept.unlink(missing_ok=True)
        calls = Calls(self.tree)

        def goes_on(session: Session) -> None:
            kept.write_text(json.dumps([sorted(calls.end()), session.left_out]))
            collected = Collected(self, session)
            collected.record()
            self._read()
            work(collected)

        def collect() -> None:
            calls.begin()
            Session(self.tree, goes_on).start(folders)

        folders = [name for user in USERS if (self.tree / (name := f"tests/{user}")).is_dir()]
        process = FORK.Process(target=collect)
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError("the tests can't be collected without any bug")
        self._read()

    def _read(self) -> None:
        """What is recorded."""
        found, left_out = json.loads((self.work / "imports.json").read_text())
        self.called_at_import = set(found)
        self.left_out = {why: list(names) for why, names in left_out.items()}
        files = [file for user in USERS for file in (self.tree / "tests" / user).rglob("test_*.py")]
        for file in sorted(files):
            kept = self.kept(file.relative_to(self.tree).as_posix())
            if kept.exists():
                known = json.loads(kept.read_text())
                for why, tests in self.left_out.items():
                    tests += known[why]
                self.recorded[file.relative_to(self.tree).as_posix()] = {
                    name: (usual_s, set(functions))
                    for name, (usual_s, functions) in known["tests"].items()
                }

    def kept(self, file: str) -> Path:
        """Where that is kept which is known of a file of tests, kwire and the helpers."""
        digest = hashlib.sha256(self._common + (self.tree / file).read_bytes()).hexdigest()[:16]
        return self.work / "recorded" / f"{file.replace('/', '.')}.{digest}.json"

    def is_imported(self, mutation: Mutation) -> bool:
        """Whether an import runs what the bug is in."""
        return not mutation.function or _function(mutation) in self.called_at_import

    def stages(self, mutation: Mutation) -> list[Tests]:
        """The tests for a bug: those of its room in files which import its file, others, far ones.

        They call its function. All of the room for what an import runs, since it may be used far
        from its file, and those far ones that call any function of the file.
        """
        own = Path(mutation.path).parts[1]
        is_imported = self.is_imported(mutation)
        module = re.escape(".".join(Path(mutation.path).with_suffix("").parts))
        imports = re.compile(rf"^(from|import) {module.removesuffix('.__init__')}\b", re.MULTILINE)
        found: list[list[tuple[bool, float, str]]] = [[], [], []]
        for file, tests in self.recorded.items():
            is_far = Path(file).parts[1] != own
            is_close = imports.search((self.tree / file).read_text(encoding="utf-8")) is not None
            for name, (usual_s, functions) in tests.items():
                if is_imported:
                    calls = not is_far or any(f.startswith(f"{mutation.path}:") for f in functions)
                else:
                    calls = _function(mutation) in functions
                if calls:
                    stage = 2 if is_far else int(not is_close)
                    found[stage].append((usual_s > SLOW_S, usual_s, name))
        left_s = self.most_s
        stages: list[Tests] = []
        for stage in found:
            stages.append({})
            for _, usual_s, name in sorted(stage):
                left_s -= usual_s
                if left_s >= 0:
                    stages[-1][name] = usual_s
        return stages

    def anew(self, mutation: Mutation, text: str) -> str:
        """Try a bug with everything imported anew: which test caught it, and how."""

        def run(tests: Tests, outcomes: Path) -> None:
            files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
            watcher = Watcher(tests, outcomes)
            watcher.limit(IMPORT_S * len(files))
            at_import(self.tree, mutation.path, mutation.apply(text))
            Session(self.tree, lambda session: session.run(tests, watcher)).start(files, watcher)

        caught_by = (_caught(tests, run) for tests in self.stages(mutation))
        return next(filter(None, caught_by), "")


class Collected:
    """The tests and functions of a session that has collected everything, in its process."""

    def __init__(self, trial: Trial, session: Session) -> None:
        self._trial, self._session = trial, session
        self._functions = functions_by_file(f"{trial.tree}/kwire/")

    def record(self) -> None:
        """Record the files that aren't recorded as they are now."""
        files: dict[str, list[str]] = {}
        for name in self._session.items:
            files.setdefault(name.partition("::")[0], []).append(name)
        kept = {file: self._trial.kept(file) for file in files}
        missing = [file for file in files if not kept[file].exists()]
        works = [partial(self._record, files[file], kept[file]) for file in missing]
        steps = in_children(self._trial.jobs, works)
        bar("files of tests are recorded", len(missing), steps)
        for file in missing:
            if not kept[file].exists():
                raise RuntimeError(f"{file} can't be run without any bug")

    def _record(self, names: list[str], kept: Path) -> None:
        recorder = Recorder(self._trial.tree)

        def run() -> None:
            self._session.run(names, recorder)
            recorder.write(kept)

        with temporary() as directory:
            contained(run, Path(directory))

    def try_out(self, mutation: Mutation, text: str) -> str | None:
        """Put a bug into its function for good: which test catches it, and how.

        None where that tells nothing, since an import has to run what the bug is in.
        """
        file = str(self._trial.tree / mutation.path)
        functions = self._functions.get(file, ())
        if not into_functions(functions, file, text, mutation.apply(text)):
            return None

        def run(tests: Tests, outcomes: Path) -> None:
            self._session.run(tests, Watcher(tests, outcomes))

        stages = self._trial.stages(mutation)
        caught_by = _caught(dict(chain.from_iterable(stage.items() for stage in stages)), run)
        return caught_by or (None if self._trial.is_imported(mutation) else "")


def _function(mutation: Mutation) -> str:
    return f"{mutation.path}:{mutation.function}"


def _caught(tests: Tests, run: Callable[[Tests, Path], object]) -> str:
    """Which of the tests fails, and how; a test that fails only once has caught nothing."""
    caught_by = _failed(tests, run)
    if not caught_by:
        return ""
    name = caught_by.partition(" ")[2]
    alone = {name: tests[name]} if name in tests else tests
    return caught_by if _failed(alone, run) or _failed(tests, run) else ""


def _failed(tests: Tests, run: Callable[[Tests, Path], object]) -> str:
    """Run tests until one fails: which one and how, or nothing."""
    if not tests:
        return ""
    with temporary() as directory:
        outcomes = Path(directory) / "outcomes"
        code = contained(partial(run, tests, outcomes), Path(directory))
        lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    failed = [line for line in lines if not line.startswith("CUT")]
    if code == 0 or failed:
        return (failed or [""])[0]
    return (lines[-1:] or [f"ENDED {code}"])[0]
