"""`make test` says what it will do, runs parts side by side, and ends with tables."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tests.parts import run as runner
from tests.parts.__main__ import main
from tests.parts.parts import (
    PAGE,
    PARTS,
    ROOT,
    Measured,
    Part,
    duration,
    longest_first,
    next_part,
    page_with_table,
    read_measured,
)
from tests.parts.report import REPORT
from tests.parts.run import RESULTS, make_command, run_all
from tests.parts.tables import write_measured

ONE, TWO, THREE = (Part(name, "tests") for name in ("one", "two", "three"))
MEASURED: Measured = {
    "seconds": 600,
    "cores": 2,
    "parts": {
        "one": {"seconds": 30, "processor_s": 20},
        "two": {"seconds": 20, "processor_s": 20},
        "three": {"seconds": 10, "processor_s": 5},
    },
}
NOTE = f"""
import json, os, sys
def note(test, outcome="passed", seconds=0.0):
    with open(os.environ["{REPORT}"], "a") as file:
        file.write(json.dumps(dict(test=test, outcome=outcome, seconds=seconds)) + "\\n")
"""
"""What the commands of these tests begin with: a part without pytest that notes its tests."""


def script(text: str) -> list[str]:
    """A command that runs some Python."""
    return [sys.executable, "-c", NOTE + text]


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def shown(tmp_path: Path) -> Run:
    """Runs parts of these commands: the status, and all that was printed."""

    def run(
        parts: Sequence[Part], commands: dict[str, list[str]], cores: int = 1
    ) -> tuple[int, str]:
        printed = io.StringIO()
        console = Console(file=printed, width=100)
        command = lambda part: commands[part.target]  # noqa: E731
        status = run_all(parts, command, console, MEASURED, cores=cores, logs=tmp_path)
        return status, printed.getvalue()

    return run


def row(printed: str, name: str) -> str:
    """The row of the last table that begins with this name."""
    return re.findall(rf"^│ {name} .*$", printed, re.MULTILINE)[-1]


def started(parts: Sequence[Part], cores: int) -> list[set[str]]:
    """Which parts run at the same time, if the one that began first always ends first."""
    waiting, running, seen = list(parts), [], []
    while waiting or running:
        while part := next_part(waiting, running, cores):
            waiting.remove(part)
            running.append(part)
        seen.append({part.target for part in running})
        running.pop(0)
    return seen


def test_parts_that_fit_run_side_by_side() -> None:
    """A part with both cores runs alone, two that wait most of their time run together."""
    parts = [Part("long", "", 1), Part("whole", "", 2), Part("half", "", 1)]
    assert started(parts, cores=2) == [{"long", "half"}, {"half"}, {"whole"}]
    assert started(parts, cores=4) == [{"long", "whole", "half"}, {"whole", "half"}, {"half"}]


def test_one_core_runs_one_part_after_the_other() -> None:
    """Also one that would keep more cores busy."""
    parts = [Part("whole", "", 2), Part("half", "", 1), Part("more", "", 3)]
    assert started(parts, cores=1) == [{"whole"}, {"half"}, {"more"}]


def test_the_longest_is_first() -> None:
    """It decides when the run ends; a part that nobody has measured may be the longest."""
    unknown = Part("unknown", "")
    assert longest_first([THREE, TWO, unknown, ONE], MEASURED) == [unknown, ONE, TWO, THREE]


def test_every_part_runs_also_after_one_that_failed(shown: Run, tmp_path: Path) -> None:
    """The table is shown; the part and the tests that failed are named; the status says so."""
    commands = {
        "one": script("for n in range(5): note(f't{n}')"),
        "two": script("note('a', 'failed'); note('b'); print('E  assert 1 == 2'); sys.exit(2)"),
        "three": script("note('a'); note('b', 'skipped')"),
    }
    status, printed = shown([ONE, TWO, THREE], commands)
    assert status == 1
    assert re.search(r"ok +│ +5 │ +│ +│", row(printed, "one"))
    assert re.search(r"failed \(2\) +│ +1 │ +│ +1 │", row(printed, "two"))
    assert re.search(r"ok +│ +1 │ +1 │ +│", row(printed, "three"))
    assert "2 of 3: two" in printed
    assert "E  assert 1 == 2" in printed
    assert f"\ntwo: failed (all it printed: {tmp_path / 'two.txt'})\n  a\nwhat ran" in printed


def test_what_parts_print_side_by_side_is_not_mixed(shown: Run, tmp_path: Path) -> None:
    """Each part's output is kept in a file and shown whole, below its name, when it has ended."""
    os.mkfifo(there := tmp_path / "there")
    os.mkfifo(back := tmp_path / "back")
    commands = {  # the second prints between the two lines of the first
        "one": script(
            f"print('one begins', flush=True); open({str(there)!r}, 'w').close()\n"
            f"open({str(back)!r}).read(); print('one ends')"
        ),
        "two": script(
            f"open({str(there)!r}).read(); print('two begins\\ntwo ends', flush=True)\n"
            f"open({str(back)!r}, 'w').close()"
        ),
    }
    status, printed = shown([ONE, TWO], commands, cores=2)
    assert status == 0
    assert "one begins\none ends\n" in printed
    assert "two begins\ntwo ends\n" in printed
    assert (tmp_path / "one.txt").read_text() == "one begins\none ends\n"


