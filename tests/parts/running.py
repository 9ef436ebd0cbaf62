"""A part of ``make test`` while it runs: its processes, what they print, what they have used.

A part has a session of its own, and so a process group. What it prints goes to a file, or on to
where ``make test`` prints if it is the only part. The processes that it starts inherit a variable
by which they are found: what a part leaves behind ends with it, also what left its session.
"""

import ctypes
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.parts.parts import Part
from tests.parts.report import REPORT, Noted, read_report

TOKEN = "KWIRE_TEST_PART"
"""The variable by which the processes of a part are found."""
ADOPT_ORPHANS = 36
"""``PR_SET_CHILD_SUBREAPER`` of Linux."""


class Result(NamedTuple):
    """How a part ended: its exit status, what it took, its tests, the file of what it printed."""

    part: Part
    status: int
    seconds: float
    processor_s: float
    tests: Sequence[Noted]
    output: Path | None

    @property
    def outcomes(self) -> Counter[str]:
        """How many tests passed, were skipped and failed."""
        return Counter(noted.outcome for noted in self.tests)


class Running:
    """A part that has been started."""

    def __init__(self, part: Part, command: Sequence[str], logs: Path, *, is_alone: bool) -> None:
        self.part = part
        self.output = None if is_alone else logs / f"{part.target}.txt"
        self._report = logs / f"{part.target}.jsonl"
        self._report.unlink(missing_ok=True)
        self._token = f"{TOKEN}={uuid.uuid4()}"
        self._started = time.monotonic()
        self._ended = 0.0
        self._status = 0
        self._processor_s = 0.0
        environment = {**os.environ, **dict([self._token.split("=")]), REPORT: str(self._report)}
        self._process = _start(command, environment, self.output)
        self._fd = os.pidfd_open(self._process.pid)

    def fileno(self) -> int:
        """Readable when the command has ended, as ``select`` wants it."""
        return self._fd

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self._ended or time.monotonic()) - self._started

    def interrupt(self) -> None:
        """Tell all its processes what Ctrl-C tells them."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> Result:
        """What has come of it; whatever of it still runs is killed."""
        self._ended = time.monotonic()
        self._reap(os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in _with_variable(self._token.encode()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap(0)
        os.close(self._fd)
        tests = list(read_report(self._report))
        took = (self.seconds, self._processor_s)
        return Result(self.part, self._status, *took, tests, self.output)

    def _reap(self, options: int) -> None:
        """Take what its processes have used: the command, and those that it has left to us."""
        with suppress(ChildProcessError):
            while (found := os.wait4(-self._process.pid, options))[0]:
                pid, status, usage = found
                self._processor_s += usage.ru_utime + usage.ru_stime
                if pid == self._process.pid:
                    self._process.returncode = os.waitstatus_to_exitcode(status)
                    self._status = self._process.returncode


def _start(
    command: Sequence[str], environment: Mapping[str, str], output: Path | None
) -> subprocess.Popen[bytes]:
    """A process in a session of its own; its output goes to a file if one is named.

    There it has no terminal: nothing waits for somebody to type, or is stopped because it asks.
    """
    if output is None:
        return subprocess.Popen(command, env=environment, start_new_session=True)
    with output.open("wb") as file:
        return subprocess.Popen(
            command,
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def _with_variable(variable: bytes) -> Iterable[int]:
    """The processes that have this in their environment (Linux)."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)


def adopt_orphans() -> None:
    """Be the parent of processes whose parent has ended, such as Spark's JVM: it counts as well."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
