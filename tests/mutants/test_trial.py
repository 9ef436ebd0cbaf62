"""A bug is tried on the tests that call its function, in a copy of the tree."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import FOLDERS, Results, Run, say_left_out
from tests.mutants.mutations import Mutation, mutations_of
from tests.mutants.session import ROOT
from tests.mutants.trial import USERS, Trial

SOURCE = """LIMIT = 3

def small(number):
    return number < LIMIT

def twice(number):
    while number != 10:
        number = number + 1
    return number

def first(numbers):
    return numbers[0]

FIRST = first([1, 2])
"""
TESTS = """import pytest
from kwire.log.numbers import FIRST, LIMIT, small, twice

def test_small():
    assert small(1)
    assert not small(4)

def test_twice():
    assert twice(9) == 10

def test_first():
    assert FIRST == 1

def test_fails():
    assert False

def test_nothing():
    pass

@pytest.mark.skip
def test_skipped():
    pass
"""
FILE = "tests/log/test_numbers.py"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """A small project with one file and its tests, which are recorded."""
    root = tmp_path_factory.mktemp("root")
    for name, text in {
        "kwire/log/numbers.py": SOURCE,
        FILE: TESTS,
        "tests/log/test_others.py": "from kwire import log\n\ndef test_others():\n    assert log\n",
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    made = Trial(root, tmp_path_factory.mktemp("work"))
    made.copy()
    made.collected(lambda collected: None)
    return made


def find(line: int, kind: str) -> Mutation:
    """The bug of this kind in this line."""
    [found] = [
        mutation
        for mutation in mutations_of("kwire/log/numbers.py", SOURCE)
        if (mutation.line, mutation.kind) == (line, kind)
    ]
    return found


def names(stages: list[dict[str, float]]) -> list[set[str]]:
    """What the tests' functions are called, for each stage."""
    return [{name.partition("::")[2] for name in tests} for tests in stages]


def tried(trial: Trial, mutation: Mutation, results: Path) -> str:
    """What became of a bug."""
    found = Results(results)
    run = Run([mutation], {mutation.path: SOURCE}, found, trial)
    run.try_out(set(run.keys))
    [caught_by] = found.known.values()
    return caught_by


def test_a_bug_is_tried_on_the_tests_that_call_its_function(trial: Trial) -> None:
    """A test that fails anyway is no use."""
    only = names(trial.stages(find(4, "comparison turned round")))
    assert only == [{"test_small"}, set(), set()]
    only = names(trial.stages(find(7, "comparison turned round")))
    assert only == [{"test_twice"}, set(), set()]
    assert [len(tests) for tests in trial.left_out.values()] == [1, 1]


@pytest.mark.parametrize(("line", "kind"), [(1, "constant changed"), (12, "other end")])
def test_what_an_import_runs_is_tried_on_all_of_the_room(
    trial: Trial, line: int, kind: str
) -> None:
    """It may be used far from its file; files that import the bug's file come first."""
    near = {"test_small", "test_twice", "test_first", "test_nothing"}
    assert names(trial.stages(find(line, kind))) == [near, {"test_others"}, set()]


def test_a_bug_has_so_much_time(trial: Trial) -> None:
    """The nearest tests are tried."""
    short = Trial(trial.root, trial.work, most_s=0)
    short.copy()
    short.collected(lambda collected: None)
    assert not any(short.stages(find(4, "comparison turned round")))


def test_a_red_test_is_said_at_the_end(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    """It could have caught a bug, and a table that doesn't say so claims too much."""
    assert not say_left_out(trial.left_out)
    said = capsys.readouterr().out
    assert f"LEFT OUT, failed without a bug: {FILE}::test_fails" in said
    assert say_left_out({"failed": [], "skipped": ["one"]})


def test_rooms_are_there_and_bugs_are_tried_on_all_that_have_bugs() -> None:
    """A bug of any room may be caught by the tests of any other."""
    rooms = {Path(folder).name for folder in FOLDERS}
    assert rooms <= set(USERS)
    assert all((ROOT / "tests" / room).is_dir() for room in USERS)


@pytest.mark.parametrize(
    ("line", "kind", "by"),
    [
        (4, "comparison turned round", "test_small"),
        (12, "other end", "test_first"),
        (4, "comparison moved by one", ""),
        (1, "constant changed", ""),
    ],
)
def test_a_bug_is_caught_by_name_or_it_is_missed(
    trial: Trial, tmp_path: Path, line: int, kind: str, by: str
) -> None:
    """In a function of a session that was there, or in a module that is imported with it."""
    wanted = f"FAILED {FILE}::{by}" if by else ""
    assert tried(trial, find(line, kind), tmp_path / "results") == wanted
    assert (trial.tree / "kwire/log/numbers.py").read_text() == SOURCE


def test_a_bug_that_never_ends_is_caught(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test has a limit of its own."""
    monkeypatch.setattr("tests.mutants.session.CPU_S", 0.3)
    endless = find(8, "plus/minus")
    assert tried(trial, endless, tmp_path / "results") == f"CUT {FILE}::test_twice"
