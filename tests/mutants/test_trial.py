"""A bug is tried on the tests that call its function, in a copy of the tree."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import FOLDERS, say_left_out
from tests.mutants.mutations import Mutation, mutations_of
from tests.mutants.pytest_run import ROOT
from tests.mutants.trial import USERS, Trial

SOURCE = """LIMIT = 3

def small(number):
    return number < LIMIT

def twice(number):
    while number != 10:
        number = number + 1
    return number
"""
TESTS = """import pytest
from kwire.log.numbers import LIMIT, small, twice

def test_small():
    assert small(1)
    assert not small(4)

def test_twice():
    assert twice(9) == 10

def test_fails():
    assert False

def test_nothing():
    pass

@pytest.mark.skip
def test_skipped():
    pass
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """A small project with one file and its tests."""
    root = tmp_path / "root"
    for name, text in {
        "kwire/log/numbers.py": SOURCE,
        "tests/log/test_numbers.py": TESTS,
        "tests/log/test_others.py": "from kwire import log\n\ndef test_others():\n    assert log\n",
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    made = Trial(root, tmp_path / "work")
    made.copy()
    return made


def find(line: int, kind: str) -> Mutation:
    """The bug of this kind in this line."""
    [found] = [
        mutation
        for mutation in mutations_of("kwire/log/numbers.py", SOURCE)
        if (mutation.line, mutation.kind) == (line, kind)
    ]
    return found


def names(tests: dict[str, float]) -> set[str]:
    """What the tests' functions are called."""
    return {name.partition("::")[2] for name in tests}


def test_a_bug_is_tried_on_the_tests_that_call_its_function(trial: Trial) -> None:
    """And on all of the room if the line runs at the import; a test that fails anyway is no use."""
    assert names(trial.near(find(4, "comparison turned round"))) == {"test_small"}
    assert names(trial.near(find(7, "comparison turned round"))) == {"test_twice"}
    everything = {"test_small", "test_twice", "test_nothing", "test_others"}
    assert names(trial.near(find(1, "constant changed"))) == everything
    assert [len(tests) for tests in trial.left_out.values()] == [1, 1]


def test_files_that_import_the_bugs_file_come_first(trial: Trial) -> None:
    """The others aren't even recorded until these have caught nothing."""
    assert names(trial.closest(find(4, "comparison turned round"))) == {"test_small"}
    assert list(trial.recorded) == ["tests/log/test_numbers.py"]
    assert names(trial.near(find(4, "comparison turned round"))) == {"test_small"}
    assert "tests/log/test_others.py" in trial.recorded


def test_a_red_test_is_said_at_the_end(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    """It could have caught a bug, and a table that doesn't say so claims too much."""
    trial.near(find(1, "constant changed"))
    assert not say_left_out(trial.left_out)
    said = capsys.readouterr().out
    assert "LEFT OUT, failed without a bug: tests/log/test_numbers.py::test_fails" in said
    assert say_left_out({"failed": [], "skipped": ["one"]})


def test_rooms_are_there_and_bugs_are_tried_on_all_that_have_bugs() -> None:
    """A bug of any room may be caught by the tests of any other."""
    rooms = {Path(folder).name for folder in FOLDERS}
    assert rooms <= set(USERS)
    assert all((ROOT / "tests" / room).is_dir() for room in USERS)


def test_a_bug_is_caught_by_name_or_it_survives(trial: Trial) -> None:
    """Afterwards the copy has its text again."""
    caught, survives = find(4, "comparison turned round"), find(1, "constant changed")
    name = "tests/log/test_numbers.py::test_small"
    assert trial.try_out(caught, SOURCE, trial.near(caught)) == f"FAILED {name}"
    assert trial.try_out(survives, SOURCE, trial.near(survives)) == ""
    assert (trial.tree / "kwire/log/numbers.py").read_text() == SOURCE


def test_a_bug_that_never_ends_is_caught(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has a limit of its own."""
    endless = find(8, "plus/minus")
    tests = trial.near(endless)
    monkeypatch.setattr("tests.mutants.pytest_run.CPU_S", 0.3)
    name = "tests/log/test_numbers.py::test_twice"
    assert trial.try_out(endless, SOURCE, tests) == f"CUT {name}"
