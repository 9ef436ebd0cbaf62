"""Whatever a part of `make test` has started is counted, and ends with it or at Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.parts import ROOT
from tests.parts.tiny import MEASURED, ONE, processor_s, row, run_tiny, script

BUSY = "import time\nwhile time.process_time() < 0.6: pass"
"""Uses what is a second of a processor when it is rounded."""


def test_processor_time_is_that_of_all_processes(tmp_path: Path) -> None:
    """Also of those that a part's command has started and waited for."""
    waits = f"import subprocess; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    run_tiny(tmp_path, [ONE], {"one": script(waits)})
    assert processor_s(tmp_path) >= 1


def own_run(tmp_path: Path, command: list[str], before: str) -> list[str]:
    """A command that does what is to be done before, and runs two parts: this one, and another."""
    run = f"""
from pathlib import Path
from rich.console import Console
from tests.parts import run, running
from tests.parts.parts import Part
{before}
parts = [Part("one", "", 2), Part("two", "", 2)]
commands = {{"one": {command!r}, "two": ["true"]}}
raise SystemExit(run.run_all(
    parts, lambda part: commands[part.target], Console(width=100), {MEASURED!r},
    cores=2, logs=Path({str(tmp_path)!r})))
"""
    return [sys.executable, "-c", run]


def interrupted(
    tmp_path: Path,
    command: str,
    patience_s: float = 60,
    number: int = signal.SIGINT,
    times: int = 1,
) -> tuple[int, str]:
    """Run two parts in a process of its own, and press Ctrl-C: the status, and what was printed.

    The first part has a FIFO open at ``fd``. Ctrl-C is pressed, or another signal sent, whenever it
    writes a byte there. When the run has ended nobody may have the FIFO open any more.
    """
    os.mkfifo(fifo := tmp_path / "fifo")
    part = script(f"import signal, subprocess\nfd = os.open({str(fifo)!r}, os.O_WRONLY)\n{command}")
    run = own_run(tmp_path, part, f"run.PATIENCE_S = {patience_s}")
    with (
        subprocess.Popen(run, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process,
        fifo.open("rb", buffering=0) as held,
    ):
        for _ in range(times):
            assert held.read(1) == b"."
            process.send_signal(number)
        printed, _ = process.communicate()
        assert held.read() == b""
    return process.returncode, printed


@pytest.mark.usefixtures("hangups_count")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_ends_what_runs_and_shows_what_ran(number: int, tmp_path: Path) -> None:
    """The part that runs gets it too, and may clean up; what waits isn't begun.

    It is the same when a CI has had enough, and when the terminal is closed.
    """
    command = """
note('a')
try:
    os.write(fd, b'.')
    signal.pause()
finally:
    note('cleaned up')
"""
    status, printed = interrupted(tmp_path, command, number=number)
    assert status == 130
    assert re.search(r"interrupted +│ +2 │", row(printed, "one"))
    assert "not run" in row(printed, "two")


DEAF = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
deaf = "import os, signal; os.write(int(os.sys.argv[1]), b'.'); signal.pause()"
subprocess.run([sys.executable, '-c', deaf, str(fd)], pass_fds=[fd], start_new_session=True)
"""


def test_what_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    """With its processes, also with those that left its process group."""
    status, printed = interrupted(tmp_path, DEAF, patience_s=0.01)
    assert status == 130
    assert "interrupted" in row(printed, "one")


def test_another_ctrl_c_kills_at_once(tmp_path: Path) -> None:
    """Who presses it twice doesn't want to wait."""
    command = """
signal.signal(signal.SIGINT, lambda *_: os.write(fd, b'.'))
os.write(fd, b'.')
while True:
    signal.pause()
"""
    status, printed = interrupted(tmp_path, command, times=2)
    assert status == 130
    assert "interrupted" in row(printed, "one")


def test_the_time_of_orphans_counts(tmp_path: Path) -> None:
    """PySpark leaves its JVM to end by itself."""
    busy = f"import signal\n{BUSY}\nprint(flush=True)\nsignal.pause()"
    part = script(
        "import subprocess\n"
        f"busy = subprocess.Popen([sys.executable, '-c', {busy!r}], stdout=subprocess.PIPE)\n"
        "busy.stdout.readline()"
    )
    run = own_run(tmp_path, part, "running.adopt_orphans()")
    subprocess.run(run, cwd=ROOT, capture_output=True, check=True)
    assert processor_s(tmp_path) >= 1


def test_what_a_part_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """A broker that a test forgot would take processor time from the parts that follow."""
    os.mkfifo(fifo := tmp_path / "fifo")
    left = f"import os, signal; fd = os.open({str(fifo)!r}, os.O_WRONLY); signal.pause()"
    command = (
        "import subprocess\n"
        f"subprocess.Popen([sys.executable, '-c', {left!r}], start_new_session=True)\n"
        f"open({str(fifo)!r}).close()"
    )
    with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as held:
        status, _ = run_tiny(tmp_path, [ONE], {"one": script(command)})
        os.set_blocking(held.fileno(), True)
        assert held.read() == b""
    assert status == 0
