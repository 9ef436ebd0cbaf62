"""A bug is tried on the tests that call its function, in a copy of the tree."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutation, mutations_of
from tests.mutants.trial import Trial

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
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """A small project with one file and its tests."""
    root = tmp_path / "root"
    for name, text in {
        "kwire/log/numbers.py": SOURCE,
        "tests/log/test_numbers.py": TESTS,
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
    everything = {"test_small", "test_twice", "test_nothing"}
    assert names(trial.near(find(1, "constant changed"))) == everything


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
