"""`make test` runs parts side by side, says what runs, and ends with tables."""

import io
import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.parts import run as runner
from tests.parts.parts import PARTS, Part, read_measured
from tests.parts.run import RESULTS, run_all
from tests.parts.tiny import MEASURED, ONE, THREE, TWO, row, run_tiny, script


def test_every_part_runs_also_after_one_that_failed(tmp_path: Path) -> None:
    """The table is shown; the part and the tests that failed are named; the status says so."""
    commands = {
        "one": script("for n in range(5): note(f't{n}')"),
        "two": script("note('a', 'failed'); note('b'); print('E  assert 1 == 2'); sys.exit(2)"),
        "three": script("note('a'); note('b', 'skipped')"),
    }
    status, printed = run_tiny(tmp_path, [ONE, TWO, THREE], commands)
    assert status == 1
    assert re.search(r"ok +│ +5 │ +│ +│", row(printed, "one"))
    assert re.search(r"failed \(2\) +│ +1 │ +│ +1 │", row(printed, "two"))
    assert re.search(r"ok +│ +1 │ +1 │ +│", row(printed, "three"))
    assert "2 of 3: two" in printed
    assert "E  assert 1 == 2" in printed
    assert f"\ntwo: failed (all it printed: {tmp_path / 'two.txt'})\n  a\nwhat ran" in printed


def test_what_parts_print_side_by_side_is_not_mixed(tmp_path: Path) -> None:
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
    status, printed = run_tiny(tmp_path, [ONE, TWO], commands, cores=2)
    assert status == 0
    assert "one begins\none ends\n" in printed
    assert "two begins\ntwo ends\n" in printed
    assert (tmp_path / "one.txt").read_text() == "one begins\none ends\n"


def test_the_plan_comes_first(tmp_path: Path) -> None:
    """What it does, how long that takes and what it downloads are said before anything runs."""
    part = Part("one", "the only tests", 1, "30 MB of jars")
    status, printed = run_tiny(tmp_path, [part], {"one": script("")})
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


def test_a_part_alone_prints_as_it_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """To where everything is printed, not to a file."""
    status, _ = run_tiny(tmp_path, [ONE], {"one": script("os.write(1, b'a'); os.write(2, b'b')")})
    assert status == 0
    assert capfd.readouterr() == ("a", "b")


def test_the_slowest_tests_of_all_parts_are_shown(tmp_path: Path) -> None:
    """Thirty of them, the slowest first, and programs find them in a file."""
    commands = {
        "one": script("for n in range(20): note(f'one {n}', seconds=n)"),
        "two": script("for n in range(20): note(f'two[{n}]', seconds=n + 0.5)"),
    }
    _, printed = run_tiny(tmp_path, [ONE, TWO], commands)
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


def test_the_slowest_files_of_all_parts_are_shown(tmp_path: Path) -> None:
    """By the sum of their tests; a file that two parts run is two."""
    note = "for n in range({}): note(f'a/test_{}.py::test[{{n}}]', seconds={})"
    commands = {
        "one": script(note.format(100, "many", 0.5) + "\n" + note.format(1, "few", 9)),
        "two": script(note.format(20, "many", 0.5)),
    }
    _, printed = run_tiny(tmp_path, [ONE, TWO], commands)
    files = re.findall(r"^│ (\w+) +│ (a/\S+) +│ +(\d+) │ +(\d+ s) │$", printed, re.MULTILINE)
    assert files == [
        ("one", "a/test_many.py", "100", "50 s"),
        ("two", "a/test_many.py", "20", "10 s"),
        ("one", "a/test_few.py", "1", "9 s"),
    ]
    [first, *_] = json.loads((tmp_path / RESULTS).read_text())["slowest_files"]
    assert first == {"part": "one", "file": "a/test_many.py", "tests": 100, "seconds": 50.0}
