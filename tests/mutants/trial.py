"""A copy of the tree in which bugs are tried out, one at a time, against the tests.

The checkout itself is never changed. Which test calls which function of kwire is recorded before,
so a bug is tried only on tests that call its function: those that import its file first, then the
other ones of its room, and quick ones before slow ones. The first that fails has caught the bug.
A test that takes much longer than usual, or too much memory, has caught it as well.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.mutants.mutations import Mutation
from tests.mutants.pytest_run import Chosen, Recorder, run

# Rooms whose tests use the other rooms of kwire.
USERS = ("protocol", "record", "log", "coordinator", "metadata", "security", "quotas", "budget")
USERS += ("cli", "broker", "handlers", "dispatch", "connection", "server", "metrics", "client")
USERS += ("config", "web")
USERS += ("workers", "testing", "performance")
SLOW_S = 0.3


NOT_RECORDED = ["-m", "not processes and not worst_cases"]
"""Tests that work in other programs or for minutes: what they call isn't seen or takes too long."""


def _called(mutation: Mutation) -> str:
    """The function of a bug; empty for what an import runs."""
    return f"{mutation.path}:{mutation.function}" if mutation.function else ""


class Trial:
    """``tree`` is the copy; ``recorded`` has the tests of each file of tests, as they were seen.

    A test has its usual time and the functions that it calls, as ``kwire/log/disk.py:12``. Those in
    ``left_out`` fail or are skipped without any bug, so they can't catch one.
    """

    def __init__(self, root: Path, work: Path) -> None:
        self.root = root
        self.work = work
        self.tree = work / "tree"
        self.temporary = work / "tmp"
        self.recorded: dict[str, dict[str, tuple[float, set[str]]]] = {}
        self.left_out: dict[str, list[str]] = {"failed": [], "skipped": []}
        self.common = b""
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
        common = hashlib.sha256()
        for name in sorted(listed.stdout.decode().split("\0")):
            if name and (self.root / name).is_file():
                target = self.tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.root / name, target)
                if name.startswith(("kwire/", "tests/support/")) or name.endswith("conftest.py"):
                    common.update(target.read_bytes())
        self.common = common.digest()

    def closest(self, mutation: Mutation) -> dict[str, float]:
        """Those of ``near`` that are in files which import the bug's file.

        They catch most bugs, and only they have to be recorded for that.
        """
        room = Path(mutation.path).parts[1]
        return self._tests(mutation, [room], _called(mutation), closest=True)

    def near(self, mutation: Mutation) -> dict[str, float]:
        """The tests of the bug's room that call its function, with their usual times.

        All of the room for what an import runs, since it may be used far from its file.
        """
        return self._tests(mutation, [Path(mutation.path).parts[1]], _called(mutation))

    def far(self, mutation: Mutation) -> dict[str, float]:
        """The tests of other rooms that call its function, or any of its file for an import.

        Where nobody calls it, it may do its work at an import too: then all tests of its room.
        """
        room = Path(mutation.path).parts[1]
        others = [user for user in USERS if user != room]
        called = f"{mutation.path}:{mutation.function or ''}"
        found = self._tests(mutation, others, called)
        return found if found or self.near(mutation) else self._tests(mutation, [room], "")

    def _tests(
        self, mutation: Mutation, rooms: list[str], called: str, *, closest: bool = False
    ) -> dict[str, float]:
        """The tests of rooms that call a function, or one of a file: ``kwire/log/disk.py:``."""
        module = re.escape(".".join(Path(mutation.path).with_suffix("").parts))
        imports = re.compile(rf"^(from|import) {module.removesuffix('.__init__')}\b", re.MULTILINE)
        found: list[tuple[bool, bool, float, str]] = []
        for file in [file for room in rooms for file in self._files(room)]:
            is_closest = imports.search((self.tree / file).read_text(encoding="utf-8")) is not None
            if closest and not is_closest:
                continue
            for name, (usual_s, functions) in self._record(file).items():
                names = {name.partition(":")[0] + ":" for name in functions} | functions
                if not called or called in names:
                    found.append((usual_s > SLOW_S, not is_closest, usual_s, name))
        return {name: usual_s for _, _, usual_s, name in sorted(found)}

    def _files(self, room: str) -> list[str]:
        files = (self.tree / "tests" / room).rglob("test_*.py")
        return sorted(file.relative_to(self.tree).as_posix() for file in files)

    def _record(self, file: str) -> dict[str, tuple[float, set[str]]]:
        """What is known of a file of tests: run again if it, kwire or a helper has changed."""
        if file not in self.recorded:
            digest = hashlib.sha256(self.common + (self.tree / file).read_bytes()).hexdigest()[:16]
            kept = self.work / "recorded" / f"{file.replace('/', '.')}.{digest}.json"
            if not kept.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                arguments = [*NOT_RECORDED, file]
                run(self.tree, self.temporary, arguments, lambda: Recorder(self.tree, kept))
                if not kept.exists():
                    said = (self.temporary / "said").read_text(errors="replace")
                    raise RuntimeError(f"{file} can't be run without any bug:\n{said}")
            known = json.loads(kept.read_text())
            for why, tests in self.left_out.items():
                tests += known[why]
            self.recorded[file] = {
                name: (usual_s, set(functions))
                for name, (usual_s, functions) in known["tests"].items()
            }
        return self.recorded[file]

    def try_out(self, mutation: Mutation, text: str, tests: dict[str, float]) -> str:
        """Which of the tests caught the bug, and how; nothing if none did."""
        file = self.tree / mutation.path
        try:
            self._write(file, mutation.apply(text))
            caught_by = self._run(tests)
            if not caught_by:
                return ""
            # A test that fails only once has caught nothing.
            name = caught_by.partition(" ")[2]
            alone = {name: tests[name]} if name in tests else tests
            return caught_by if self._run(alone) or self._run(tests) else ""
        finally:
            self._write(file, text)

    def _write(self, file: Path, text: str) -> None:
        """Write with a time of its own, or Python would take what it compiled before."""
        file.write_text(text, encoding="utf-8")
        self.changes += 1
        moment = time.time_ns() - (1_000_000 - self.changes) * 1_000_000_000
        os.utime(file, ns=(moment, moment))

    def _run(self, tests: dict[str, float]) -> str:
        """Run tests until one fails: which one and how, or nothing."""
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
        if not files:
            return ""
        outcomes = self.work / "outcomes"
        outcomes.unlink(missing_ok=True)
        code = run(self.tree, self.temporary, ["-x", *files], partial(Chosen, tests, outcomes))
        if code in (0, 5):  # 5: no tests there
            return ""
        lines = outcomes.read_text().splitlines() if outcomes.exists() else []
        failed = [line for line in lines if not line.startswith("CUT")]
        return (failed or lines[-1:] or [f"ENDED {code}"])[0]
