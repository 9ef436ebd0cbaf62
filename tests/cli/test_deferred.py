"""A deferred module costs nothing until it is used, and then is as if it had been imported."""

import sys
import threading

import pytest

from kwire.cli.deferred import defer

SOURCE = """
executed.append(1)
answer = 42
def __getattr__(name):
    if name == "own":
        return "its own"
    raise AttributeError(name)
"""


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """How often the module ``late`` has been executed; it is deferred, and gone after the test."""
    executed = []
    tmp_path.joinpath("late.py").write_text("from builtins import executed" + SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.executed", executed, raising=False)
    monkeypatch.setitem(sys.modules, "late", None)
    del sys.modules["late"]
    defer(["late"])
    return executed


def test_an_import_executes_nothing(executed):
    import late

    assert late.__name__ == "late"
    assert not executed


def test_the_first_use_does(executed):
    import late

    assert late.answer == 42
    from late import answer

    assert (answer, executed) == (42, [1])
    with pytest.raises(AttributeError):
        _ = late.nothing


def test_what_the_module_says_of_missing_names_holds(executed):
    import late

    assert late.answer == 42
    assert late.own == "its own"


def test_threads_execute_it_once(executed):
    import late

    found = []
    threads = [threading.Thread(target=lambda: found.append(late.answer)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, executed) == ([42] * 4, [1])


def test_what_is_loaded_or_missing_is_let_be():
    before = sys.modules["sys"]
    defer(["sys", "no_such_module_anywhere"])
    assert sys.modules["sys"] is before
    assert "no_such_module_anywhere" not in sys.modules
