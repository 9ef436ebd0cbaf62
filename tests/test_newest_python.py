"""The Python that ``make newest-python`` takes is the newest that there is."""

import sys
from pathlib import Path

from tests.support.newest_python import candidates, each_minor, newest, version_of


def program(file: Path, says: str) -> Path:
    """An executable that prints a line, and fails without one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho {says}\ntest -n '{says}'\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_the_newest_of_all_counts(tmp_path: Path) -> None:
    """Those on PATH and pyenv's; what isn't a released CPython doesn't count."""
    path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    older = program(path / "python3.98", "cpython final 3 98 4")
    program(path / "python3.99", "")  # a shim of pyenv, of a version that isn't switched on
    program(path / "python3.99-config", "cpython final 3 99 9")
    program(path / "python3.100", "cpython candidate 3 100 0")
    installed = program(pyenv / "versions/3.99.1/bin/python3", "cpython final 3 99 1")
    for name in ("3.99.2t", "3.99.2rc1", "pypy3.99-7.3.17"):
        program(pyenv / "versions" / name / "bin/python3", "cpython final 3 99 2")
    program(pyenv / "versions/3.99.3/bin/python3", "pypy final 3 99 3")
    environment = {"PATH": f"{path}:{tmp_path / 'nowhere'}", "PYENV_ROOT": str(pyenv)}
    found = list(candidates(environment))
    assert found[0] == Path(sys.executable)
    assert newest(found) == installed
    assert newest([older, Path(sys.executable)]) == older


def test_of_equal_versions_the_running_one_counts(tmp_path: Path) -> None:
    """Then there is nothing else to test."""
    numbers = " ".join(map(str, sys.version_info[:3]))
    same = program(tmp_path / f"python3.{sys.version_info.minor}", f"cpython final {numbers}")
    environment = {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    assert list(candidates(environment)) == [Path(sys.executable), same]
    assert newest(candidates(environment)) == Path(sys.executable)
    assert version_of(same) == sys.version_info[:3]


def test_the_newest_of_each_version(tmp_path: Path) -> None:
    """From 3.11 on; the first of equals."""
    named = {
        name: program(tmp_path / name, f"cpython final {numbers}")
        for name, numbers in (
            ("old", "3 10 19"),
            ("first", "3 11 2"),
            ("better", "3 11 7"),
            ("same", "3 11 7"),
            ("other", "3 99 0"),
        )
    }
    assert each_minor(named.values()) == {"3.11": named["better"], "3.99": named["other"]}
