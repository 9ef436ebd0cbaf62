"""`make test` says what it will do, runs every part, and ends with one table."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tests.parts.__main__ import main
from tests.parts.parts import PARTS, Part, Tally, duration, make_command, run_all, run_part

ROOT = Path(__file__).parents[2]
ONE, TWO, THREE = (Part(name, "tests", "1 min") for name in ("one", "two", "three"))


def say(text: str, status: int = 0) -> list[str]:
    """A command that prints a text and ends with a status."""
    return [sys.executable, "-c", f"import sys; print({text!r}); sys.exit({status})"]


def shown(parts: Sequence[Part], commands: dict[str, list[str]]) -> tuple[int, str, bytes]:
    """The status, the tables, and what the parts printed."""
    tables, printed = io.StringIO(), io.BytesIO()
    console = Console(file=tables, width=100)
    status = run_all(parts, lambda part: commands[part.target], console, printed.write)
    return status, tables.getvalue(), printed.getvalue()


def row(tables: str, name: str) -> str:
    """The row of the last table that begins with this name."""
    return re.findall(rf"^│ {name} .*$", tables, re.MULTILINE)[-1]


@pytest.mark.parametrize(
    ("line", "tests"),
    [
        (b"2953 passed in 153.46s (0:02:33)", {"passed": 2953}),
        (b"===== 1 failed, 58 passed, 3 skipped in 116.52s =====", {"failed": 1, "passed": 58}),
        (b"\x1b[32m\x1b[1m6 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m\x1b[32m in 2.21s\x1b[0m", None),
        (b"2 passed, 7 deselected, 2 errors in 0.50s", {"passed": 2, "error": 2}),
        (b"1 error in 0.50s", {"error": 1}),
        (b"9 passed, 2 rerun in 0.50s", {"passed": 9, "rerun": 2}),
        (b"he said that 3 passed in 1.0s", {}),
        (b"no tests ran in 0.01s", {}),
    ],
)
def test_the_last_lines_of_pytest_are_counted(line: bytes, tests: dict[str, int] | None) -> None:
    """Quiet or not, with or without colors; nothing else counts."""
    expected = {"passed": 6, "skipped": 1} if tests is None else tests
    if b"3 skipped" in line:
        expected = expected | {"skipped": 3}
    tally = Tally()
    tally.feed(b"before\n" + line + b"\nafter")
    assert dict(tally.tests) == expected


def test_output_may_be_cut_anywhere_and_runs_add_up() -> None:
    """A part may run pytest more than once."""
    whole, bytewise = Tally(), Tally()
    output = b"...\n12 passed in 1.00s\n...\n" + b"." * 5000 + b"\n3 passed, 1 skipped in 2.00s\n"
    whole.feed(output)
    for at in range(len(output)):
        bytewise.feed(output[at : at + 1])
    assert dict(whole.tests) == dict(bytewise.tests) == {"passed": 15, "skipped": 1}


def test_every_part_runs_also_after_one_that_failed() -> None:
    """The table is shown, names the part that failed, and the status says so."""
    commands = {
        "one": say("5 passed in 0.10s"),
        "two": say("1 failed, 4 passed in 0.10s", 2),
        "three": say("7 passed, 2 skipped in 0.10s"),
    }
    status, tables, printed = shown([ONE, TWO, THREE], commands)
    assert status == 1
    assert re.search(r"ok +│ +5 ", row(tables, "one"))
    assert re.search(r"failed \(2\) +│ +4 │ +│ +1 ", row(tables, "two"))
    assert re.search(r"ok +│ +7 │ +2 ", row(tables, "three"))
    assert b"1 failed, 4 passed" in printed


def test_all_well_is_status_0_and_the_plan_comes_first() -> None:
    """What it does, how long that takes and what it downloads are said before anything runs."""
    part = Part("one", "the only tests", "7 min", "30 MB of jars")
    status, tables, _ = shown([part], {"one": say("no pytest here")})
    assert status == 0
    first = tables.partition("1 of 1: one")[0]
    assert "the only tests" in first
    assert "7 min" in first
    assert "30 MB of jars" in first


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut(width: int) -> None:
    """A narrow terminal folds what doesn't fit, and leaves the names of the parts in one piece."""
    tables = io.StringIO()
    run_all(PARTS, lambda part: say("1 passed in 0.1s"), Console(file=tables, width=width), bytes)
    printed = tables.getvalue()
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= width
    for part in PARTS:
        assert printed.count(f"│ {part.target} ") == 2
        assert f": {part.target} " in printed


def test_an_interrupted_run_shows_what_ran() -> None:
    """And what did not."""

    def interrupt(output: bytes) -> None:
        if b"stop" in output:
            raise KeyboardInterrupt

    tables = io.StringIO()
    commands = {"one": say("5 passed in 0.10s"), "two": say("stop"), "three": say("never")}
    console = Console(file=tables, width=100)
    status = run_all([ONE, TWO, THREE], lambda part: commands[part.target], console, interrupt)
    assert status == 130
    assert "ok" in row(tables.getvalue(), "one")
    assert "not run" in row(tables.getvalue(), "two")
    assert "not run" in row(tables.getvalue(), "three")


def test_a_part_may_run_few_tests_again() -> None:
    """Few are bad luck on a busy machine; of more a part fails, although all passed in the end."""
    commands = {"one": say("5 passed, 3 rerun in 0.10s"), "two": say("5 passed, 4 rerun in 0.10s")}
    status, tables, _ = shown([ONE, TWO], commands)
    assert status == 1
    assert re.search(r"ok +│ +5 │ +│ +│ +3 │", row(tables, "one")), tables
    assert re.search(r"failed \(1\) +│ +5 │ +│ +│ +4 │", row(tables, "two")), tables


def test_output_is_passed_on_as_it_comes() -> None:
    """Also from a line that isn't finished, and what goes to stderr."""
    seen = []
    command = [sys.executable, "-c", "import os; os.write(1, b'a'); os.write(2, b'b\\n'); input()"]
    read, write = os.pipe()  # the command ends when the pipe does, which is after its output came

    def take(output: bytes) -> None:
        seen.append(output)
        if b"".join(seen) == b"ab\n":
            os.close(write)

    old = os.dup(0)
    os.dup2(read, 0)
    try:
        status, _ = run_part(command, take)
    finally:
        os.dup2(old, 0)
        os.close(old)
        os.close(read)
    assert b"".join(seen).startswith(b"ab\n")
    assert status == 1  # EOFError: nothing was to be read


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