def test_the_plan_comes_first(shown: Run) -> None:
    """What it does, how long that takes and what it downloads are said before anything runs."""
    part = Part("one", "the only tests", 1, "30 MB of jars")
    status, printed = shown([part], {"one": script("")})
    assert status == 0
    first = printed.partition("1 of 1: one")[0]
    assert "the only tests" in first
    assert "30 s" in first
    assert "30 MB of jars" in first


@pytest.mark.parametrize("is_terminal", [False, True])
def test_one_line_says_what_runs(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which parts, for how long, and how many are to come: a CI ends what is silent too long."""
    monkeypatch.setattr(runner, "SILENCE_S", 0.01)
    monkeypatch.setattr(runner, "REFRESH_S", 0.01)
    os.mkfifo(fifo := tmp_path / "fifo")
    said = []

    class Printed(io.StringIO):
        def write(self, text: str) -> int:
            if found := re.search(r"one \d+ s \(usually 30 s\); 1 to come", text):
                if not said:
                    fifo.open("w").close()  # now the part may end
                said.append(found[0])
            return super().write(text)

    commands = {"one": script(f"open({str(fifo)!r}).read()"), "two": script("")}
    console = Console(file=Printed(), width=100, force_terminal=is_terminal)
    command = lambda part: commands[part.target]  # noqa: E731
    assert run_all([ONE, TWO], command, console, MEASURED, cores=1, logs=tmp_path) == 0
    assert said


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut(width: int, tmp_path: Path) -> None:
    """A narrow terminal folds what doesn't fit, and leaves the names of the parts in one piece."""
    printed = io.StringIO()
    console = Console(file=printed, width=width)
    command = lambda part: ["true"]  # noqa: E731
    run_all(PARTS, command, console, read_measured(), cores=2, logs=tmp_path)
    text = printed.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for part in PARTS:
        assert text.count(f"│ {part.target} ") == 2
        assert f": {part.target} " in text


def test_a_part_alone_prints_as_it_goes(shown: Run, capfd: pytest.CaptureFixture[str]) -> None:
    """To where everything is printed, not to a file."""
    status, _ = shown([ONE], {"one": script("os.write(1, b'a'); os.write(2, b'b')")})
    assert status == 0
    assert capfd.readouterr() == ("a", "b")


def test_the_slowest_tests_of_all_parts_are_shown(shown: Run, tmp_path: Path) -> None:
    """Thirty of them, the slowest first, and programs find them in a file."""
    commands = {
        "one": script("for n in range(20): note(f'one {n}', seconds=n)"),
        "two": script("for n in range(20): note(f'two[{n}]', seconds=n + 0.5)"),
    }
    _, printed = shown([ONE, TWO], commands)
    tests = re.findall(r"^│ +([\d.]+) s │ (\w+) +│ (\S.*?) +│$", printed, re.MULTILINE)
    assert tests[:3] == [
        ("19.5", "two", "two[19]"),
        ("19.0", "one", "one 19"),
        ("18.5", "two", "two[18]"),
    ]
    assert len(tests) == 30
    results = json.loads((tmp_path / RESULTS).read_text())
    assert results["slowest"][0] == {
        "part": "two",
        "test": "two[19]",
        "outcome": "passed",
        "seconds": 19.5,
    }
    assert results["parts"]["one"]["passed"] == 20


BUSY = "import time\nwhile time.process_time() < 0.6: pass"
"""Uses what is a second of a processor when it is rounded."""


def processor_s(logs: Path) -> int:
    """The seconds of processors that the part ``one`` of a run has used."""
    found: int = json.loads((logs / RESULTS).read_text())["parts"]["one"]["processor_s"]
    return found


def test_processor_time_is_that_of_all_processes(shown: Run, tmp_path: Path) -> None:
    """Also of those that a part's command has started and waited for."""
    waits = f"import subprocess; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    shown([ONE], {"one": script(waits)})
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


def test_what_a_part_leaves_behind_ends_with_it(shown: Run, tmp_path: Path) -> None:
    """A broker that a test forgot would take processor time from the parts that follow."""
    os.mkfifo(fifo := tmp_path / "fifo")
    left = f"import os, signal; fd = os.open({str(fifo)!r}, os.O_WRONLY); signal.pause()"
    command = (
        "import subprocess\n"
        f"subprocess.Popen([sys.executable, '-c', {left!r}], start_new_session=True)\n"
        f"open({str(fifo)!r}).close()"
    )
    with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as held:
        status, _ = shown([ONE], {"one": script(command)})
        os.set_blocking(held.fileno(), True)
        assert held.read() == b""
    assert status == 0


def test_the_times_of_a_run_become_the_usual_ones(shown: Run, tmp_path: Path) -> None:
    """Those of parts that went well; the documentation shows them."""
    check, compat = (part for part in PARTS if part.target in ("check", "compat"))
    commands = {"check": script(""), "compat": script("sys.exit(1)")}
    shown([check, compat], commands)
    known = {
        "check": {"seconds": 99, "processor_s": 9},
        "compat": {"seconds": 88, "processor_s": 8},
    }
    file, page = tmp_path / "measured.json", tmp_path / "page.md"
    file.write_text(json.dumps({"seconds": 600, "cores": 2, "parts": known}))
    page.write_text("before\n<!-- parts -->\nold\n<!-- end of parts -->\nafter\n")
    assert write_measured(tmp_path / RESULTS, file, page) == "check"
    found = read_measured(file)
    assert found["parts"]["check"]["seconds"] < 60
    assert found["parts"]["compat"] == known["compat"]
    assert found["seconds"] == 600  # not all parts ran
    text = page.read_text()
    assert "| `compat` | stock clients and Kafka's Java tools | 1 | 1 min 28 s | 8 s |" in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end of parts -->\nafter\n")
    assert "old" not in text


def test_the_documentation_has_the_parts_and_times_of_today() -> None:
    """``python -m tests.parts --measured`` has been run since they changed."""
    page = PAGE.read_text(encoding="utf-8")
    assert "| `check` |" in page
    assert page_with_table(page, read_measured()) == page


def test_every_part_is_a_target_of_the_makefile() -> None:
    """Make would do it, and names the file of each test while it works."""
    for part in PARTS:
        command = [*make_command(part), "-n"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert "pytest -q" not in said, part.target


def test_names_choose_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no part has is an error that names them all."""
    assert main(["chek"]) == 2
    said = capsys.readouterr().err
    assert "chek" in said
    assert all(part.target in said for part in PARTS)


def test_a_time_is_read_easily() -> None:
    """Seconds up to a minute, then both."""
    assert [duration(s) for s in (0.4, 59.4, 59.6, 125)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "2 min 05 s",
    ]
