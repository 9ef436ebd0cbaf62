"""What is shown while several processes run tests."""

from types import SimpleNamespace

from tests.names import Names


def test_each_file_is_named_once():
    """However many of its tests run."""
    lines = []
    reporter = SimpleNamespace(ensure_newline=lambda: None, write_line=lines.append)
    manager = SimpleNamespace(get_plugin=lambda name: reporter)
    names = Names(SimpleNamespace(pluginmanager=manager))
    for name in ("tests/a.py", "tests/b.py", "tests/a.py"):
        names.pytest_runtest_logstart((name, 1, "test"))
    assert lines == ["tests/a.py", "tests/b.py"]


def test_only_a_test_that_passes_has_no_letter():
    """A failure still shows where it happens."""
    names = Names(SimpleNamespace())
    passed = SimpleNamespace(when="call", passed=True)
    failed = SimpleNamespace(when="call", passed=False)
    assert names.pytest_report_teststatus(passed) == ("passed", "", "PASSED")
    assert names.pytest_report_teststatus(failed) is None
