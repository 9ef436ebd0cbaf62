"""A copy of the tree in which bugs are tried out, one at a time, against the tests.

The checkout itself is never changed. Near tests are those that mirror or import the file, then
those of its room; far ones are all others. The first that fails has caught the bug. A run that
takes much longer than without the bug, or more memory than ``MEMORY_BYTES``, is caught as well.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeAlias

from tests.mutants.mutations import Mutation

MEMORY_BYTES = 4 << 30
MIN_LIMIT_S = 60.0
SLOWER = 5.0
FILES_S = 60.0
FAILED = re.compile(r"(?:FAILED|ERROR) (\S+)")
# They look at the source's text, or count calls, or look at another program.
LEFT_OUT = (
    "tests/performance",
    "tests/bench",
    "tests/mutants",
    "tests/test_tidy.py",
    "tests/test_compiled_build.py",
    "tests/test_readme.py",
)

Stage: TypeAlias = tuple[str, ...]
"""What pytest is given: a folder or file of tests, and what to leave out of it."""


class Trial:
    """``tree`` is the copy; ``usual_s`` is how long tests take without a bug."""

    def __init__(self, root: Path, work: Path) -> None:
        self.root = root
        self.tree = work / "tree"
        self.temporary = work / "tmp"
        self.usual_s: dict[str, float] = {}
        self.sound: set[str] = set()
        self.changes = 0

    def copy(self) -> None:
        """Copy what git knows of, as it is in the checkout now."""
        shutil.rmtree(self.tree, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            check=True,
        )
        for name in listed.stdout.decode().split("\0"):
            if name and (self.root / name).is_file():
                target = self.tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / name, target)

    def near(self, path: str) -> list[Stage]:
        """The tests that mirror or import a file, those of its folder, those of its room."""
        folder = Path("tests", *Path(path).parts[1:-1])
        closest = self._closest(path, folder / f"test_{Path(path).name}")
        stages: list[Stage] = [tuple(closest)] if closest else []
        before = [Path(name) for name in closest]
        for tests in (folder, Path("tests", Path(path).parts[1])):
            if tests not in before and (self.tree / tests).exists():
                stages.append((str(tests), *(f"--ignore={done}" for done in before)))
                before.append(tests)
        return stages

    def _closest(self, path: str, mirror: Path) -> list[str]:
        """The file of tests that mirrors a file, and those that import it."""
        module = Path(path).with_suffix("")
        parts = module.parts[:-1] if module.name == "__init__" else module.parts
        imports = re.compile(rf"^(from|import) {re.escape('.'.join(parts))}\b(?!\.)", re.MULTILINE)
        found = [
            str(tests.relative_to(self.tree))
            for tests in sorted((self.tree / "tests").rglob("test_*.py"))
            if tests.relative_to(self.tree) == mirror or imports.search(tests.read_text())
        ]
        return [name for name in found if not name.startswith(LEFT_OUT)]

    def far(self, path: str) -> list[Stage]:
        """All other tests."""
        room = Path("tests", Path(path).parts[1])
        return [("tests", *(f"--ignore={name}" for name in (room, *LEFT_OUT)))]

    def try_out(self, mutation: Mutation, text: str, stages: list[Stage]) -> str:
        """Which stage caught the bug, and how; nothing if none did."""
        file = self.tree / mutation.path
        for stage in stages:
            name = stage[0]
            if name.endswith(".py"):
                self.usual_s[name] = FILES_S  # measuring would take longer than trying
            if name not in self.usual_s:
                outcome, self.usual_s[name] = self._run(stage, limit_s=3600.0)
                if outcome:
                    raise RuntimeError(f"without any bug: {name}: {outcome}")
            limit_s = max(MIN_LIMIT_S, SLOWER * self.usual_s[name])
            try:
                self._write(file, mutation.apply(text))
                outcome, _ = self._run(stage, limit_s)
                is_sure = bool(outcome) and self._is_sure(outcome, stage, limit_s)
            finally:
                self._write(file, text)
            if is_sure:
                self._check_sound(outcome, limit_s)
                return outcome
        return ""

    def _is_sure(self, outcome: str, stage: Stage, limit_s: float) -> bool:
        """Whether it fails again: a test that sometimes fails by itself has caught nothing."""
        failed = FAILED.match(outcome)
        if failed and self._run((failed[1],), limit_s)[0]:
            return True
        return bool(self._run(stage, limit_s)[0])

    def _check_sound(self, outcome: str, limit_s: float) -> None:
        """RuntimeError if the test that has failed does so without the bug as well."""
        failed = FAILED.match(outcome)
        if failed and failed[1] not in self.sound:
            if self._run((failed[1],), limit_s)[0]:
                raise RuntimeError(f"without any bug: {outcome}")
            self.sound.add(failed[1])

    def _write(self, file: Path, text: str) -> None:
        """Write with a time of its own, or Python would take what it compiled before."""
        file.write_text(text, encoding="utf-8")
        self.changes += 1
        moment = time.time_ns() - (1_000_000 - self.changes) * 1_000_000_000
        os.utime(file, ns=(moment, moment))

    def _run(self, stage: Stage, limit_s: float) -> tuple[str, float]:
        """Run tests until one fails: what failed, or nothing, and how long it took."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["--tb=no", f"--basetemp={self.temporary / 'pytest'}", *stage]
        environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": str(self.tree)}
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_limit_memory,
        )
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return f"{stage[0]} took more than {limit_s:.0f} s", limit_s
        finally:
            _end(process)
        took_s = time.monotonic() - began
        if process.returncode in (0, 5):  # 5: no tests there
            return "", took_s
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return (failed[0] if failed else f"{stage[0]} ended with {process.returncode}"), took_s


def _limit_memory() -> None:
    """In the new process: a bug that takes all memory fails by itself."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _end(process: subprocess.Popen[str]) -> None:
    """End the tests and the brokers that they started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
