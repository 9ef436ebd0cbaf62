"""A run of pytest notes its tests for the tables of `make test`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts.report import REPORT, Noted, read_report

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-c", os.devnull, "--continue-on-collection-errors")
TESTS = """
import os
import pytest

@pytest.fixture
def broken():
    yield
    assert False

def test_passes(): pass
def test_fails(): assert False
def test_fails_late(broken): pass
@pytest.mark.skip
def test_skipped(): pass
def test_the_file_is_not_for_a_pytest_that_a_test_starts():
    assert "KWIRE_TEST_REPORT" not in os.environ
"""


@pytest.mark.parametrize("options", [[], ["-p", "xdist", "-n2"]], ids=["one process", "several"])
def test_each_test_is_noted_once(options: list[str], tmp_path: Path) -> None:
    """With how it ended, behind those of the run before."""
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['tests.parts.report']\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import nothing_that_is_there\n")
    report = tmp_path / "report.jsonl"
    before = Noted("before", "passed", 0.5)
    report.write_text(json.dumps(before._asdict()) + "\n")
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [*PYTEST, *options],
        cwd=tmp_path,
        env={**os.environ, **environment, REPORT: str(report)},
        capture_output=True,
        check=False,
    )
    first, *noted = read_report(report)
    assert first == before
    assert sorted((one.test, one.outcome) for one in noted) == [
        ("test_broken.py", "failed"),
        ("test_it.py::test_fails", "failed"),
        ("test_it.py::test_fails_late", "failed"),
        ("test_it.py::test_passes", "passed"),
        ("test_it.py::test_skipped", "skipped"),
        ("test_it.py::test_the_file_is_not_for_a_pytest_that_a_test_starts", "passed"),
    ]
    assert all(one.seconds < 60 for one in noted)
