"""``python -m bench --profile --only ROW``: where kwire spends its time during a row.

The row is measured while ``perf`` samples the broker, and again with py-spy, which knows Python's
functions. The samples of each load are condensed into a short text in
``bench/out/profiles/``. With ``--publish`` the text goes to ``docs/performance/profiles/``, and
docs/PERFORMANCE.md links it. The profilers slow the broker down, so the row's numbers are not kept.

``perf`` uses the software clock, which virtual machines have too. If a profiler is missing, the
text says so.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.brokers import KWIRE, Maker
from bench.condense import condensed_imports, condensed_perf, condensed_py_spy
from bench.load import new_generator
from bench.rows import START
from bench.rows.common import NotHere, Row, Running
from bench.rows.warm_up import warm_up
from bench.usage import cpu_seconds
from kwire.testing.process import BrokerProcess

PUBLISHED = Path(__file__).parent.parent / "docs" / "performance" / "profiles"
SAMPLES_A_SECOND = 1999
SHORTEST_S = 5.0
WARM_UP_S = 2.0
SPARK_MB = 200
IMPORT_TIMES = "PYTHONPROFILEIMPORTTIME"


def slug(row: Row) -> str:
    """The name of the file with the profile of a row's load."""
    return re.sub(r"[^a-z0-9]+", "-", (row.load or row.name).lower()).strip("-")


def profile_file(row: Row) -> Path:
    """The path of a row's published profile, which may not exist."""
    return PUBLISHED / f"{slug(row)}.txt"


def py_spy() -> str | None:
    """The path of py-spy, from this environment or PATH; None if it is missing."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


@contextmanager
def recording(command: list[str], result: Path) -> Iterator[None]:
    """Run a profiler during the block; the end of the block stops it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        try:
            yield
        finally:
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=60)[0]
    if not result.exists():
        raise NotHere(f"{Path(command[0]).name} has recorded nothing: {said.decode()[-200:]}")


def measure_for_long(row: Row, running: Running) -> str:
    """Measure a row repeatedly until there are enough samples; returns how busy the broker was."""
    pid = running.broker.pid
    started_s, used_before_s = time.monotonic(), cpu_seconds(pid)
    while time.monotonic() < started_s + running.seconds:
        running.forget()
        row.measure(running)
    share = (cpu_seconds(pid) - used_before_s) / (time.monotonic() - started_s)
    return f"The broker used {share:.0%} of a core, while the row was prepared and measured.\n"


def with_perf(pid: int, directory: Path, row: Row, running: Running) -> str:
    """The profile of a row by perf."""
    perf = shutil.which("perf")
    if perf is None:
        return "perf isn't installed here (Debian: linux-perf): the kernel's share is unknown"
    data = directory / "perf.data"
    rate = str(SAMPLES_A_SECOND)
    command = [perf, "record", "-q", "-g", "-e", "cpu-clock", "-F", rate, "-p", str(pid)]
    with recording([*command, "-o", str(data)], data):
        busy = measure_for_long(row, running)
    shown = subprocess.run(
        [perf, "script", "-i", str(data), "-F", "ip,sym,dso", "--no-inline"],
        capture_output=True,
        text=True,
        check=True,
    )
    return f"{busy}{condensed_perf(shown.stdout)}"


def with_py_spy(pid: int, directory: Path, row: Row, running: Running) -> str:
    """The profile of a row by py-spy, which samples without pausing the broker."""
    program = py_spy()
    if program is None:
        return "py-spy isn't installed here: Python's functions are unknown"
    stacks = directory / "stacks"
    command = [program, "record", "-p", str(pid), "-r", "250", "-d", "3600", "--nonblocking"]
    with recording([*command, "-f", "raw", "-o", str(stacks)], stacks):
        measure_for_long(row, running)
    return condensed_py_spy(stacks.read_text(encoding="utf-8"))


def start_text(make: Maker, directory: Path) -> str:
    """The time of the imports at a broker's start, as Python reports it."""
    broker = make(directory)
    assert isinstance(broker, BrokerProcess)
    os.environ[IMPORT_TIMES] = "1"
    try:
        broker.start()
    finally:
        del os.environ[IMPORT_TIMES]
        broker.stop()
    return condensed_imports(broker.log())


def load_text(row: Row, running: Running, directory: Path) -> str:
    """The profiles of a load."""
    looks = (with_perf, with_py_spy)
    return "\n".join(look(running.broker.pid, directory, row, running) for look in looks)


def texts_of(make: Maker, rows: list[Row], seconds: float, root: Path) -> Iterator[tuple[Row, str]]:
    """Start a broker, and profile it under the load of every row."""
    if START in rows:
        yield START, start_text(make, root / "start")
    broker = make(root / KWIRE)
    broker.start()
    try:
        seconds = max(seconds, SHORTEST_S)
        running = Running(broker, make, new_generator(root), seconds, 2 * seconds, SPARK_MB)
        warm_up(running, WARM_UP_S, rows)
        for row in rows:
            if row is not START:
                yield row, load_text(row, running, root)
    finally:
        broker.stop()


def one_of_each_load(rows: list[Row]) -> list[Row]:
    """The rows without those that share their load with an earlier row."""
    return list({slug(row): row for row in reversed(rows)}.values())[::-1]


def profile(
    makers: dict[str, Maker], rows: list[Row], seconds: float, target: Path, console: Console
) -> None:
    """Profile kwire under every load, and write a file for each load."""
    loads = one_of_each_load(rows)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as directory:
        for row, text in texts_of(makers[KWIRE], loads, seconds, Path(directory)):
            file = target / f"{slug(row)}.txt"
            file.write_text(f"{row.load or row.name}\n\n{text}", encoding="utf-8")
            console.print(f"written to {file}", highlight=False)
