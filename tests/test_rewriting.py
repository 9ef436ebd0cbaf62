"""Processes that run tests together share the rewriting of the test files."""

from types import SimpleNamespace

import pytest

from tests.rewriting import is_taken, rewrite_a_share, rewritten


@pytest.fixture
def files(tmp_path):
    """Test files that nobody has rewritten."""
    paths = [tmp_path / f"test_{n}.py" for n in range(4)]
    for path in paths:
        path.write_text("def test_one():\n    assert True\n")
    return paths


def _process(pytestconfig, directory, number, count=2):
    """The configuration of one of several processes, which run the tests in a directory."""
    return SimpleNamespace(
        workerinput={"workerid": f"gw{number}", "workercount": count},
        stash=pytestconfig.stash,
        invocation_params=SimpleNamespace(dir=directory),
        args=["."],
        getini=pytestconfig.getini,
    )


def test_every_process_begins_elsewhere_and_takes_what_is_left(
    files, tmp_path, monkeypatch, pytestconfig
):
    """A file that is there already is passed over."""
    taken = []

    def write(path, _config, _state):
        taken.append(rewritten(path))
        rewritten(path).touch()

    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setattr("tests.rewriting.write", write)
    rewritten(files[0]).parent.mkdir()
    rewritten(files[3]).touch()
    rewrite_a_share(_process(pytestconfig, tmp_path, 1))
    assert taken == [rewritten(files[n]) for n in (2, 0, 1)]
    rewrite_a_share(_process(pytestconfig, tmp_path, 0))
    assert len(taken) == 3


def test_pytest_takes_what_was_rewritten(files, tmp_path, monkeypatch, pytestconfig):
    """It is where pytest looks for it, in pytest's own form."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    rewrite_a_share(_process(pytestconfig, tmp_path, 0))
    assert all(is_taken(path) for path in files)


def test_a_single_process_leaves_it_to_pytest(files, pytestconfig):
    """Nobody shares it."""
    alone = SimpleNamespace(stash=pytestconfig.stash)
    rewrite_a_share(alone)
    assert not rewritten(files[0]).exists()
